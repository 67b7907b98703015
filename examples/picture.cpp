#include "picture.h"

#include <ATen/ATen.h>
#include <png.h>

#include <array>
#include <cmath>
#include <filesystem>

namespace topomask::examples {
namespace {

using Colour = std::array<double, 3>;

/// Dark violet over teal to yellow, rising evenly in brightness.
Colour colour(double value) {
  if (std::isnan(value)) return {125, 125, 125};
  constexpr std::array<Colour, 5> kStops{{{28, 5, 60}, {60, 60, 135}, {35, 135, 140}, {95, 200, 95}, {250, 230, 40}}};
  const double place = std::clamp(value, 0.0, 1.0) * (kStops.size() - 1);
  const size_t stop = std::min(static_cast<size_t>(place), kStops.size() - 2);
  Colour mixed{};
  for (size_t c = 0; c < 3; ++c)
    mixed[c] = std::lerp(kStops[stop][c], kStops[stop + 1][c], place - static_cast<double>(stop));
  return mixed;
}

}  // namespace

void write_panels(const std::string& path, const std::vector<at::Tensor>& panels, int64_t across, int64_t scale) {
  TORCH_CHECK(!panels.empty() && across > 0 && scale > 0,
              "write_panels: panels, across and scale must not be empty or zero");
  const int64_t rows = panels[0].size(0), cols = panels[0].size(1), gap = 2 * scale;
  const int64_t down = (static_cast<int64_t>(panels.size()) + across - 1) / across;
  const int64_t width = across * (cols * scale + gap) + gap, height = down * (rows * scale + gap) + gap;
  std::vector<uint8_t> pixels(static_cast<size_t>(width * height * 3), 255);
  for (size_t p = 0; p < panels.size(); ++p) {
    const at::Tensor panel = panels[p].to(at::kDouble).contiguous();
    TORCH_CHECK(panel.size(0) == rows && panel.size(1) == cols, "write_panels: panels must be of one shape");
    const double* value = panel.const_data_ptr<double>();
    const int64_t left = gap + static_cast<int64_t>(p) % across * (cols * scale + gap);
    const int64_t top = gap + static_cast<int64_t>(p) / across * (rows * scale + gap);
    for (int64_t y = 0; y < rows * scale; ++y) {
      for (int64_t x = 0; x < cols * scale; ++x) {
        const Colour mixed = colour(value[y / scale * cols + x / scale]);
        for (int64_t c = 0; c < 3; ++c) pixels[((top + y) * width + left + x) * 3 + c] = static_cast<uint8_t>(mixed[c]);
      }
    }
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  const std::string temporary = path + ".tmp";
  TORCH_CHECK(png_image_write_to_file(&image, temporary.c_str(), 0, pixels.data(), 0, nullptr),
              "write_panels: cannot write ", temporary, ": ", image.message);
  std::filesystem::rename(temporary, path);
}

}  // namespace topomask::examples
