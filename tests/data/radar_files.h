#pragma once

#include "data/graphs/graph_files.h"

namespace topomask::testing {

/// Recordings of six frames with two points each: recording r does activity r mod 5. The first point of frame f stands
/// still, the second moves; both tell recording and frame by their places.
inline NpzFile small_radar(const TemporaryFolder& folder, int64_t recordings = 15, int64_t frames = 6) {
  std::vector<float> points;
  std::vector<int64_t> frame, counts, labels, is_test;
  for (int64_t r = 0; r < recordings; ++r) {
    for (int64_t f = 0; f < frames; ++f) {
      const auto place = static_cast<float>(r) / 16, time = static_cast<float>(f) / 8;
      points.insert(points.end(), {1, place, time, 0, 28});
      points.insert(points.end(), {1.5F, place, time, f % 2 == 0 ? .5F : -.5F, 32});
      frame.insert(frame.end(), {f, f});
    }
    counts.push_back(2 * frames);
    labels.push_back(r % 5);
    is_test.push_back(r >= recordings - 5);
  }
  NpzFile file(folder / "radar.npz");
  file.add_halves("points", c10::str("(", frame.size(), ", 5)"), points).add("frame", frame).add("npts", counts);
  return file.add("y", labels).add("is_test", is_test);
}

}  // namespace topomask::testing
