#include <ATen/ATen.h>
#include <zlib.h>

#include <bit>

#include "data/episodes/shard.h"
#include "io/input_file.h"

namespace topomask::episodes {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian, as memory is");

constexpr int kDeflateLevel = 9;  // a twentieth of what the simulation of an episode takes

/// Element i of every frame minus that of the frame before, modulo 2⁸ or 2¹⁶: cameras are fixed, so most of it is 0.
template <class Element>
void to_differences(std::string& bytes, int64_t frames) {
  auto* const values = reinterpret_cast<Element*>(bytes.data());
  const auto count = static_cast<int64_t>(bytes.size() / sizeof(Element)), stride = frames > 0 ? count / frames : 0;
  for (int64_t i = count - 1; i >= stride && stride > 0; --i) {
    values[i] = static_cast<Element>(values[i] - values[i - stride]);
  }
}

template <class Element>
void from_differences(std::string& bytes, int64_t frames) {
  auto* const values = reinterpret_cast<Element*>(bytes.data());
  const auto count = static_cast<int64_t>(bytes.size() / sizeof(Element)), stride = frames > 0 ? count / frames : 0;
  for (int64_t i = stride; i < count && stride > 0; ++i) {
    values[i] = static_cast<Element>(values[i] + values[i - stride]);
  }
}

/// All first bytes of the elements, then all second ones, …: deflate finds more that repeats.
std::string to_planes(const std::string& bytes, size_t width) {
  std::string planes(bytes.size(), '\0');
  const size_t count = bytes.size() / width;
  for (size_t i = 0; i < count; ++i) {
    for (size_t b = 0; b < width; ++b) planes[b * count + i] = bytes[i * width + b];
  }
  return planes;
}

std::string from_planes(const std::string& planes, size_t width) {
  std::string bytes(planes.size(), '\0');
  const size_t count = planes.size() / width;
  for (size_t i = 0; i < count; ++i) {
    for (size_t b = 0; b < width; ++b) bytes[i * width + b] = planes[b * count + i];
  }
  return bytes;
}

std::string stored_form(const Field& field, const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  if (field.tensor != &Episode::depth) return {static_cast<const char*>(values.const_data_ptr()), values.nbytes()};
  std::string bytes(static_cast<size_t>(values.numel()) * sizeof(uint16_t), '\0');
  auto* const units = reinterpret_cast<uint16_t*>(bytes.data());
  const float* const metres = values.const_data_ptr<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    units[i] = static_cast<uint16_t>(std::lround(static_cast<double>(metres[i]) / kDepthUnit));
  }
  return bytes;
}

}  // namespace

uint32_t crc_of(std::string_view bytes) {
  if (bytes.empty()) return 0;
  return static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

const char* stored_type(const Field& field) {
  if (field.tensor == &Episode::depth) return "u2";
  return field.type == at::kByte ? "u1" : field.type == at::kFloat ? "f4" : "f8";
}

int64_t stored_bytes(const Field& field) {
  return stored_type(field)[1] - '0';
}

std::string pack(const Field& field, const at::Tensor& tensor) {
  std::string bytes = stored_form(field, tensor);
  const int64_t width = stored_bytes(field);
  if (field.moves) {
    width == 1 ? to_differences<uint8_t>(bytes, tensor.size(0)) : to_differences<uint16_t>(bytes, tensor.size(0));
  }
  if (width > 1) bytes = to_planes(bytes, static_cast<size_t>(width));
  uLongf size = ::compressBound(bytes.size());
  std::string packed(size, '\0');
  const int status = ::compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                                 reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), kDeflateLevel);
  TORCH_CHECK(status == Z_OK, "EpisodeWriter: ", field.name, " could not be compressed: zlib says ", status);
  packed.resize(size);
  return packed;
}

at::Tensor unpack(const io::Origin& origin, const Field& field, const Block& block, std::string_view packed) {
  const int64_t width = stored_bytes(field);
  const int64_t count = c10::multiply_integers(block.shape);  // parse_directory() has bounded it
  std::string bytes(static_cast<size_t>(count * width), '\0');
  uLongf size = bytes.size(), used = packed.size();
  const int status = ::uncompress2(reinterpret_cast<Bytef*>(bytes.data()), &size,
                                   reinterpret_cast<const Bytef*>(packed.data()), &used);
  if (status != Z_OK || size != bytes.size() || used != packed.size()) {
    io::fail(origin, "damaged: ", field.name, " does not unpack to ", bytes.size(), " bytes");
  }
  if (width > 1) bytes = from_planes(bytes, static_cast<size_t>(width));
  if (field.moves) {
    width == 1 ? from_differences<uint8_t>(bytes, block.shape[0]) : from_differences<uint16_t>(bytes, block.shape[0]);
  }
  at::Tensor tensor = at::empty(block.shape, field.type);
  if (field.tensor == &Episode::depth) {
    const auto* const units = reinterpret_cast<const uint16_t*>(bytes.data());
    float* const metres = tensor.mutable_data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) metres[i] = static_cast<float>(units[i] * kDepthUnit);
  } else if (!bytes.empty()) {
    std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  }
  return tensor;
}

}  // namespace topomask::episodes
