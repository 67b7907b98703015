#include "core/checks.h"

#include <sstream>

namespace topomask {

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::ostringstream out;
  out << c10::toString(tensor.scalar_type()) << tensor.sizes() << " on " << tensor.device();
  return out.str();
}

}  // namespace topomask
