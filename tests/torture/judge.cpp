#include "torture/judge.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <sstream>

namespace topomask::torture {
namespace {

/// Results below this are lost to the range of the type, and those above are out of it.
struct Range {
  double least, most;
};

/// A conversion of float64 to float32 loses no more than float32 cannot hold: there is no margin for arithmetic.
constexpr Range kConverted{std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()};

Range range_of(at::ScalarType type) {
  if (type == at::kDouble) return {1e-290, 1e290};
  if (type == at::kHalf) return {1e-6, kLargestHalf};
  return {1e-34, 1e34};
}

std::string place(int64_t flat, at::IntArrayRef sizes) {
  std::string text;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    text = std::to_string(flat % *size) + (text.empty() ? "" : ", ") + text;
    flat /= *size;
  }
  return "[" + text + "]";
}

}  // namespace

void Judge::require(bool condition, const std::string& text) {
  if (!condition && failure_.empty()) failure_ = text;
}

void Judge::compare(const std::string& name, const at::Tensor& actual, const at::Tensor& expected,
                    const at::Tensor& scale, double tolerance, bool through_float) {
  std::ostringstream text;
  if (!actual.defined() || actual.sizes() != expected.sizes()) {
    text << name << ": shape " << (actual.defined() ? actual.sizes() : at::IntArrayRef{}) << ", expected "
         << expected.sizes();
    return require(false, text.str());
  }
  if (actual.numel() == 0) return;
  const Range range =
      through_float && actual.scalar_type() == at::kDouble ? kConverted : range_of(actual.scalar_type());
  const at::Tensor got = actual.detach().to(at::kCPU, at::kDouble), want = expected.detach();
  const at::Tensor allowed = (scale.detach().expand_as(want) + want.abs()) * tolerance + range.least;
  const at::Tensor judged = want.isfinite().logical_and(want.abs() + allowed < range.most);
  at::Tensor ratio = at::where(judged, (got - want).abs() / allowed, 0.0);
  ratio = ratio.nan_to_num(1e300, 1e300);
  const double largest = ratio.max().item<double>();
  if (largest > worst_) worst_ = largest, worst_name_ = name;
  if (largest <= 1) return;
  const auto where = ratio.argmax().item<int64_t>();
  const auto at = [&](const at::Tensor& x) { return x.reshape(-1)[where].item<double>(); };
  text.precision(9);
  text << name << place(where, want.sizes()) << ": got " << at(got) << ", expected " << at(want) << ", off by "
       << std::abs(at(got) - at(want)) << ", allowed " << at(allowed) << " (" << ratio.gt(1).sum().item<int64_t>()
       << " of " << want.numel() << " entries)";
  require(false, text.str());
}

bool fit_half(const std::vector<at::Tensor>& values) {
  return std::all_of(values.begin(), values.end(), [](const at::Tensor& x) {
    return x.numel() == 0 || x.detach().abs().max().item<double>() <= kLargestHalf;
  });
}

void Judge::bound(const std::string& name, const at::Tensor& actual, const at::Tensor& bound, const at::Tensor& where) {
  if (actual.numel() == 0) return;
  const Range range = range_of(actual.scalar_type());
  const at::Tensor got = actual.detach().to(at::kCPU, at::kDouble);
  // Twice: rounding to the type of the result.
  const at::Tensor fine = (got.abs() <= 2 * bound + range.least).logical_or(bound >= range.most);
  const at::Tensor bad = where.expand_as(got).logical_and(fine.logical_not());
  if (!bad.any().item<bool>()) return;
  const auto at = bad.reshape(-1).to(at::kInt).argmax().item<int64_t>();
  std::ostringstream text;
  text << name << place(at, got.sizes()) << ": got " << got.reshape(-1)[at].item<double>()
       << " in an ill-conditioned row that bounds it by " << bound.expand_as(got).reshape(-1)[at].item<double>();
  require(false, text.str());
}

}  // namespace topomask::torture
