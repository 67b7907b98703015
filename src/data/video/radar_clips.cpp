#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/radar.h"
#include "data/video/readers.h"

namespace topomask {
namespace {

/// Points by their motion: still, towards the radar, away from it. Each has a channel for every layer of depth.
constexpr int64_t kMotionGroups = 3, kDepthLayers = 5;
// Almost all voxels are empty. At half of the range they are 0 in the model's inputs, so that what is empty adds
// nothing to the embedding of a tubelet.
constexpr uint8_t kEmpty = 128, kPerPoint = 48;  // a point adds so much, up to 255

/// The box in front of the radar that is divided into voxels, in metres: what stands in it moves, what is beyond is
/// furniture.
struct Range {
  float least, extent;
  int64_t bin(float value, int64_t bins) const {
    return static_cast<int64_t>(std::floor((value - least) / extent * static_cast<float>(bins)));
  }
};
constexpr Range kDepthRange{0.25F, 3.F}, kAcross{-1.5F, 3.F}, kUpward{-1.5F, 3.F};

class RadarClips final : public VideoDataset {
 public:
  RadarClips(VideoInfo info, RadarRecordings recordings, std::vector<RadarWindow> windows, int64_t length)
      : VideoDataset(std::move(info)),
        recordings_(std::move(recordings)),
        windows_(std::move(windows)),
        length_(length) {}

  int64_t read(int64_t index, uint8_t* clip) const override {
    const RadarWindow& window = windows_[static_cast<size_t>(index)];
    const auto& [frames, channels, size, width] = clip_shape();
    std::memset(clip, kEmpty, static_cast<size_t>(frames * channels * size * width));
    const float* point = recordings_.points.const_data_ptr<float>() + window.first * RadarRecordings::kColumns;
    for (int64_t i = window.first; i < window.last; ++i, point += RadarRecordings::kColumns) {
      const int64_t depth = kDepthRange.bin(point[RadarRecordings::x], kDepthLayers),
                    column = kAcross.bin(point[RadarRecordings::y], width),
                    row = size - 1 - kUpward.bin(point[RadarRecordings::z], size);
      if (depth < 0 || depth >= kDepthLayers || column < 0 || column >= width || row < 0 || row >= size) continue;
      const float velocity = point[RadarRecordings::velocity];
      const int64_t group = velocity == 0 ? 0 : velocity < 0 ? 1 : 2;
      const int64_t frame = (recordings_.frame[static_cast<size_t>(i)] - window.start) * frames / length_;
      uint8_t& voxel = clip[((frame * channels + group * kDepthLayers + depth) * size + row) * width + column];
      voxel = static_cast<uint8_t>(std::min(255, voxel + kPerPoint));
    }
    return recordings_.label[static_cast<size_t>(window.recording)];
  }

 private:
  RadarRecordings recordings_;
  std::vector<RadarWindow> windows_;
  int64_t length_;
};

}  // namespace

VideoPtr open_radar_clips(const VideoOptions& options, Split split) {
  TORCH_CHECK(options.window >= options.frames, "open_videos: window must be at least frames, ", options.frames,
              ", so that every frame of a clip has one of the radar, got ", options.window);
  RadarRecordings recordings = read_radhar("open_videos", options.path);
  const auto training = std::count(recordings.is_test.begin(), recordings.is_test.end(), false);
  TORCH_CHECK(options.validation == 0 || options.validation < training, "open_videos: validation must be below the ",
              training, " training recordings, got ", options.validation);
  if (options.validation > 0) {
    recordings.hold_out(static_cast<double>(options.validation) / static_cast<double>(training), options.seed);
  }
  std::vector<RadarWindow> windows = radar_windows(recordings, options.window, options.stride);
  std::erase_if(windows, [&](const RadarWindow& window) {
    const auto r = static_cast<size_t>(window.recording);
    const Split part = recordings.is_test[r] ? Split::test : recordings.is_held[r] ? Split::validation : Split::train;
    return part != split;
  });
  TORCH_CHECK(!windows.empty(), "open_videos: ", options.path, ": no recording of the ", to_string(split),
              " split has ", options.window, " frames");
  VideoInfo info{.name = "radhar " + options.path,
                 .size = std::ssize(windows),
                 .classes = {RadarRecordings::kActivities.begin(), RadarRecordings::kActivities.end()},
                 .clip_shape = {options.frames, kMotionGroups * kDepthLayers, options.image_size, options.image_size}};
  return std::make_shared<RadarClips>(std::move(info), std::move(recordings), std::move(windows), options.window);
}

}  // namespace topomask
