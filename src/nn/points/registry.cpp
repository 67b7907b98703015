#include <c10/util/StringUtil.h>

#include <map>

#include "topomask/nn/local_layer.h"

namespace topomask {
namespace {

/// A function-local static, since registrations of other files may come first.
std::map<std::string, LocalLayerFactory>& local_layers() {
  static std::map<std::string, LocalLayerFactory> known;
  return known;
}

}  // namespace

LocalLayerRegistration::LocalLayerRegistration(std::string name, LocalLayerFactory factory) {
  const bool added = local_layers().emplace(name, std::move(factory)).second;
  TORCH_CHECK(added, "LocalLayerRegistration: name must be new, got ", name);
}

std::shared_ptr<LocalLayer> make_local_layer(const PointModelOptions& options) {
  const auto found = local_layers().find(options.local);
  TORCH_CHECK(found != local_layers().end(), "point model: local must be one of ", c10::Join(", ", local_layer_names()),
              ", got ", options.local);
  return found->second(options);
}

std::vector<std::string> local_layer_names() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : local_layers()) names.push_back(name);
  return names;
}

}  // namespace topomask
