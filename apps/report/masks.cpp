#include <ATen/ATen.h>

#include "pictures.h"
#include "report/sections.h"
#include "topomask/data/image.h"

namespace topomask::apps {
namespace {

constexpr int64_t kPanel = 96;       // pixels along a panel, about
constexpr double kNarrowRange = 30;  // largest over smallest value up to which a linear scale shows more

struct Shown {
  at::Tensor brightness;  // [H, N] in [0, 1]
  std::string scale;
};

/// Rows [H, N] of one layer on a common scale.
Shown brightness_of(const at::Tensor& rows) {
  const double low = rows.min().item<double>(), high = rows.max().item<double>();
  if (low > 0 && high <= kNarrowRange * low) {
    return {(rows - low) / std::max(high - low, 1e-12), format("%.3g dark to %.3g bright", low, high)};
  }
  return {four_decades(rows), format("four decades up to %.3g", high)};
}

/// A figure for each layer, heads side by side.
std::string layers(const GroupModel& model, const std::vector<MaskPtr>& masks, int64_t token) {
  const ViTOptions& options = model.loaded.config.model;
  const int64_t grid = options.grid(), global = options.cls_token ? 1 : 0;
  const int64_t scale = std::max<int64_t>(1, kPanel / grid);
  std::string body;
  for (size_t layer = 0; layer < masks.size(); ++layer) {
    const at::Tensor rows = mask_rows(*masks[layer], at::full({1}, token + global, at::kLong)).select(1, 0);
    const Shown shown = brightness_of(rows.slice(1, global));
    body += "<figure><div class=\"heads\">";
    for (int64_t head = 0; head < rows.size(0); ++head) {
      const at::Tensor colours = colour_map(shown.brightness[head].view({grid, grid}));
      body += inline_image(colours.repeat_interleave(scale, 1).repeat_interleave(scale, 2),
                           format("%s, layer %zu, head %ld: what the mask lets the patch see", model.label.c_str(),
                                  layer + 1, static_cast<long>(head + 1)));
    }
    body += format("</div><figcaption>layer %zu%s: %s</figcaption></figure>", layer + 1,
                   rows.size(0) == 1 ? ", all heads" : "", shown.scale.c_str());
  }
  return "<div class=\"small\">" + body + "</div>\n";
}

}  // namespace

Section masks_section(const std::vector<GroupModel>& models, int64_t token) {
  std::string body, without;
  for (const GroupModel& model : models) {
    const std::vector<MaskPtr> masks = model.loaded.model->masks();
    if (masks.empty() || !masks[0]) {
      without += (without.empty() ? "" : ", ") + model.label;
      continue;
    }
    const int64_t grid = model.loaded.config.model.grid(), tokens = grid * grid;
    const int64_t chosen = token < 0 ? grid / 2 * grid + grid / 2 : std::min(token, tokens - 1);
    body += "<h3>" + escape(model.label) +
            format(" <span class=\"soft\">patch %ld, row %ld, column %ld</span></h3>", static_cast<long>(chosen),
                   static_cast<long>(chosen / grid), static_cast<long>(chosen % grid));
    body += layers(model, masks, chosen);
  }
  std::string lead =
      "<p>What the mask lets one patch see of the others, head by head. Where values span more than a factor of 30, "
      "brightness is their logarithm, over four decades; dark is less than that, zero or negative.</p>\n";
  if (!without.empty()) body += "<p class=\"soft\">Without a mask: " + escape(without) + ".</p>\n";
  return {"masks", "Mask rows", lead + body};
}

}  // namespace topomask::apps
