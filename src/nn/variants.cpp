#include "topomask/nn/variants.h"

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include <map>

#include "nn/grid.h"
#include "nn/names.h"

namespace topomask {
namespace {

std::map<std::string, VariantFactory>& registry() {
  static std::map<std::string, VariantFactory> factories;
  return factories;
}

}  // namespace

int64_t VariantSetting::num_nodes() const {
  int64_t nodes = 1;
  for (const int64_t side : shape()) nodes *= side;
  return nodes;
}

Graph VariantSetting::graph() const {
  return grid_graph(options, shape());
}

FeatureMap VariantSetting::features() const {
  switch (kFeatureNames.parse("ViT", "features", present_name(options.features))) {
    case Features::relu:
      return FeatureMap::relu(options.feature_offset);
    case Features::elu:
      return FeatureMap::elu();
    case Features::favor:
      break;
  }
  const int64_t count = options.favor_features > 0 ? options.favor_features : options.head_dim();
  return FeatureMap::favor(options.head_dim(), count,
                           {.seed = seed + static_cast<uint64_t>(layer), .stabilised = true});
}

at::Tensor VariantSetting::coefficients() const {
  return at::exp(at::arange(options.hops + 1, at::kFloat) * -options.decay).repeat({options.heads, 1});
}

VariantRegistration::VariantRegistration(std::string name, VariantFactory factory) {
  const bool added = registry().emplace(name, std::move(factory)).second;
  TORCH_CHECK(added, "VariantRegistration: name must be new, got ", name);
}

std::shared_ptr<AttentionVariant> make_variant(const VariantSetting& setting) {
  const auto found = registry().find(setting.options.variant);
  TORCH_CHECK(found != registry().end(), "ViT: variant must be one of ", c10::Join(", ", variant_names()), ", got ",
              setting.options.variant);
  return found->second(setting);
}

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : registry()) names.push_back(name);
  return names;
}

}  // namespace topomask
