#include "nn/initialise.h"

#include <ATen/ATen.h>

#include "topomask/nn/parameters.h"

namespace topomask {
namespace {

/// Positions and CLS tokens, of the model or of an encoder inside it.
bool is_embedding(const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);
  return last == "positions" || last == "cls";
}

}  // namespace

void initialise(torch::nn::Module& model, at::Generator& generator) {
  const at::NoGradGuard no_grad;
  for (auto& item : model.named_parameters()) {
    const std::string& name = item.key();
    at::Tensor& p = item.value();
    if (parameter_kind(name, p) == ParameterKind::mask) continue;
    if (is_embedding(name)) {
      p.normal_(0, 0.02, generator);
    } else if (p.dim() == 2) {
      const double bound = std::sqrt(6.0 / static_cast<double>(p.size(0) + p.size(1)));
      p.uniform_(-bound, bound, generator);
    } else {
      p.fill_(name.ends_with("norm.weight") ? 1 : 0);
    }
  }
}

}  // namespace topomask
