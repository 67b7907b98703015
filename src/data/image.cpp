#include "topomask/data/image.h"

#include <ATen/ATen.h>

#include <array>

#include "core/checks.h"
#include "data/image_codecs.h"
#include "data/readers.h"
#include "io/input_file.h"

namespace topomask {

std::string refused_size(int64_t width, int64_t height, int64_t bytes, int64_t pixels_per_byte) {
  constexpr int64_t kAlwaysFine = int64_t{1} << 22;
  const int64_t pixels = width * height;  // both are below 2³¹
  const std::string promise = c10::str("it promises ", width, " x ", height, " pixels, more than ");
  if (pixels > kLargestImagePixels) return c10::str(promise, kLargestImagePixels);
  if (pixels <= kAlwaysFine || pixels / pixels_per_byte <= bytes) return "";
  return c10::str(promise, "its ", bytes, " bytes can hold");
}

at::Tensor read_image(const std::string& path, int64_t smallest_side) {
  TORCH_CHECK(smallest_side >= 0, "read_image: smallest_side must be >= 0, got ", smallest_side);
  std::array<unsigned char, 4> start{};
  int64_t bytes = 0;
  {
    io::InputFile file({"read_image", path});
    bytes = file.size().value_or(0);
    if (file.read(reinterpret_cast<char*>(start.data()), start.size()) == 0)
      io::fail(file.origin(), "the file is empty");
  }
  at::Tensor pixels;
  if (start[0] == 0xff && start[1] == 0xd8) {
    pixels = decode_jpeg(path, bytes, smallest_side);
  } else if (start[0] == 0x89 && start[1] == 'P' && start[2] == 'N' && start[3] == 'G') {
    pixels = decode_png(path, bytes);
  } else {
    io::fail({"read_image", path}, "expected a JPEG or PNG file, but it starts as neither");
  }
  return pixels.permute({2, 0, 1});
}

at::Tensor resize_image(const at::Tensor& image, int64_t size) {
  TORCH_CHECK(image.defined() && image.dim() == 3 && image.numel() > 0,
              "resize_image: image must be [C, H, W] and not empty, got ", describe(image));
  TORCH_CHECK(size > 0, "resize_image: size must be positive, got ", size);
  constexpr int64_t kMostSide = 65536;
  TORCH_CHECK(size <= kMostSide, "resize_image: size must be at most ", kMostSide, ", got ", size);
  const int64_t height = image.size(1), width = image.size(2), shorter = std::min(height, width);
  const auto scaled = [&](int64_t side) { return std::max(size, (side * size + shorter / 2) / shorter); };
  // A file of a few bytes may hold a strip of one row, which would be scaled to gigabytes: far from its middle, nothing
  // is seen.
  constexpr int64_t kLongest = 16;  // times the shorter side
  at::Tensor resized = image.unsqueeze(0);
  for (const int64_t dim : {2, 3}) {
    const int64_t beyond = (resized.size(dim) - kLongest * shorter) / 2;
    if (beyond > 0) resized = resized.narrow(dim, beyond, resized.size(dim) - 2 * beyond);
  }
  if (shorter != size) {
    resized = at::_upsample_bilinear2d_aa(resized, {scaled(resized.size(2)), scaled(resized.size(3))}, false);
  }
  const int64_t top = (resized.size(2) - size) / 2, left = (resized.size(3) - size) / 2;
  return resized[0].slice(1, top, top + size).slice(2, left, left + size);
}

at::Tensor colour_map(const at::Tensor& values) {
  TORCH_CHECK(values.defined() && values.dim() == 2, "colour_map: values must be [H, W], got ", describe(values));
  // Dark violet over teal to yellow, rising evenly in brightness.
  const at::Tensor stops =
      at::tensor({28., 5., 60., 60., 60., 135., 35., 135., 140., 95., 200., 95., 250., 230., 40.}, at::kDouble)
          .view({5, 3});
  const at::Tensor real = values.detach().to(at::kCPU, at::kDouble), missing = real.isnan();
  const at::Tensor place = real.nan_to_num(0).clamp(0, 1) * 4, stop = place.floor().clamp_max(3).to(at::kLong);
  const at::Tensor low = stops.index({stop}), high = stops.index({stop + 1});
  const at::Tensor mixed = low + (high - low) * (place - stop).unsqueeze(-1);
  return at::where(missing.unsqueeze(-1), at::full({}, 125., at::kDouble), mixed).to(at::kByte).permute({2, 0, 1});
}

at::Tensor panels(const std::vector<at::Tensor>& images, int64_t across, int64_t scale) {
  TORCH_CHECK(!images.empty() && across > 0 && scale > 0, "panels: images, across and scale must not be empty or zero");
  for (const at::Tensor& image : images) {
    TORCH_CHECK(image.defined() && image.scalar_type() == at::kByte && image.dim() == 3,
                "panels: images must be uint8 [3, H, W], got ", describe(image));
  }
  checked_product("panels", "the pixels, scale x scale x pixels of the images,",
                  {std::ssize(images), images[0].size(1) + 2, images[0].size(2) + 2, scale, scale},
                  kLargestImagePixels);
  const int64_t rows = images[0].size(1), cols = images[0].size(2), gap = 2 * scale;
  across = std::min(across, static_cast<int64_t>(images.size()));
  const int64_t down = (static_cast<int64_t>(images.size()) + across - 1) / across;
  at::Tensor whole =
      at::full({3, down * (rows * scale + gap) + gap, across * (cols * scale + gap) + gap}, 255, at::kByte);
  for (int64_t p = 0; p < static_cast<int64_t>(images.size()); ++p) {
    const at::Tensor& panel = images[static_cast<size_t>(p)];
    TORCH_CHECK(panel.sizes() == at::IntArrayRef({3, rows, cols}), "panels: images must be of one shape, got ",
                describe(panel));
    const int64_t left = gap + p % across * (cols * scale + gap), top = gap + p / across * (rows * scale + gap);
    whole.slice(1, top, top + rows * scale)
        .slice(2, left, left + cols * scale)
        .copy_(panel.repeat_interleave(scale, 1).repeat_interleave(scale, 2));
  }
  return whole;
}

}  // namespace topomask
