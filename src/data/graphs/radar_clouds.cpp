#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>

#include "data/graphs/clouds.h"
#include "data/graphs/features.h"
#include "data/graphs/readers.h"
#include "data/radar.h"
#include "data/random_order.h"

namespace topomask {
namespace {

// Points beyond are of walls or are errors of the radar: they are moved to the border.
constexpr double kFarthest = 5, kFastest = 4;                // metres, m/s
constexpr double kMeanIntensity = 28, kIntensitySpread = 4;  // dB
constexpr double kMiddleDepth = 1.5;                         // metres before the radar, where people are
constexpr int64_t kCloudColumns = 6;

/// Points first … last − 1 of a window, `most` of them: those that move before those that stand still, drawn at random
/// among those.
std::vector<int64_t> chosen_points(const RadarRecordings& radar, const RadarWindow& window, int64_t most, uint64_t seed,
                                   uint32_t index) {
  const int64_t count = window.last - window.first;
  std::vector<int64_t> chosen = random_order(count, seed, index, DrawFor::points);
  const float* const point = radar.points.const_data_ptr<float>() + window.first * RadarRecordings::kColumns;
  std::stable_partition(chosen.begin(), chosen.end(), [&](int64_t i) {
    return point[i * RadarRecordings::kColumns + RadarRecordings::velocity] != 0;
  });
  if (most > 0 && most < count) chosen.resize(static_cast<size_t>(most));
  std::sort(chosen.begin(), chosen.end());
  for (int64_t& i : chosen) i += window.first;
  return chosen;
}

Cloud radar_cloud(const RadarRecordings& radar, const RadarWindow& window, const GraphDataOptions& options,
                  uint32_t index) {
  const std::vector<int64_t> chosen = chosen_points(radar, window, options.points, options.seed, index);
  const float* const points = radar.points.const_data_ptr<float>();
  Cloud cloud{.features = at::empty({std::ssize(chosen), kCloudColumns}),
              .near = at::empty({std::ssize(chosen), 4}),
              .label = radar.label[static_cast<size_t>(window.recording)]};
  float* out = cloud.features.mutable_data_ptr<float>();
  float* near = cloud.near.mutable_data_ptr<float>();
  const auto limited = [](double value, double most) { return static_cast<float>(std::clamp(value, -most, most)); };
  for (const int64_t i : chosen) {
    const float* const point = points + i * RadarRecordings::kColumns;
    const double passed =
        static_cast<double>(radar.frame[static_cast<size_t>(i)] - window.start) / static_cast<double>(options.window);
    out[0] = limited(point[RadarRecordings::x] - kMiddleDepth, kFarthest);
    out[1] = limited(point[RadarRecordings::y], kFarthest);
    out[2] = limited(point[RadarRecordings::z], kFarthest);
    out[3] = limited(point[RadarRecordings::velocity], kFastest);
    out[4] = static_cast<float>((point[RadarRecordings::intensity] - kMeanIntensity) / kIntensitySpread);
    out[5] = static_cast<float>(2 * passed - 1);
    std::copy_n(out, 3, near);
    near[3] = out[5];  // half a window is as far as a metre
    out += kCloudColumns;
    near += 4;
  }
  return cloud;
}

}  // namespace

LoadedGraphs open_radar_clouds(const GraphDataOptions& options) {
  RadarRecordings radar = read_radhar(kOpenGraphs, options.path);
  radar.hold_out(options.validation_fraction, options.split_seed);
  const std::vector<RadarWindow> windows = radar_windows(radar, options.window, options.stride);
  if (windows.empty()) {
    io::fail({kOpenGraphs, options.path}, "no recording has data.window = ", options.window, " frames");
  }
  int64_t points = 0;  // windows overlap: a short file must not make clouds of gigabytes
  for (const RadarWindow& window : windows) {
    const int64_t count = window.last - window.first;
    points += options.points > 0 ? std::min(options.points, count) : count;
  }
  check_feature_size({kOpenGraphs, options.path}, points, 8 * kCloudColumns);
  GraphSplit split;
  std::vector<Cloud> clouds;
  for (const RadarWindow& window : windows) {
    const auto r = static_cast<size_t>(window.recording);
    auto& part = radar.is_test[r] ? split.test : radar.is_held[r] ? split.validation : split.train;
    part.push_back(std::ssize(clouds));
    clouds.push_back(radar_cloud(radar, window, options, static_cast<uint32_t>(clouds.size())));
  }
  GraphSet set =
      pack_clouds(std::filesystem::path(options.path).stem().string(), std::move(clouds), options.neighbours);
  set.classes = {RadarRecordings::kActivities.begin(), RadarRecordings::kActivities.end()};
  if (options.features == "given") {
    set.vectors = 1;
  } else {
    set.features = at::Tensor();
  }
  return {std::move(set), std::move(split)};
}

}  // namespace topomask
