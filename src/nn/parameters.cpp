#include "topomask/nn/parameters.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace topomask {
namespace {

/// The projections of GKATConv and the attention vectors of GATConv, which are parameters of the layer itself.
constexpr std::array<std::string_view, 5> kProjections{"wq", "wk", "wv", "att_src", "att_dst"};

}  // namespace

ParameterKind parameter_kind(const std::string& name, const at::Tensor& parameter) {
  if (name.starts_with("mask.") || name.find(".mask.") != std::string::npos) return ParameterKind::mask;
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  const bool weights = last == "weight" && parameter.dim() >= 2;  // a norm's weight is a vector
  const bool projection = std::find(kProjections.begin(), kProjections.end(), last) != kProjections.end();
  return weights || projection ? ParameterKind::matrix : ParameterKind::vector;
}

}  // namespace topomask
