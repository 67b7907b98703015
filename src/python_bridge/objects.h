#pragma once

#include <torch/custom_class.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topomask/topomask.h"

// What Python holds of the library: C++ values as TorchBind objects, `torch.classes.topomask.*`. TorchBind needs no
// symbol of Python, so that one binary serves every version of it. The package python/topomask is the only caller; its
// module _ops.py has every call.

namespace topomask::python {

/// A C++ value that Python can hold.
template <class T>
struct Value : torch::CustomClassHolder {
  explicit Value(T v) : value(std::move(v)) {}
  T value;
};

template <class T>
using Ref = c10::intrusive_ptr<Value<T>>;

template <class T>
Ref<T> hold(T value) {
  return c10::make_intrusive<Value<T>>(std::move(value));
}

template <class T>
std::vector<T> values_of(const std::vector<Ref<T>>& refs) {
  std::vector<T> values;
  for (const Ref<T>& ref : refs) values.push_back(ref->value);
  return values;
}

inline at::Tensor or_undefined(const std::optional<at::Tensor>& tensor) {
  return tensor.value_or(at::Tensor());
}
inline std::optional<at::Tensor> or_none(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// The enumerator of that name; names in the order of the enumerators.
template <class Enum, size_t kCount>
Enum choose(const char* op, const char* argument, const std::string& name,
            const std::array<std::string_view, kCount>& names) {
  std::string all;
  for (size_t k = 0; k < kCount; ++k) {
    if (name == names[k]) return static_cast<Enum>(k);
    all.append(k == 0 ? "" : k + 1 == kCount ? " or " : ", ").append(names[k]);
  }
  TORCH_CHECK(false, op, ": ", argument, " must be ", all, ", got ", name);
}

inline constexpr std::array<std::string_view, 4> kCouplings = {"independent", "antithetic", "repelling",
                                                               "antithetic_repelling"};
inline constexpr std::array<std::string_view, 3> kProposals = {"uniform", "weights", "given"};
inline constexpr std::array<std::string_view, 3> kDuplicates = {"first", "sum", "refuse"};
inline constexpr std::array<std::string_view, 3> kSelfLoops = {"keep", "drop", "refuse"};
inline constexpr std::array<std::string_view, 2> kDiagonals = {"shared", "debiased"};
inline constexpr std::array<std::string_view, 3> kCausalities = {"none", "row_major", "first_axis"};
inline constexpr std::array<std::string_view, 3> kGenerators = {"adjacency", "laplacian", "normalised_laplacian"};
inline constexpr std::array<std::string_view, 2> kDiffusionMethods = {"chebyshev", "lanczos"};
inline constexpr std::array<std::string_view, 2> kNeighbourKernels = {"gaussian", "box"};
inline constexpr std::array<std::string_view, 5> kRoutes = {"automatic", "dense", "sparse", "features", "operator"};
inline constexpr std::array<std::string_view, 2> kSoftmaxMasks = {"multiplicative", "additive"};

inline at::TensorOptions target_of(std::optional<at::Device> device, std::optional<at::ScalarType> dtype) {
  return at::TensorOptions().device(device).dtype(dtype ? std::optional(c10::scalarTypeToTypeMeta(*dtype))
                                                        : std::nullopt);
}

/// A function or a mask that is written in Python. Calls go through an operator that the package registers, which takes
/// Python's lock by itself; the Python side is released with the last copy.
class Callback {
 public:
  explicit Callback(int64_t id) : id_(id) {}
  ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  std::vector<at::Tensor> operator()(const std::string& method, const std::vector<at::Tensor>& arguments) const;

  static void close();  ///< Python is about to end: nothing is released any more

 private:
  int64_t id_;
};

/// The number by which the traced operator apply_mask finds a mask; valid while the mask lives.
int64_t mask_number(const MaskPtr& mask);

// Each registers a class; the order is that of the calls in bindings.cpp, since a schema may only name classes that
// exist.
void bind_graph(torch::Library& m);
void bind_walks(torch::Library& m);
void bind_forest(torch::Library& m);
void bind_mask(torch::Library& m);
void bind_functions(torch::Library& m);

}  // namespace topomask::python
