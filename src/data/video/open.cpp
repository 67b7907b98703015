#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstring>

#include "core/checks.h"
#include "data/random_order.h"
#include "data/video/names.h"
#include "data/video/readers.h"
#include "topomask/data/image.h"

namespace topomask {
namespace {

constexpr int64_t kSyntheticSide = 16;

class VideoSubset final : public VideoDataset {
 public:
  VideoSubset(VideoPtr whole, std::vector<int64_t> places)
      : VideoDataset([&] {
          VideoInfo info = whole->info();
          info.size = std::ssize(places);
          return info;
        }()),
        whole_(std::move(whole)),
        places_(std::move(places)) {}

  int64_t read(int64_t index, uint8_t* clip) const override {
    return whole_->read(places_[static_cast<size_t>(index)], clip);
  }

 private:
  VideoPtr whole_;
  std::vector<int64_t> places_;
};

/// Clips decoded once.
class ClipsInMemory final : public VideoDataset {
 public:
  explicit ClipsInMemory(const VideoDataset& decoded) : VideoDataset(decoded.info()) {
    const auto& [t, c, h, w] = clip_shape();
    constexpr int64_t kMost = int64_t{1} << 38;
    bytes_ = checked_product("open_videos", "the bytes of a clip", {t, c, h, w}, kMost);
    checked_product("open_videos", "the bytes of clips in memory", {bytes_, size()}, kMost);
    clips_ = at::empty({size(), bytes_}, at::kByte);
    labels_.resize(static_cast<size_t>(size()));
    uint8_t* const out = clips_.mutable_data_ptr<uint8_t>();
    at::parallel_for(0, size(), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) labels_[static_cast<size_t>(i)] = decoded.read(i, out + i * bytes_);
    });
  }

  int64_t read(int64_t index, uint8_t* clip) const override {
    std::memcpy(clip, clips_.const_data_ptr<uint8_t>() + index * bytes_, static_cast<size_t>(bytes_));
    return labels_[static_cast<size_t>(index)];
  }

 private:
  at::Tensor clips_;
  std::vector<int64_t> labels_;
  int64_t bytes_ = 0;
};

/// Validation clips are the first of a random order of the training half, and a limit takes the next; both keep the
/// order of the data.
VideoPtr take_split(VideoPtr half, const VideoOptions& options, Split split) {
  TORCH_CHECK(split != Split::validation || options.validation > 0,
              "open_videos: validation must be > 0 for a validation split, got 0");
  if (split == Split::test || (options.validation == 0 && options.limit == 0)) return half;
  TORCH_CHECK(options.validation < half->size(), "open_videos: validation must be below the ", half->size(),
              " training clips, got ", options.validation);
  const int64_t rest = half->size() - options.validation,
                taken = options.limit > 0 ? std::min(options.limit, rest) : rest;
  const std::vector<int64_t> order = random_order(half->size(), options.seed, 0, DrawFor::split);
  const bool held = split == Split::validation;
  const auto first = order.begin() + (held ? 0 : options.validation);
  std::vector<int64_t> places(first, first + (held ? options.validation : taken));
  std::sort(places.begin(), places.end());
  return std::make_shared<VideoSubset>(std::move(half), std::move(places));
}

/// Of a reader that takes validation out itself; a limit is left.
VideoPtr open_split(VideoPtr (*reader)(const VideoOptions&, Split), const VideoOptions& options, Split split) {
  TORCH_CHECK(split != Split::validation || options.validation > 0,
              "open_videos: validation must be > 0 for a validation split, got 0");
  VideoPtr part = reader(options, split);
  if (split != Split::train || options.limit == 0) return part;
  VideoOptions limited = options;
  limited.validation = 0;
  return take_split(std::move(part), limited, split);
}

/// The images of an IDX data set, or generated ones, in motion.
VideoPtr open_moving(const VideoOptions& options, Split split, bool generated) {
  const DataOptions images{.kind = generated ? "synthetic" : "idx",
                           .path = options.path,
                           .validation = options.validation,
                           .limit = options.limit,
                           .split_seed = options.seed,
                           .image_size = kSyntheticSide,
                           .synthetic_train = options.synthetic_train,
                           .synthetic_test = options.synthetic_test};
  return moving_clips(open_dataset(images, split), options, static_cast<uint32_t>(split));
}

}  // namespace

VideoBatch VideoDataset::batch(at::IntArrayRef indices) const {
  for (const int64_t index : indices) {
    TORCH_CHECK(index >= 0 && index < size(), "VideoDataset: index must be in [0, ", size(), "), got ", index);
  }
  const auto& [t, c, h, w] = clip_shape();
  const auto count = static_cast<int64_t>(indices.size());
  VideoBatch batch{at::empty({count, t, c, h, w}, at::kByte), at::empty({count}, at::kLong)};
  uint8_t* const clips = batch.clips.mutable_data_ptr<uint8_t>();
  int64_t* const labels = batch.labels.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) labels[i] = read(indices[static_cast<size_t>(i)], clips + i * t * c * h * w);
  return batch;
}

std::vector<int64_t> chosen_frames(int64_t available, int64_t wanted) {
  std::vector<int64_t> frames;
  for (int64_t k = 0; k < wanted; ++k) frames.push_back((2 * k + 1) * available / (2 * wanted));
  return frames;
}

void write_frame(const at::Tensor& frame, int64_t size, uint8_t* out) {
  const at::Tensor resized =
      (frame.size(1) == size && frame.size(2) == size ? frame : resize_image(frame, size)).contiguous();
  std::memcpy(out, resized.const_data_ptr<uint8_t>(), static_cast<size_t>(resized.numel()));
}

VideoPtr open_videos(const VideoOptions& options, Split split) {
  options.check();
  const bool test = split == Split::test;
  const auto opened = [&]() -> VideoPtr {
    switch (kVideoKindNames.parse("open_videos", "kind", options.kind)) {
      case VideoKind::moving:
        return open_moving(options, split, /*generated=*/false);
      case VideoKind::synthetic:
        return open_moving(options, split, /*generated=*/true);
      case VideoKind::frame_folder:
        return take_split(open_frame_folder(options, test), options, split);
      case VideoKind::video_folder:
        return take_split(open_video_folder(options, test), options, split);
      case VideoKind::episodes:
        return open_split(open_episode_clips, options, split);
      case VideoKind::radhar:
        return open_split(open_radar_clips, options, split);
    }
    TORCH_INTERNAL_ASSERT(false, "no kind");
  }();
  return options.in_memory ? std::make_shared<ClipsInMemory>(*opened) : opened;
}

}  // namespace topomask
