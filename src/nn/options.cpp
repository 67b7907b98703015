#include "topomask/nn/options.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <map>

namespace topomask {
namespace {

struct Size {
  int64_t width, depth, heads, patch_size;
};

const std::map<std::string, Size>& sizes() {
  static const std::map<std::string, Size> table{
      {"pico", {64, 4, 2, 4}}, {"tiny", {192, 6, 3, 4}}, {"small", {384, 12, 6, 16}}, {"base", {768, 12, 12, 16}}};
  return table;
}

}  // namespace

ViTOptions ViTOptions::preset(const std::string& name) {
  const auto found = sizes().find(name);
  TORCH_CHECK(found != sizes().end(), "ViTOptions::preset: name must be one of ", c10::Join(", ", preset_names()),
              ", got ", name);
  ViTOptions options;
  options.width = found->second.width;
  options.depth = found->second.depth;
  options.heads = found->second.heads;
  options.patch_size = found->second.patch_size;
  return options;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, size] : sizes()) names.push_back(name);
  return names;
}

}  // namespace topomask
