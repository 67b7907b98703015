#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/graph.h"
#include "topomask/nn/attention.h"
#include "topomask/nn/options.h"
#include "topomask/nn/walk_pool.h"

namespace TOPOMASK_API topomask {

/// What an attention variant of one layer is made from.
struct VariantSetting {
  ViTOptions options;
  int64_t layer = 0;
  uint64_t seed = 0;                ///< of the model
  at::Generator generator;          ///< of initial values
  std::shared_ptr<WalkPool> walks;  ///< of all layers
  std::vector<int64_t> axes;        ///< sides of the grid of tokens; empty: that of an image, grid x grid

  std::vector<int64_t> shape() const { return axes.empty() ? std::vector{options.grid(), options.grid()} : axes; }
  int64_t num_nodes() const;
  int64_t global_tokens() const { return options.cls_token ? 1 : 0; }
  Graph graph() const;              ///< the grid of tokens, W_ij = edge_scale/√(d_i d_j)
  FeatureMap features() const;      ///< options.features by name
  at::Tensor coefficients() const;  ///< float32 [H, hops + 1]: exp(−decay·k), the start of f and α
};

using VariantFactory = std::function<std::shared_ptr<AttentionVariant>(const VariantSetting&)>;

/// A variant is a file in src/nn/variants with one of these at namespace scope; nothing else names it.
struct VariantRegistration {
  VariantRegistration(std::string name, VariantFactory factory);
};

/// The variant that options.variant names; an unknown name is an error that lists those known.
std::shared_ptr<AttentionVariant> make_variant(const VariantSetting& setting);

std::vector<std::string> variant_names();

}  // namespace topomask
