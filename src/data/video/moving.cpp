#include <ATen/ATen.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "data/philox_stream.h"
#include "data/video/names.h"
#include "data/video/readers.h"

namespace topomask {
namespace {

const std::array<const char*, 6> kMotions{"right", "left", "down", "up", "clockwise", "anticlockwise"};

/// Where the image's corner is, in parts of the room that it has, at `time` from 0 to 1.
struct Motion {
  size_t kind;
  double across, along, distance, phase, radius;

  std::pair<double, double> at(double time) const {
    const double s = along + distance * time, r = 1 - s;
    switch (kind) {
      case 0:
        return {s, across};
      case 1:
        return {r, across};
      case 2:
        return {across, s};
      case 3:
        return {across, r};
      default: {
        // The y axis points down: angles that grow go around clockwise.
        const double angle = phase + (kind == 4 ? 1 : -1) * 2 * std::numbers::pi * distance * time;
        return {0.5 + radius * std::cos(angle), 0.5 + radius * std::sin(angle)};
      }
    }
  }
};

class MovingClips final : public VideoDataset {
 public:
  MovingClips(VideoInfo info, DatasetPtr images, MotionLabel label, uint64_t seed, uint32_t stream)
      : VideoDataset(std::move(info)), images_(std::move(images)), label_(label), seed_(seed), stream_(stream) {}

  int64_t read(int64_t index, uint8_t* clip) const override {
    const auto [c, h, w] = images_->image_shape();
    const auto& [frames, channels, rows, cols] = clip_shape();
    std::vector<uint8_t> image(static_cast<size_t>(c * h * w));
    const int64_t shown = images_->read(index, image.data());
    const Motion motion = draw(index);
    std::memset(clip, 0, static_cast<size_t>(frames * channels * rows * cols));
    for (int64_t t = 0; t < frames; ++t) {
      const auto [x, y] = motion.at(static_cast<double>(t) / static_cast<double>(std::max<int64_t>(1, frames - 1)));
      const int64_t left = std::llround(x * static_cast<double>(cols - w)),
                    top = std::llround(y * static_cast<double>(rows - h));
      for (int64_t line = 0; line < c * h; ++line) {
        const int64_t row = (t * channels + line / h) * rows + top + line % h;
        std::memcpy(clip + row * cols + left, image.data() + line * w, static_cast<size_t>(w));
      }
    }
    const auto moved = static_cast<int64_t>(motion.kind);
    if (label_ == MotionLabel::class_) return shown;
    return label_ == MotionLabel::motion ? moved : shown * std::ssize(kMotions) + moved;
  }

 private:
  Motion draw(int64_t index) const {
    PhiloxStream stream(seed_, stream_, index, DrawFor::motion);
    const auto uniform = [&] { return static_cast<double>(stream.word()) * 0x1p-32; };
    Motion motion{.kind = static_cast<size_t>(stream.below(std::ssize(kMotions)))};
    motion.across = uniform();
    motion.distance = 0.5 + 0.5 * uniform();
    motion.along = uniform() * (1 - motion.distance);
    motion.phase = 2 * std::numbers::pi * uniform();
    motion.radius = 0.25 + 0.25 * uniform();
    return motion;
  }

  DatasetPtr images_;
  MotionLabel label_;
  uint64_t seed_;
  uint32_t stream_;
};

}  // namespace

VideoPtr moving_clips(DatasetPtr images, const VideoOptions& options, uint32_t stream) {
  TORCH_CHECK(images, "moving_clips: images must not be null");
  const MotionLabel label =
      options.label.empty() ? MotionLabel::motion : kMotionLabelNames.parse("moving_clips", "label", options.label);
  const auto [c, h, w] = images->image_shape();
  // With less room than this a circle would be the same two pixels in both directions.
  const int64_t smallest = std::max(h, w) + 8;
  TORCH_CHECK(options.image_size >= smallest, "moving_clips: image_size must be at least ", smallest, " for images of ",
              h, "x", w, ", got ", options.image_size);
  TORCH_CHECK(options.frames >= 2, "moving_clips: frames must be at least 2, got ", options.frames);
  VideoInfo info{.name = "moving " + images->name(),
                 .size = images->size(),
                 .clip_shape = {options.frames, c, options.image_size, options.image_size}};
  if (label == MotionLabel::class_) info.classes = images->classes();
  if (label == MotionLabel::motion) info.classes.assign(kMotions.begin(), kMotions.end());
  if (label == MotionLabel::both) {
    for (const std::string& shown : images->classes()) {
      for (const char* motion : kMotions) info.classes.push_back(shown + ", " + motion);
    }
  }
  return std::make_shared<MovingClips>(std::move(info), std::move(images), label, options.seed, stream);
}

}  // namespace topomask
