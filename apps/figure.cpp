#include "figure.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text_picture.h"
#include "topomask/data/image.h"

namespace topomask::apps {
namespace {

constexpr int64_t kMargin = 14, kGap = 16, kBarWidth = 18, kTick = 5, kTitleScale = 2;
constexpr int64_t kDecades = 4;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

void draw_bar(const at::Tensor& whole, const ColourScale& scale, int64_t top, int64_t height, int64_t left) {
  const at::Tensor values = at::linspace(1, 0, height, at::kDouble).unsqueeze(1).expand({height, kBarWidth});
  whole.narrow(1, top, height).narrow(2, left, kBarWidth).copy_(colour_map(values));
  for (const ColourScale::Tick& tick : scale.ticks()) {
    const auto y = top + static_cast<int64_t>(std::lround((1 - tick.brightness) * static_cast<double>(height - 1)));
    whole.narrow(1, y, 1).narrow(2, left + kBarWidth, kTick).fill_(40);
    draw_text(whole, y - 3, left + kBarWidth + kTick + 3, tick.text);
  }
}

}  // namespace

at::Tensor ColourScale::brightness(const at::Tensor& values) const {
  if (!logarithmic) return ((values - low) / std::max(high - low, 1e-300)).clamp(0, 1);
  if (!(high > 0)) return at::zeros_like(values);
  return ((1 + (values / high).clamp_min(1e-30).log10() / kDecades) * (values > 0)).clamp(0, 1);
}

std::vector<ColourScale::Tick> ColourScale::ticks() const {
  std::vector<Tick> ticks;
  if (!logarithmic) {
    constexpr int kSteps = 4;
    for (int k = 0; k <= kSteps; ++k) ticks.push_back({k / 4.0, number(low + (high - low) * k / kSteps)});
    return ticks;
  }
  for (int64_t k = kDecades; k >= 0; --k) {
    const std::string text = number(high * std::pow(10.0, -static_cast<double>(k)));
    ticks.push_back({1 - static_cast<double>(k) / kDecades, k == kDecades ? "<= " + text : text});
  }
  return ticks;
}

ColourScale scale_for(const at::Tensor& values) {
  constexpr double kNarrow = 30;
  if (values.numel() == 0) return {};
  const double low = values.min().item<double>(), high = values.max().item<double>();
  if (low > 0 && high <= kNarrow * low) return {low, high, false};
  return {0, high, true};
}

at::Tensor draw_figure(const std::vector<Panel>& panels, const FigureOptions& options, const ColourScale* scale) {
  TORCH_CHECK(!panels.empty(), "draw_figure: panels must not be empty");
  const auto count = static_cast<int64_t>(panels.size()), across = std::min(options.across, count);
  const int64_t down = (count + across - 1) / across, line = text_height() + 4;
  const int64_t height = panels[0].image.size(1) * options.zoom, panel_width = panels[0].image.size(2) * options.zoom;
  int64_t cell = panel_width, tick_width = 0, header = text_width(options.title, kTitleScale);
  for (const Panel& panel : panels) cell = std::max(cell, text_width(panel.caption));
  for (const std::string& note : options.notes) header = std::max(header, text_width(note));
  if (scale) {
    for (const ColourScale::Tick& tick : scale->ticks()) tick_width = std::max(tick_width, text_width(tick.text));
  }
  const int64_t bar = scale ? kGap + kBarWidth + kTick + 3 + tick_width : 0;
  const int64_t grid_top =
      kMargin + text_height(kTitleScale) + 8 + line * static_cast<int64_t>(options.notes.size()) + 4;
  const int64_t grid_width = across * cell + (across - 1) * kGap;
  const int64_t grid_height = down * (line + height) + (down - 1) * kGap;
  const at::Tensor whole =
      at::full({3, grid_top + grid_height + kMargin, 2 * kMargin + std::max(grid_width + bar, header)}, 255, at::kByte);
  draw_text(whole, kMargin, kMargin, options.title, kTitleScale);
  for (size_t i = 0; i < options.notes.size(); ++i) {
    draw_text(whole, kMargin + text_height(kTitleScale) + 8 + line * static_cast<int64_t>(i), kMargin,
              options.notes[i]);
  }
  for (int64_t p = 0; p < count; ++p) {
    const Panel& panel = panels[static_cast<size_t>(p)];
    TORCH_CHECK(panel.image.sizes() == panels[0].image.sizes(), "draw_figure: panels must be of one shape");
    const int64_t top = grid_top + p / across * (line + height + kGap), left = kMargin + p % across * (cell + kGap);
    draw_text(whole, top, left, panel.caption);
    const at::Tensor large = panel.image.repeat_interleave(options.zoom, 1).repeat_interleave(options.zoom, 2);
    whole.narrow(1, top + line, height).narrow(2, left, panel_width).copy_(large);
  }
  if (scale)
    draw_bar(whole, *scale, grid_top + line, std::min<int64_t>(grid_height - line, 400), kMargin + grid_width + kGap);
  return whole;
}

}  // namespace topomask::apps
