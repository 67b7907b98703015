#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>

#include "python_bridge/objects.h"

namespace topomask::python {
namespace {

std::atomic<bool> closed = false;

}  // namespace

std::vector<at::Tensor> Callback::operator()(const std::string& method,
                                             const std::vector<at::Tensor>& arguments) const {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("topomask_python::call", "");
  torch::jit::Stack stack{id_, method, arguments};
  op.callBoxed(stack);
  return stack.at(0).toTensorVector();
}

Callback::~Callback() {
  if (closed) return;
  try {
    (*this)("release", {});
  } catch (const std::exception&) {  // a destructor cannot tell anybody
  }
}

void Callback::close() {
  closed = true;
}

}  // namespace topomask::python
