#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace topomask::ops {

/// The name of an operator as a template argument.
template <size_t kLength>
struct Name {
  constexpr Name(const char (&text)[kLength]) { std::copy_n(text, kLength, value); }  // NOLINT: converts on purpose
  char value[kLength];
};

/// Whether autograd follows an argument, backward or forward.
inline bool is_differentiated(const at::Tensor& x) {
  return x.defined() && ((at::GradMode::is_enabled() && x.requires_grad()) || x._fw_grad(/*level=*/0).defined());
}
template <class T>
bool is_differentiated(const T& argument) {
  if constexpr (std::is_same_v<T, std::optional<at::Tensor>>) {
    return argument && is_differentiated(*argument);
  } else if constexpr (std::is_convertible_v<const T&, at::TensorList>) {
    const at::TensorList tensors = argument;
    return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& x) { return is_differentiated(x); });
  } else {
    return false;
  }
}

/// Calls the operator topomask::kName through the dispatcher, so that autograd, autocast and tracing see it:
/// `call<"spmm", Signature>(values, x, pattern)`. Its schema is looked up once. Where autograd follows no argument, its
/// kernel is skipped, which would record nothing and call the dispatcher again.
template <Name kName, class Signature, class... Args>
decltype(auto) call(Args&&... args) {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow((std::string("topomask::") + kName.value).c_str(), "")
                                 .template typed<Signature>();
  std::optional<at::AutoDispatchBelowAutograd> below;
  if (!(is_differentiated(args) || ...)) below.emplace();
  return handle.call(std::forward<Args>(args)...);
}

}  // namespace topomask::ops
