#include "topomask/data/animation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "data/files.h"
#include "support/compare.h"
#include "topomask/data/image.h"

namespace topomask::testing {
namespace {

struct Chunk {
  std::string type, data;
};

uint32_t big_endian(const std::string& bytes, size_t at, size_t count = 4) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

/// The chunks of a PNG, whose checksums must be right.
std::vector<Chunk> chunks_of(const std::string& png) {
  std::vector<Chunk> chunks;
  for (size_t at = 8; at < png.size();) {
    const size_t length = big_endian(png, at);
    const std::string typed = png.substr(at + 4, 4 + length);
    EXPECT_EQ(::crc32_z(0, reinterpret_cast<const unsigned char*>(typed.data()), typed.size()),
              big_endian(png, at + 8 + length));
    chunks.push_back({typed.substr(0, 4), typed.substr(4)});
    at += 12 + length;
  }
  return chunks;
}

TEST(Animation, HoldsEveryImageInOrder) {
  const TemporaryFolder folder;
  std::vector<at::Tensor> images;
  for (int i = 0; i < 4; ++i) images.push_back(at::randint(256, {3, 7, 9}, at::kByte));
  const std::string bytes = encode_animation(images, 250);
  write_animation(folder / "a.png", images, 250);
  EXPECT_EQ(read_file(folder / "a.png"), bytes);
  EXPECT_TRUE(at::equal(read_image(folder / "a.png"), images[0]));  // what a reader of PNG sees

  const std::vector<Chunk> chunks = chunks_of(bytes);
  uint32_t sequence = 0;
  size_t frames = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const auto& [type, data] = chunks[i];
    if (type == "acTL") {
      EXPECT_EQ(big_endian(data, 0), 4U);
    }
    if (type == "fcTL") {
      EXPECT_EQ(big_endian(data, 0), sequence++);
      EXPECT_EQ(big_endian(data, 4), 9U);
      EXPECT_EQ(big_endian(data, 8), 7U);
      EXPECT_EQ(big_endian(data, 20, 2), 250U);
      EXPECT_EQ(big_endian(data, 22, 2), 1000U);
      ASSERT_LT(i + 1, chunks.size());
      EXPECT_EQ(chunks[i + 1].type, frames == 0 ? "IDAT" : "fdAT");
    }
    if (type != "IDAT" && type != "fdAT") continue;
    if (type == "fdAT") {
      EXPECT_EQ(big_endian(data, 0), sequence++);
    }
    // A PNG of this frame alone: the header, the pixels, the end.
    const std::string single = encode_png(images[frames]);
    std::string pixels;
    for (const Chunk& chunk : chunks_of(single)) pixels += chunk.type == "IDAT" ? chunk.data : "";
    EXPECT_EQ(type == "IDAT" ? data : data.substr(4), pixels);
    ++frames;
  }
  EXPECT_EQ(frames, 4U);
  EXPECT_EQ(chunks.back().type, "IEND");
}

TEST(Animation, RefusesWhatItCannotHold) {
  EXPECT_ERROR(encode_animation({}, 100), "encode_animation: images must not be empty");
  const at::Tensor image = at::zeros({3, 4, 5}, at::kByte);
  EXPECT_ERROR(encode_animation({image, at::zeros({3, 4, 6}, at::kByte)}, 100),
               "images must be of one shape, got Byte");
  EXPECT_ERROR(encode_animation({image}, 0), "milliseconds must be in [1, 65535], got 0");
  EXPECT_ERROR(encode_animation({image.to(at::kFloat)}, 10), "image must be uint8 [3, H, W]");
}

}  // namespace
}  // namespace topomask::testing
