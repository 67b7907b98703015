#include <cstdio>
// jpeglib.h wants stdio.h before it.
#include <jpeglib.h>

#include "files.h"
#include "support/compare.h"
#include "topomask/data/image.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

constexpr jpeg_scan_info kSeparateScans[] = {{1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};

/// [H, W, 1 or 3] as a JPEG file's bytes; `separate`: a scan for each of three components.
std::string jpeg(const at::Tensor& pixels, bool separate = false) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_height = static_cast<unsigned>(pixels.size(0));
  info.image_width = static_cast<unsigned>(pixels.size(1));
  info.input_components = static_cast<int>(pixels.size(2));
  info.in_color_space = pixels.size(2) == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  if (separate) {
    info.scan_info = kSeparateScans;
    info.num_scans = 3;
  }
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels[info.next_scanline].mutable_data_ptr<uint8_t>();
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string bytes(reinterpret_cast<char*>(buffer), size);
  jpeg_destroy_compress(&info);
  std::free(buffer);
  return bytes;
}

/// A smooth picture, so that JPEG is nearly faithful.
at::Tensor ramp(int64_t height, int64_t width) {
  const at::Tensor y = at::linspace(0, 200, height).view({1, -1, 1}), x = at::linspace(0, 50, width).view({1, 1, -1});
  return (y + x).expand({3, height, width}).to(at::kByte).contiguous();
}

}  // namespace

TEST(Images, PngKeepsEveryByte) {
  const TemporaryFolder folder;
  const at::Tensor image = at::randint(256, {3, 13, 7}).to(at::kByte);
  write_png(folder / "a.png", image);
  EXPECT_TRUE(read_image(folder / "a.png").equal(image));
}

TEST(Images, JpegIsReadInColourAndGrey) {
  const TemporaryFolder folder;
  const at::Tensor image = ramp(37, 63);
  write_file(folder / "a.jpg", jpeg(image.permute({1, 2, 0}).contiguous()));
  write_file(folder / "grey.jpg", jpeg(image[0].unsqueeze(-1).contiguous()));
  for (const char* name : {"a.jpg", "grey.jpg"}) {
    const at::Tensor read = read_image(folder / name);
    EXPECT_EQ(read.sizes(), at::IntArrayRef({3, 37, 63}));
    EXPECT_LT((read.to(at::kInt) - image.to(at::kInt)).abs().max().item<int>(), 6);
  }
}

TEST(Images, LargeJpegsAreDecodedSmaller) {
  const TemporaryFolder folder;
  write_file(folder / "a.jpg", jpeg(ramp(256, 320).permute({1, 2, 0}).contiguous()));
  EXPECT_EQ(read_image(folder / "a.jpg", 60).sizes(), at::IntArrayRef({3, 64, 80}));
  EXPECT_EQ(read_image(folder / "a.jpg", 64).sizes(), at::IntArrayRef({3, 64, 80}));
  EXPECT_EQ(read_image(folder / "a.jpg", 65).sizes(), at::IntArrayRef({3, 128, 160}));
}

TEST(Images, DamagedFilesAreErrorsThatNameThem) {
  const TemporaryFolder folder;
  const std::string whole_jpeg = jpeg(at::randint(256, {64, 64, 3}).to(at::kByte)),
                    whole_png = encode_png(ramp(64, 64));
  const auto expect = [&](const std::string& bytes, const char* text) {
    write_file(folder / "a", bytes);
    EXPECT_ERROR(read_image(folder / "a"), text);
    EXPECT_ERROR(read_image(folder / "a"), (folder / "a").c_str());
  };
  expect("", "the file is empty");
  expect("GIF89a", "expected a JPEG or PNG file, but it starts as neither");
  expect(whole_jpeg.substr(0, whole_jpeg.size() / 2), "the JPEG data is damaged or cut short: Premature end");
  expect(whole_jpeg.substr(0, 30), "not a whole JPEG file");
  expect(whole_png.substr(0, whole_png.size() / 2), "the PNG data is damaged or cut short");
  expect(whole_png.substr(0, 20), "not a whole PNG file");
  std::string huge = whole_png;  // 2³¹−1 pixels wide and high, by its header; the check sum is seen to first
  huge.replace(16, 8, "\x7f\xff\xff\xff\x7f\xff\xff\xff");
  expect(huge, "PNG");
  EXPECT_ERROR(read_image(folder / "nowhere.png"), "cannot open the file");
}

