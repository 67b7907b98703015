#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

namespace topomask {

/// First weights of a transformer, drawn in the order of its parameters: matrices uniform (Glorot and Bengio 2010),
/// positions and CLS normal with deviation 0.02, biases 0, norms 1. Parameters of masks are as their sources made them.
void initialise(torch::nn::Module& model, at::Generator& generator);

}  // namespace topomask
