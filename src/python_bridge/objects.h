#pragma once

#include <torch/custom_class.h>

#include <memory>
#include <optional>
#include <string>
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

/// An output that is differentiable once. Some routes have second derivatives, others would leave terms out: all
/// refuse, when the gradient is asked for in a form that could be differentiated again.
at::Tensor once(const char* op, at::Tensor out);

/// Entry (i, j) where j is within `hops` edges of i, i itself included: breadth-first search from every node. Refused
/// beyond max_entries.
PatternPtr neighbourhoods(const Graph& graph, int64_t hops, int64_t max_entries);

// Each registers a class; the order is that of the calls in bindings.cpp, since a schema may only name classes that
// exist.
void bind_graph(torch::Library& m);
void bind_walks(torch::Library& m);
void bind_forest(torch::Library& m);
void bind_mask(torch::Library& m);
void bind_functions(torch::Library& m);
void bind_clouds(torch::Library& m);
void bind_dist(torch::Library& m);

}  // namespace topomask::python
