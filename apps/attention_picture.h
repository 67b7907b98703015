#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "topomask/nn/vit.h"

namespace topomask::apps {

/// Where a model looks when it classifies: for each layer, how much the CLS token takes from each patch, heads
/// averaged; without a CLS token the mean over the tokens that are averaged. Images float32 [B, C, S, S], normalised.
/// [L, B, G, G], each map scaled to a largest value of 1.
at::Tensor attention_maps(ViT& model, const at::Tensor& images);

/// The picture under the map, uint8 [3, S, S]: bright where the model looked, dimmed elsewhere. `image` uint8 [C, S,
/// S].
at::Tensor overlay(const at::Tensor& image, const at::Tensor& map);

/// uint8 [3, S, S] from one or three channels.
at::Tensor as_colour(const at::Tensor& image);

}  // namespace topomask::apps
