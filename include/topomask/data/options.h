#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// Where images come from, and how they are varied while training.
struct DataOptions {
  std::string kind = "synthetic";
  std::string path;
  int64_t validation = 0;
  int64_t limit = 0;
  uint64_t split_seed = 0;
  int64_t image_size = 64;
  int64_t synthetic_train = 4096;
  int64_t synthetic_test = 1024;
  int64_t workers = 2;
  int64_t prefetch = 4;
  int64_t crop_padding = 0;
  bool flip = false;
  double mixup = 0;
  double cutmix = 0;
  std::vector<double> mean;
  std::vector<double> standard_deviation;

  /// Refuses a field that is out of its range, by its name: counts >= 0, image_size from 1 to 4096, workers from 0 to
  /// 1024, prefetch from 0 to 65536, mixup and cutmix finite and >= 0, mean finite, standard_deviation finite and > 0.
  /// `origin` starts the text. open_dataset and configuration files call it.
  void check(const std::string& origin = "open_dataset: data.") const;
};

/// Names and explains every field: files, command lines and help come from here.
template <class Visitor>
void visit(Visitor& v, DataOptions& o) {
  v("kind", o.kind, "idx (the format of MNIST), cifar10, cifar100, image_folder, or synthetic");
  v("path", o.path, "the folder that holds the files; none for synthetic");
  v("validation", o.validation, "training images held out for validation, drawn by split_seed");
  v("limit", o.limit, "train on this many of the images that remain; 0: all");
  v("split_seed", o.split_seed, "draws the validation images, the limited ones, and synthetic images");
  v("image_size", o.image_size, "side that images of image_folder and synthetic have; others keep theirs");
  v("synthetic_train", o.synthetic_train, "training images that synthetic makes");
  v("synthetic_test", o.synthetic_test, "test images that synthetic makes");
  v("workers", o.workers, "threads that read and decode ahead; 0: none");
  v("prefetch", o.prefetch, "batches kept ready");
  v("crop_padding", o.crop_padding, "training images are padded by this many zeros on each side and cropped back");
  v("flip", o.flip, "training images are mirrored left to right, half of the time");
  v("mixup", o.mixup, "mix-up: images are blended by a Beta(a, a) weight; 0: off");
  v("cutmix", o.cutmix, "cut-mix: a rectangle is exchanged, its area by a Beta(a, a) weight; 0: off");
  v("mean", o.mean, "subtracted from each channel, of values in [0, 1]; empty: what is usual for the kind");
  v("standard_deviation", o.standard_deviation, "divides each channel after that; empty: what is usual for the kind");
}

}  // namespace topomask
