#include "core/checks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <sstream>

namespace topomask {
namespace {

/// The first value that is not within [low, largest finite number], or the number of values.
template <class T>
int64_t first_outside(const T* value, int64_t count, T low) {
  constexpr T kHigh = std::numeric_limits<T>::max();
  std::atomic<int64_t> first = count;
  at::parallel_for(0, count, at::internal::GRAIN_SIZE, [&](int64_t begin, int64_t end) {
    bool inside = true;  // a loop without a branch is vectorised
    for (int64_t i = begin; i < end; ++i) inside &= value[i] >= low && value[i] <= kHigh;
    if (inside) return;
    int64_t place = begin;
    while (value[place] >= low && value[place] <= kHigh) ++place;
    int64_t known = first.load();
    while (place < known && !first.compare_exchange_weak(known, place)) {
    }
  });
  return first;
}

/// "[2, 5]" for a tensor of two dimensions, "17" for one, nothing for a number.
std::string place_text(const at::Tensor& values, int64_t place) {
  if (values.dim() == 0) return "";
  if (values.dim() == 1) return " at " + std::to_string(place);
  std::string text;
  for (int64_t axis = values.dim(); axis-- > 0; place /= values.size(axis)) {
    text = std::to_string(place % values.size(axis)) + (text.empty() ? "" : ", ") + text;
  }
  return " at [" + text + "]";
}

template <class T>
void check_values(const char* op, const char* name, const char* expected, const at::Tensor& given, T low) {
  const at::Tensor values = given.detach().contiguous();
  const T* value = values.const_data_ptr<T>();
  const int64_t place = first_outside(value, values.numel(), low);
  if (place == values.numel()) return;
  const T bad = value[place];
  TORCH_CHECK(false, op, ": ", name, " must be ", expected, ", got ",
              std::isnan(bad) ? "nan"
              : bad < 0       ? "-inf"
                              : "inf",
              place_text(given, place));
}

}  // namespace

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::ostringstream out;
  out << c10::toString(tensor.scalar_type()) << tensor.sizes() << " on " << tensor.device();
  return out.str();
}

bool is_node_dtype(at::ScalarType dtype, at::DeviceType device) {
  if (device != at::kCPU && device != at::kCUDA) return false;
  return is_real(dtype) || dtype == at::kBFloat16 || (dtype == at::kHalf && device == at::kCUDA);
}

const char* node_dtypes(at::DeviceType device) {
  return device == at::kCUDA ? "float64, float32, bfloat16 or float16 on cuda" : "float64, float32 or bfloat16 on cpu";
}

void check_finite(const char* op, const char* name, const at::Tensor& values) {
  if (!values.is_cpu()) return;
  if (values.scalar_type() == at::kFloat) {
    check_values(op, name, "finite", values, std::numeric_limits<float>::lowest());
  } else if (values.scalar_type() == at::kDouble) {
    check_values(op, name, "finite", values, std::numeric_limits<double>::lowest());
  }
}

void check_below_infinity(const char* op, const char* name, const at::Tensor& values) {
  if (!values.is_cpu()) return;
  if (values.scalar_type() == at::kFloat) {
    check_values(op, name, "below infinity", values, -std::numeric_limits<float>::infinity());
  } else if (values.scalar_type() == at::kDouble) {
    check_values(op, name, "below infinity", values, -std::numeric_limits<double>::infinity());
  }
}

void check_differentiated_once(const char* op) {
  TORCH_CHECK(!at::GradMode::is_enabled(), op,
              ": create_graph must be False; masks and attention are differentiable once");
}

int64_t checked_product(const char* op, const char* what, at::IntArrayRef sizes, int64_t most) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (size >= 0 && product <= most / size) {
      product *= size;
      continue;
    }
    std::ostringstream shown;
    for (size_t i = 0; i < sizes.size(); ++i) shown << (i > 0 ? " x " : "") << sizes[i];
    TORCH_CHECK(false, op, ": ", what, " must be at most ", most, ", got ", shown.str());
  }
  return product;
}

}  // namespace topomask