TEST(Images, MorePixelsThanTheFileCanHoldAreRefused) {
  const TemporaryFolder folder;
  const std::string name = folder / "a";
  std::string png = encode_png(ramp(64, 64));  // the sizes are in its first chunk, whose checksum follows
  png.replace(16, 8, std::string("\0\0\x40\0\0\0\x20\0", 8));
  const uLong crc = crc32(0, reinterpret_cast<const unsigned char*>(png.data()) + 12, 17);
  for (int i = 0; i < 4; ++i) png[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  write_file(name, png);
  EXPECT_ERROR(read_image(name), "read_image: " + name + ": it promises 16384 x 8192 pixels, more than its " +
                                     std::to_string(png.size()) + " bytes can hold");

  std::string jpg = jpeg(ramp(64, 64).permute({1, 2, 0}).contiguous());
  jpg.replace(jpg.find("\xff\xc0") + 5, 4, std::string("\x20\0\x40\0", 4));
  write_file(name, jpg);
  EXPECT_ERROR(read_image(name), "it promises 16384 x 8192 pixels, more than its " + std::to_string(jpg.size()));
}

TEST(Images, AJpegOfVeryManyScansIsRefused) {
  const TemporaryFolder folder;
  const std::string whole = jpeg(ramp(16, 16).permute({1, 2, 0}).contiguous(), /*separate=*/true);
  write_file(folder / "a.jpg", whole);
  EXPECT_EQ(read_image(folder / "a.jpg").sizes(), at::IntArrayRef({3, 16, 16}));
  const size_t first = whole.find("\xff\xda"), end = whole.size() - 2;
  std::string many = whole.substr(0, end);
  for (int i = 0; i < 40; ++i) many += whole.substr(first, end - first);
  write_file(folder / "b.jpg", many + whole.substr(end));
  EXPECT_ERROR(read_image(folder / "b.jpg"), "it has more than 100 scans");
}

TEST(Images, ResizingKeepsTheMiddle) {
  at::Tensor wide = at::zeros({3, 8, 24}, at::kByte);
  wide.slice(2, 8, 16).fill_(200);
  EXPECT_TRUE(resize_image(wide, 8).equal(at::full({3, 8, 8}, 200, at::kByte)));
  EXPECT_EQ(resize_image(wide, 5).sizes(), at::IntArrayRef({3, 5, 5}));
  EXPECT_EQ(resize_image(wide.transpose(1, 2), 31).sizes(), at::IntArrayRef({3, 31, 31}));
  EXPECT_ERROR(resize_image(wide[0], 8), "image must be [C, H, W] and not empty, got Byte[8, 24]");
  EXPECT_ERROR(resize_image(wide, 0), "size must be positive, got 0");
}

TEST(Images, OfAStripOnlyTheMiddleIsScaled) {
  at::Tensor strip = at::zeros({3, 1, 65535}, at::kByte);  // would become 224 x 14 679 840 pixels
  strip.slice(2, 32757, 32778).fill_(90);
  EXPECT_TRUE(resize_image(strip, 224).equal(at::full({3, 224, 224}, 90, at::kByte)));
  EXPECT_TRUE(resize_image(strip.transpose(1, 2), 224).equal(at::full({3, 224, 224}, 90, at::kByte)));
  strip[0][0][32767] = 255;  // the very middle
  const at::Tensor scaled = resize_image(strip, 33)[0][0].to(at::kInt);
  EXPECT_EQ(scaled.argmax().item<int64_t>(), 16);
  EXPECT_LE((scaled - scaled.flip(0)).abs().max().item<int>(), 1);

  const auto whole = [](const at::Tensor& image, int64_t size) {
    const int64_t width = image.size(2) * size / image.size(1);
    const at::Tensor all = at::_upsample_bilinear2d_aa(image.unsqueeze(0), {size, width}, false)[0];
    return all.slice(2, (width - size) / 2, (width - size) / 2 + size);
  };
  const at::Tensor long_one = at::randint(256, {3, 8, 8 * 40}).to(at::kByte), ordinary = long_one.slice(2, 0, 8 * 16);
  EXPECT_TRUE(resize_image(ordinary, 5).equal(whole(ordinary, 5)));
  EXPECT_TRUE(resize_image(long_one, 8).equal(long_one.slice(2, 8 * 39 / 2, 8 * 39 / 2 + 8)));
  const at::Tensor error = resize_image(long_one, 4).to(at::kInt) - whole(long_one, 4).to(at::kInt);
  EXPECT_LE(error.abs().max().item<int>(), 1);
}

TEST(Images, ColoursRunFromDarkToBrightAndGreyIsForNothing) {
  const at::Tensor colours = colour_map(at::tensor({0.0, 1.0, 2.0, std::nan("")}, at::kDouble).view({1, 4}));
  EXPECT_EQ(colours.sizes(), at::IntArrayRef({3, 1, 4}));
  EXPECT_TRUE(colours.select(2, 0).flatten().equal(at::tensor({28, 5, 60}, at::kByte)));
  EXPECT_TRUE(colours.select(2, 1).flatten().equal(at::tensor({250, 230, 40}, at::kByte)));
  EXPECT_TRUE(colours.select(2, 2).equal(colours.select(2, 1)));
  EXPECT_TRUE(colours.select(2, 3).flatten().equal(at::full({3}, 125, at::kByte)));
  EXPECT_ERROR(colour_map(at::zeros({3})), "values must be [H, W], got Float[3]");
}

TEST(Images, PanelsStandSideBySide) {
  const at::Tensor panel = at::full({3, 4, 5}, 7, at::kByte);
  EXPECT_EQ(panels({panel, panel, panel}, 2, 3).sizes(), at::IntArrayRef({3, 2 * (12 + 6) + 6, 2 * (15 + 6) + 6}));
  EXPECT_ERROR(panels({}, 1, 1), "panels: images, across and scale must not be empty or zero");
  EXPECT_ERROR(panels({panel, panel[0].unsqueeze(0)}, 1, 1), "images must be of one shape");
  EXPECT_ERROR(encode_png(at::zeros({3, 0, 5}, at::kByte)), "image must be uint8 [3, H, W] and not empty");
}
