#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace topomask::apps {

/// How values become brightness: linear from `low` to `high`, or by their logarithm over the four decades up to `high`,
/// where what is less, zero or negative is darkest.
struct ColourScale {
  double low = 0, high = 1;
  bool logarithmic = false;

  at::Tensor brightness(const at::Tensor& values) const;  ///< in [0, 1]
  struct Tick {
    double brightness;
    std::string text;
  };
  std::vector<Tick> ticks() const;  ///< numbers along the scale, from dark to bright
};

/// Linear where the largest value is at most thirty times the smallest, which is positive; otherwise by logarithm.
ColourScale scale_for(const at::Tensor& values);

struct Panel {
  at::Tensor image;     ///< uint8 [3, H, W], one shape for all panels
  std::string caption;  ///< above it
};

struct FigureOptions {
  std::string title;
  std::vector<std::string> notes = {};  ///< lines under the title
  int64_t across = 4;                   ///< panels in a row
  int64_t zoom = 1;                     ///< pixels of the figure along one of a panel
};

/// Panels with captions under a title, uint8 [3, H, W] on white; with a bar of colours and its numbers at the right
/// where a scale is given.
at::Tensor draw_figure(const std::vector<Panel>& panels, const FigureOptions& options,
                       const ColourScale* scale = nullptr);

}  // namespace topomask::apps
