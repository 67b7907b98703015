#include "data/radar.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "data/graphs/npz_arrays.h"
#include "data/random_order.h"

namespace topomask {
namespace {

constexpr int64_t kMostFrames = int64_t{1} << 20;  // of a recording: nine hours

void check_length(const NpzArrays& arrays, const char* name, size_t length, const char* other, size_t expected) {
  if (length != expected) arrays.refuse(name, "must be as long as ", other, ", ", expected, ", got ", length);
}

}  // namespace

RadarRecordings read_radhar(const char* op, const std::string& path) {
  NpzArrays arrays(path, op);
  RadarRecordings result{.label = arrays.integers("y", 0, std::ssize(RadarRecordings::kActivities)), .is_held = {}};
  for (const int64_t value : arrays.integers("is_test", 0, 2)) result.is_test.push_back(value == 1);
  check_length(arrays, "is_test", result.is_test.size(), "y", result.label.size());
  const std::vector<int64_t> counts = arrays.integers("npts", 0, int64_t{1} << 31);
  check_length(arrays, "npts", counts.size(), "y", result.label.size());
  result.first = {0};
  for (const int64_t count : counts) result.first.push_back(result.first.back() + count);
  result.points = arrays.matrix("points", RadarRecordings::kColumns);
  if (result.points.size(0) != result.first.back()) {
    arrays.refuse("points", "must have as many rows as npts counts, ", result.first.back(), ", got ",
                  result.points.size(0));
  }
  result.frame = arrays.integers("frame", 0, kMostFrames);
  check_length(arrays, "frame", result.frame.size(), "points", static_cast<size_t>(result.points.size(0)));
  for (size_t r = 0; r < result.label.size(); ++r) {
    const auto begin = result.frame.begin() + result.first[r], end = result.frame.begin() + result.first[r + 1];
    if (const auto at = std::is_sorted_until(begin, end); at != end) {
      arrays.refuse("frame", "must ascend in each recording, got ", *at, " after ", *(at - 1), " at index ",
                    at - result.frame.begin());
    }
  }
  result.is_held.assign(result.label.size(), false);
  return result;
}

void RadarRecordings::hold_out(double fraction, uint64_t seed) {
  constexpr uint32_t kRecordings = 2;  // a stream of its own
  std::map<int64_t, std::vector<int64_t>> members;
  for (const int64_t r : random_order(size(), seed, kRecordings, DrawFor::split)) {
    if (!is_test[static_cast<size_t>(r)]) members[label[static_cast<size_t>(r)]].push_back(r);
  }
  is_held.assign(label.size(), false);
  for (const auto& [activity, recordings] : members) {
    const auto count = std::ssize(recordings);
    int64_t held = std::llround(fraction * static_cast<double>(count));
    if (held == 0 && fraction > 0 && count > 1) held = 1;
    for (int64_t i = 0; i < held; ++i) is_held[static_cast<size_t>(recordings[static_cast<size_t>(i)])] = true;
  }
}

std::vector<RadarWindow> radar_windows(const RadarRecordings& recordings, int64_t length, int64_t stride) {
  std::vector<RadarWindow> windows;
  for (int64_t r = 0; r < recordings.size(); ++r) {
    const auto begin = recordings.frame.begin() + recordings.first[static_cast<size_t>(r)],
               end = recordings.frame.begin() + recordings.first[static_cast<size_t>(r) + 1];
    if (begin == end) continue;
    const int64_t frames = *(end - 1) + 1;
    for (int64_t start = 0; start + length <= frames; start += stride) {
      const auto first = std::lower_bound(begin, end, start), last = std::lower_bound(first, end, start + length);
      if (first == last) continue;
      windows.push_back({r, start, first - recordings.frame.begin(), last - recordings.frame.begin()});
    }
  }
  return windows;
}

}  // namespace topomask
