#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include "nn/seeded_generator.h"
#include "topomask/nn/graph_mask.h"
#include "topomask/nn/graph_model.h"

namespace topomask {
namespace {

/// Factories by name. A function-local static, since registrations of other files may come first.
template <class Factory>
std::map<std::string, Factory>& factories() {
  static std::map<std::string, Factory> known;
  return known;
}

template <class Factory>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories<Factory>()) names.push_back(name);
  return names;
}

template <class Factory>
const Factory& named(const char* field, const std::string& name) {
  const auto found = factories<Factory>().find(name);
  TORCH_CHECK(found != factories<Factory>().end(), "graph model: ", field, " must be one of ",
              c10::Join(", ", names_of<Factory>()), ", got ", name);
  return found->second;
}

}  // namespace

GraphModelRegistration::GraphModelRegistration(std::string name, GraphModelFactory factory) {
  const bool added = factories<GraphModelFactory>().emplace(name, std::move(factory)).second;
  TORCH_CHECK(added, "GraphModelRegistration: name must be new, got ", name);
}

GraphMaskRegistration::GraphMaskRegistration(std::string name, GraphMaskFactory factory) {
  const bool added = factories<GraphMaskFactory>().emplace(name, std::move(factory)).second;
  TORCH_CHECK(added, "GraphMaskRegistration: name must be new, got ", name);
}

std::vector<std::string> graph_model_names() {
  return names_of<GraphModelFactory>();
}

std::vector<std::string> graph_mask_names() {
  return names_of<GraphMaskFactory>();
}

std::shared_ptr<GraphModel> make_graph_model(const GraphModelOptions& options, uint64_t seed) {
  options.check();
  TORCH_CHECK(options.features >= 1, "graph model: features must be >= 1, got ", options.features);
  TORCH_CHECK(options.classes >= 1, "graph model: classes must be >= 1, got ", options.classes);
  const SeededGenerator seeded(seed);
  return named<GraphModelFactory>("kind", options.kind)(options, seed);
}

std::shared_ptr<GraphMask> make_graph_mask(const GraphMaskSetting& setting) {
  return named<GraphMaskFactory>("mask", setting.options.mask)(setting);
}

bool has_mask_function(const GraphModelOptions& options) {
  return std::dynamic_pointer_cast<FunctionGraphMask>(make_graph_mask({.options = options})) != nullptr;
}

}  // namespace topomask
