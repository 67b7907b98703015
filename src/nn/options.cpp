#include "topomask/nn/options.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <map>

#include "core/option_checks.h"
#include "nn/names.h"
#include "topomask/nn/variants.h"

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

void ViTOptions::check(const std::string& origin) const {
  const OptionChecks check(origin);
  constexpr int64_t kMostSide = 65536, kMostWidth = int64_t{1} << 24;
  check.at_least("image_size", image_size, 0);
  check.at_least("channels", channels, 0);
  check.at_least("classes", classes, 0);
  check.at_least("patch_size", patch_size, 1);
  check.at_least("width", width, 1);
  check.at_least("depth", depth, 0);
  check.at_least("heads", heads, 1);
  check.that(image_size <= kMostSide, "image_size", "at most ", kMostSide, ", got ", image_size);
  check.that(patch_size <= kMostSide, "patch_size", "at most ", kMostSide, ", got ", patch_size);
  check.that(channels <= kMostWidth, "channels", "at most ", kMostWidth, ", got ", channels);
  check.that(classes <= kMostWidth, "classes", "at most ", kMostWidth, ", got ", classes);
  check.that(width <= kMostWidth, "width", "at most ", kMostWidth, ", got ", width);
  check.that(depth <= 65536, "depth", "at most 65536, got ", depth);
  check.positive("mlp_ratio", mlp_ratio, std::numeric_limits<double>::max());
  check.that(mlp_ratio * static_cast<double>(width) <= static_cast<double>(kMostWidth), "mlp_ratio", "at most ",
             kMostWidth, " hidden features for a width of ", width, ", got ", mlp_ratio);
  check.fraction("dropout", dropout);
  check.one_of("variant", variant, variant_names());
  check.one_of("features", present_name(features), kFeatureNames.all());
  check.not_negative("feature_offset", feature_offset, check.kLargestParameter);
  check.at_least("favor_features", favor_features, 0);
  check.at_least("walkers", walkers, 1);
  check.that(walkers <= INT32_MAX, "walkers", "at most 2^31-1, got ", walkers);
  check.that(halting_probability > 0 && halting_probability < 1, "halting_probability", "in (0, 1), got ",
             halting_probability);
  check.at_least("hops", hops, 0);
  check.that(hops <= 32767, "hops", "at most 32767, got ", hops);
  check.one_of("sampler", sampler == kFormerIndependent ? "independent" : sampler, kCouplingNames.all());
  check.finite("edge_scale", edge_scale, check.kLargestParameter);
  check.not_negative("decay", decay, check.kLargestParameter);
  check.not_negative("diffusion_time", diffusion_time, check.kLargestParameter);
  check.at_least("rank", rank, 0);
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, size] : sizes()) names.push_back(name);
  return names;
}

}  // namespace topomask
