#pragma once

#include <c10/util/Half.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/internal_api.h"
#include "io/zip_archive.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace io {

/// The header of a .npy member: type such as 'i4' or 'f8' (little-endian), shape, and order of the values.
struct NpyHeader {
  char kind = 0;  ///< i, u, f, b (bool) or S (bytes of a text)
  int64_t item_bytes = 0;
  std::vector<int64_t> shape;
  bool fortran_order = false;  ///< the first index varies fastest

  bool integer() const { return kind == 'i' || kind == 'u'; }
  bool floating() const { return kind == 'f'; }
  bool boolean() const { return kind == 'b'; }
  std::string describe() const;  ///< "i4[5278]"
};

/// An array of an npz archive, read in order. Its shape is checked against the size of the member before anything is
/// allocated.
class NpyReader {
 public:
  NpyReader(InputFile& file, const ZipMember& member, std::string name);

  const NpyHeader& header() const { return header_; }
  int64_t size() const { return size_; }
  /// visit(index, value) with value int64_t (arrays of integers or bool), or float or double (arrays of floats, float16
  /// as float), through a fixed chunk.
  template <typename Visit>
  void for_each_integer(Visit&& visit);
  template <typename Visit>
  void for_each_float(Visit&& visit);

  std::string text();  ///< of an array without dimensions that holds a text

  template <typename... Args>
  [[noreturn]] void refuse(const Args&... args) const {
    fail(file_.origin(), "array \"", name_, "\": ", args...);
  }

 private:
  void read_header();
  void parse_header(const std::string& text);
  template <typename Item, typename Visit>
  void for_each_item(Visit&& visit);

  InputFile& file_;
  std::string name_;
  ZipMemberReader member_;
  NpyHeader header_;
  int64_t size_ = 1;
};

/// A version 1 header for a little-endian array, e.g. npy_header("<i4", "(5278,)").
std::string npy_header(const std::string& type, const std::string& shape);

template <typename Item, typename Visit>
void NpyReader::for_each_item(Visit&& visit) {
  constexpr int64_t kItems = kReadBuffer / 32;
  std::vector<Item> chunk(static_cast<size_t>(std::min(kItems, size_)));
  for (int64_t first = 0; first < size_; first += kItems) {
    const int64_t count = std::min(kItems, size_ - first);
    member_.read(reinterpret_cast<char*>(chunk.data()), static_cast<size_t>(count) * sizeof(Item));
    for (int64_t i = 0; i < count; ++i) visit(first + i, chunk[static_cast<size_t>(i)]);
  }
}

template <typename Visit>
void NpyReader::for_each_integer(Visit&& visit) {
  const auto as_int64 = [&](int64_t index, auto value) {
    // A uint64 beyond int64 wraps to a negative number, which no id or count is.
    visit(index, static_cast<int64_t>(value));
  };
  const bool is_signed = header_.kind == 'i';
  switch (header_.item_bytes) {
    case 1:
      return is_signed ? for_each_item<int8_t>(as_int64) : for_each_item<uint8_t>(as_int64);
    case 2:
      return is_signed ? for_each_item<int16_t>(as_int64) : for_each_item<uint16_t>(as_int64);
    case 4:
      return is_signed ? for_each_item<int32_t>(as_int64) : for_each_item<uint32_t>(as_int64);
    default:
      return is_signed ? for_each_item<int64_t>(as_int64) : for_each_item<uint64_t>(as_int64);
  }
}

template <typename Visit>
void NpyReader::for_each_float(Visit&& visit) {
  if (header_.item_bytes == 2) {
    return for_each_item<c10::Half>([&](int64_t index, c10::Half value) { visit(index, static_cast<float>(value)); });
  }
  if (header_.item_bytes == 4) return for_each_item<float>(visit);
  for_each_item<double>(visit);
}

}  // namespace io
}  // namespace topomask
