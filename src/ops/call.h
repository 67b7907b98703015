#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <string>
#include <utility>

namespace topomask::ops {

/// The name of an operator as a template argument.
template <size_t kLength>
struct Name {
  constexpr Name(const char (&text)[kLength]) { std::copy_n(text, kLength, value); }  // NOLINT: converts on purpose
  char value[kLength];
};

/// Calls the operator topomask::kName through the dispatcher, so that autograd, autocast and tracing see it:
/// `call<"spmm", Signature>(values, x, pattern)`. Its schema is looked up once.
template <Name kName, class Signature, class... Args>
decltype(auto) call(Args&&... args) {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow((std::string("topomask::") + kName.value).c_str(), "")
                                 .template typed<Signature>();
  return handle.call(std::forward<Args>(args)...);
}

}  // namespace topomask::ops
