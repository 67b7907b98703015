#include "topomask/nn/parameters.h"

namespace topomask {

ParameterKind parameter_kind(const std::string& name, const at::Tensor& parameter) {
  if (name.starts_with("mask.") || name.find(".mask.") != std::string::npos) return ParameterKind::mask;
  return parameter.dim() == 2 && name.ends_with(".weight") ? ParameterKind::matrix : ParameterKind::vector;
}

}  // namespace topomask
