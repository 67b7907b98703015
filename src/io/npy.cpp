#include "io/npy.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace topomask::io {
namespace {

constexpr int64_t kLongestHeader = int64_t{1} << 16;

// The text after 'key': in the Python dictionary of the header.
std::string_view value_of(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  const size_t first = text.find_first_not_of(" :");
  return first == std::string_view::npos ? std::string_view{} : text.substr(first);
}

}  // namespace

std::string NpyHeader::describe() const {
  std::string text = c10::str(kind, item_bytes, "[");
  for (size_t i = 0; i < shape.size(); ++i) text += c10::str(i ? ", " : "", shape[i]);
  return text + "]";
}

NpyReader::NpyReader(InputFile& file, const ZipMember& member, std::string name)
    : file_(file), name_(std::move(name)), member_(file, member) {
  read_header();
  int64_t bytes = header_.item_bytes;
  for (const int64_t extent : header_.shape) {
    if (__builtin_mul_overflow(size_, extent, &size_) || __builtin_mul_overflow(bytes, extent, &bytes)) {
      refuse("the shape ", header_.describe(), " overflows");
    }
  }
  if (bytes != member_.remaining()) {
    refuse(header_.describe(), " needs ", bytes, " bytes, the member holds ", member_.remaining());
  }
}

void NpyReader::read_header() {
  char start[12] = {};
  if (member_.remaining() < 10) refuse("not a .npy array");
  member_.read(start, 10);
  if (std::memcmp(start, "\x93NUMPY", 6) != 0) refuse("not a .npy array");
  const int version = static_cast<unsigned char>(start[6]);
  if (version < 1 || version > 3) refuse(".npy version ", version, "; versions 1 to 3 are read");
  uint32_t length = 0;
  if (version == 1) {
    std::memcpy(&length, start + 8, 2);
  } else {
    if (member_.remaining() < 2) refuse("not a .npy array");
    member_.read(start + 10, 2);
    std::memcpy(&length, start + 8, 4);
  }
  if (length > std::min(kLongestHeader, member_.remaining())) refuse("the .npy header is too long: ", length, " bytes");
  std::string text(length, ' ');
  member_.read(text.data(), text.size());
  parse_header(text);
}

void NpyReader::parse_header(const std::string& text) {
  const std::string_view type = value_of(text, "'descr'");
  if (type.size() < 5 || type[0] != '\'' || type[4] != '\'') refuse("the .npy header has no simple 'descr'");
  const char order = type[1];
  header_.kind = type[2];
  header_.item_bytes = type[3] - '0';
  const bool known = (header_.integer() && (type[3] == '1' || type[3] == '2' || type[3] == '4' || type[3] == '8')) ||
                     (header_.floating() && (type[3] == '2' || type[3] == '4' || type[3] == '8')) ||
                     (header_.boolean() && type[3] == '1') || (header_.kind == 'S' && type[3] >= '1' && type[3] <= '9');
  if (!known || (order != '<' && order != '|' && order != '=')) {
    refuse("dtype must be bool, a little-endian integer, float16, float32 or float64, got ", type.substr(0, 5));
  }
  header_.fortran_order = value_of(text, "'fortran_order'").starts_with("True");
  std::string_view shape = value_of(text, "'shape'");
  if (shape.empty() || shape[0] != '(') refuse("the .npy header has no 'shape'");
  shape.remove_prefix(1);
  while (!shape.empty() && shape[0] != ')') {
    int64_t extent = 0;
    size_t digits = 0;
    for (; digits < shape.size() && shape[digits] >= '0' && shape[digits] <= '9'; ++digits) {
      if (digits >= 18) refuse("the shape is out of range");
      extent = extent * 10 + (shape[digits] - '0');
    }
    if (digits == 0) refuse("the .npy header has no valid 'shape'");
    header_.shape.push_back(extent);
    shape.remove_prefix(digits);
    shape.remove_prefix(std::min(shape.find_first_not_of(", "), shape.size()));
  }
  if (shape.empty()) refuse("the .npy header has no valid 'shape'");
}

std::string NpyReader::text() {
  if (header_.kind != 'S' || !header_.shape.empty()) refuse("must be a text, got ", header_.describe());
  std::string value(static_cast<size_t>(header_.item_bytes), ' ');
  member_.read(value.data(), value.size());
  return value;
}

std::string npy_header(const std::string& type, const std::string& shape) {
  std::string text = c10::str("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }");
  constexpr size_t kStart = 10, kAlignment = 64;
  text.append(kAlignment - (kStart + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string header("\x93NUMPY\x01\x00", 8);
  header.append(reinterpret_cast<const char*>(&length), 2);
  return header + text;
}

}  // namespace topomask::io
