#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Recordings of people by a millimetre-wave radar, as RadHAR has them (Singh et al. 2019).
struct RadarRecordings {
  /// Columns of `points`.
  enum Column : int64_t { x, y, z, velocity, intensity };
  static constexpr int64_t kColumns = 5;
  static constexpr std::array<const char*, 5> kActivities{"boxing", "jack", "jump", "squats", "walk"};

  at::Tensor points;           ///< float32 [N, 5]: metres (x away from the radar, z up), m/s along the ray, dB
  std::vector<int64_t> frame;  ///< [N]: ascending in each recording
  std::vector<int64_t> first;  ///< [R + 1]: recording r owns points first[r] … first[r + 1] − 1
  std::vector<int64_t> label;  ///< [R]: a place in kActivities
  std::vector<bool> is_test;   ///< [R]
  std::vector<bool> is_held;   ///< [R]: held out of training for validation, see hold_out()

  int64_t size() const { return static_cast<int64_t>(label.size()); }

  /// Holds `fraction` of the training recordings of each activity out, drawn by `seed`: where it is above 0, at least
  /// one of each activity that has two. Windows overlap, so that a recording is in one part as a whole.
  void hold_out(double fraction, uint64_t seed);
};

/// Frames start … start + length − 1 of a recording, and the points first … last − 1 that they have.
struct RadarWindow {
  int64_t recording, start, first, last;
};

/// Reads the arrays `points` (float16, float32 or float64 [N, 5]), `frame` [N], and of each recording `npts`, `y` and
/// `is_test`, from an npz archive. Errors start with `op` and name file and array.
RadarRecordings read_radhar(const char* op, const std::string& path);

/// Windows of `length` frames, `stride` frames apart, of all recordings in order; windows without a point are left out.
std::vector<RadarWindow> radar_windows(const RadarRecordings& recordings, int64_t length, int64_t stride);

}  // namespace topomask
