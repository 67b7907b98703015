#include <ATen/ATen.h>

#include "figure.h"
#include "pictures.h"
#include "report/sections.h"
#include "topomask/data/image.h"

namespace topomask::apps {
namespace {

constexpr int64_t kPanel = 96;  // pixels along a panel, about

/// The colours from dark to bright, with numbers under them.
std::string scale_bar(const ColourScale& scale) {
  constexpr int64_t kLength = 200;
  const at::Tensor bar = at::linspace(0, 1, kLength, at::kDouble).unsqueeze(0).expand({4, kLength});
  std::string numbers;
  for (const ColourScale::Tick& tick : scale.ticks()) numbers += "<span>" + escape(tick.text) + "</span>";
  return "<div class=\"scale\">" + inline_image(colour_map(bar), "colour scale") + "<div>" + numbers + "</div></div>";
}

/// A figure for each layer, heads side by side.
std::string layers(const GroupModel& model, const std::vector<MaskPtr>& masks, int64_t token) {
  const ViTOptions& options = model.loaded.config.model;
  const int64_t grid = options.grid(), global = options.cls_token ? 1 : 0;
  const int64_t scale = std::max<int64_t>(1, kPanel / grid);
  std::string body;
  for (size_t layer = 0; layer < masks.size(); ++layer) {
    const at::Tensor rows = mask_rows(*masks[layer], at::full({1}, token + global, at::kLong)).select(1, 0);
    const at::Tensor patches = rows.slice(1, global);
    const ColourScale colours = scale_for(patches);
    const at::Tensor brightness = colours.brightness(patches);
    body += "<figure><div class=\"heads\">";
    for (int64_t head = 0; head < rows.size(0); ++head) {
      const at::Tensor picture = colour_map(brightness[head].view({grid, grid}));
      body += inline_image(picture.repeat_interleave(scale, 1).repeat_interleave(scale, 2),
                           format("%s, layer %zu, head %ld: what the mask lets the patch see", model.label.c_str(),
                                  layer + 1, static_cast<long>(head + 1)));
    }
    body += format("</div>%s<figcaption>layer %zu, %s: M<sub>ij</sub>, %s</figcaption></figure>",
                   scale_bar(colours).c_str(), layer + 1, rows.size(0) == 1 ? "all heads" : "a panel for each head",
                   colours.logarithmic ? "logarithmic" : "linear");
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
