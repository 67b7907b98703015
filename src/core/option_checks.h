#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Checks of the fields of an options struct, one call for each field. Every text is ORIGIN FIELD must be RANGE, got
/// VALUE, where the origin names the function or the file: "train: beta1 must be in [0, 1), got 1.5".
class OptionChecks {
 public:
  /// Counts of steps, images and sizes are held below 2⁵³: sums of them cannot overflow, and JSON keeps them exact.
  static constexpr int64_t kLargest = int64_t{1} << 53;
  /// Other numbers are held in the range of float32, in which models compute, with room for a few factors; those that
  /// a mask or a feature map is made of are held where their products stay finite too, and the work stays small.
  static constexpr double kLargestNumber = 1e30, kLargestParameter = 1e6;

  explicit OptionChecks(const std::string& origin) : origin_(origin) {}

  void at_least(const char* field, int64_t value, int64_t least) const {
    TORCH_CHECK(value >= least, origin_, field, " must be >= ", least, ", got ", value);
    TORCH_CHECK(value <= kLargest, origin_, field, " must be at most 2^53, got ", value);
  }
  void within(const char* field, int64_t value, int64_t least, int64_t most) const {
    TORCH_CHECK(value >= least && value <= most, origin_, field, " must be from ", least, " to ", most, ", got ",
                value);
  }

  void finite(const char* field, double value, double most = kLargestNumber) const {
    TORCH_CHECK(std::isfinite(value), origin_, field, " must be finite, got ", value);
    TORCH_CHECK(value >= -most, origin_, field, " must be >= ", -most, ", got ", value);
    TORCH_CHECK(value <= most, origin_, field, " must be at most ", most, ", got ", value);
  }
  void positive(const char* field, double value, double most = kLargestNumber) const {
    TORCH_CHECK(value > 0, origin_, field, " must be > 0, got ", value);
    finite(field, value, most);
  }
  void not_negative(const char* field, double value, double most = kLargestNumber) const {
    TORCH_CHECK(value >= 0, origin_, field, " must be >= 0, got ", value);
    finite(field, value, most);
  }
  /// [0, 1), or [0, 1] where `closed`.
  void fraction(const char* field, double value, bool closed = false) const {
    TORCH_CHECK(value >= 0 && (value < 1 || (closed && value == 1)), origin_, field, " must be in [0, 1",
                closed ? "]" : ")", ", got ", value);
  }

  void one_of(const char* field, const std::string& value, const std::vector<std::string>& known) const {
    TORCH_CHECK(std::find(known.begin(), known.end(), value) != known.end(), origin_, field, " must be ", listed(known),
                ", got ", value);
  }

  template <class... Args>
  void that(bool condition, const char* field, const Args&... expected_and_got) const {
    TORCH_CHECK(condition, origin_, field, " must be ", expected_and_got...);
  }

 private:
  /// "a, b or c"; longer lists as "one of a, b, c, d".
  static std::string listed(const std::vector<std::string>& known) {
    if (known.size() > 5) return "one of " + c10::Join(", ", known);
    std::string text;
    for (size_t i = 0; i < known.size(); ++i) {
      text += (i == 0 ? "" : i + 1 == known.size() ? " or " : ", ") + known[i];
    }
    return text;
  }

  const std::string& origin_;
};

}  // namespace topomask
