#pragma once

#include <cstdint>
#include <string>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// Where clips come from.
struct VideoOptions {
  std::string kind = "moving";  ///< see open_videos()
  std::string path;             ///< the folder that holds the files
  int64_t frames = 16;          ///< T: of a longer or shorter recording, frames at equal distances
  int64_t image_size = 64;      ///< H and W
  std::string label;            ///< what is classified, see open_videos(); empty: "motion", of episodes "task"
  int64_t window = 60;          ///< radhar: frames of a recording that make a clip
  int64_t stride = 10;          ///< radhar: frames from one window to the next
  bool in_memory = false;       ///< decode every clip once and keep it
  int64_t validation = 0;       ///< training clips (whole episodes, recordings of radhar) held out, drawn by `seed`
  uint64_t seed = 0;            ///< also of the motions
  int64_t synthetic_train = 4096;
  int64_t synthetic_test = 1024;
  int64_t limit = 0;
  int64_t workers = 2;

  /// Refuses a field that is out of its range, by its name: frames and image_size from 1 to 4096, counts >= 0, workers
  /// at most 1024. `origin` starts the text. open_videos and configuration files call it.
  void check(const std::string& origin = "open_videos: ") const;
};

/// Names and explains every field: files, command lines and help come from here.
template <class Visitor>
void visit(Visitor& v, VideoOptions& o) {
  v("kind", o.kind,
    "moving (images of an IDX data set), synthetic (generated ones), frame_folder, video_folder (AVI, Y4M), episodes, "
    "or radhar");
  v("path", o.path, "the folder that holds the files; of radhar the npz file; none for synthetic");
  v("frames", o.frames, "frames of a clip, at equal distances in a recording");
  v("image_size", o.image_size, "height and width of a frame");
  v("label", o.label,
    "what is classified: class, motion or both of moving and synthetic, task or object of episodes; empty: motion, "
    "task");
  v("window", o.window, "radhar: frames of a recording that make a clip");
  v("stride", o.stride, "radhar: frames from one window to the next");
  v("in_memory", o.in_memory,
    "decode every clip once and keep it, frames x channels x image_size x image_size bytes each");
  v("validation", o.validation,
    "training clips held out for validation; of episodes and radhar whole episodes and recordings");
  v("seed", o.seed, "draws the validation clips, the limited ones, motions and synthetic images");
  v("synthetic_train", o.synthetic_train, "training clips that synthetic makes");
  v("synthetic_test", o.synthetic_test, "test clips that synthetic makes");
  v("limit", o.limit, "train on this many of the clips that remain; 0: all");
  v("workers", o.workers, "threads that make a batch each ahead of training; 0: none");
}

}  // namespace topomask
