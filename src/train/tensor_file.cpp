#include "train/tensor_file.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "io/checksum.h"
#include "io/input_file.h"
#include "io/output_file.h"

namespace topomask {
namespace {

using HeaderJson = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian, as memory is");

constexpr const char* kMetadata = "__metadata__";
constexpr const char* kChecksum = "checksum";
constexpr int64_t kLengthBytes = 8, kDigits = 20, kChecksumBytes = 4;
constexpr int64_t kLongestHeader = 100'000'000;  // as other readers of safetensors have it

struct NamedType {
  const char* name;
  at::ScalarType type;
};
constexpr std::array<NamedType, 9> kTypes{{{"F64", at::kDouble},
                                           {"F32", at::kFloat},
                                           {"F16", at::kHalf},
                                           {"BF16", at::kBFloat16},
                                           {"I64", at::kLong},
                                           {"I32", at::kInt},
                                           {"I16", at::kShort},
                                           {"I8", at::kChar},
                                           {"U8", at::kByte}}};

/// The start of every header of this kind, up to the digits of the length.
std::string frame_of(const std::string& kind) {
  return std::string("{\"") + kMetadata + "\":{\"topomask\":\"" + kind + "\",\"bytes\":\"";
}

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

/// Large elements first, so that every tensor is aligned; then by name.
std::vector<std::pair<std::string, at::Tensor>> in_file_order(const NamedTensors& tensors) {
  std::vector<std::pair<std::string, at::Tensor>> order(tensors.begin(), tensors.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.element_size() > b.second.element_size(); });
  return order;
}

HeaderJson entry(const char* type, at::IntArrayRef shape, int64_t begin, int64_t bytes) {
  return {{"dtype", type}, {"shape", shape.vec()}, {"data_offsets", {begin, begin + bytes}}};
}

std::string make_header(const io::Origin& origin, const std::string& kind, const TensorFile& content) {
  HeaderJson header;
  header[kMetadata] = {{"topomask", kind}, {"bytes", std::string(kDigits, '0')}, {"format", "pt"}};
  for (const auto& [name, text] : content.metadata) header[kMetadata][name] = text;
  int64_t end = 0;
  for (const auto& [name, tensor] : in_file_order(content.tensors)) {
    const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                    [&, wanted = tensor.scalar_type()](const auto& t) { return t.type == wanted; });
    if (found == kTypes.end()) io::fail(origin, "cannot hold ", name, " of type ", tensor.scalar_type());
    if (name == kChecksum || name == kMetadata) io::fail(origin, "cannot hold a tensor named ", name);
    header[name] = entry(found->name, tensor.sizes(), end, static_cast<int64_t>(tensor.nbytes()));
    end += static_cast<int64_t>(tensor.nbytes());
  }
  header[kChecksum] = entry("U8", {kChecksumBytes}, end, kChecksumBytes);
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::string digits = std::to_string(kLengthBytes + std::ssize(text) + end + kChecksumBytes);
  text.replace(frame_of(kind).size() + static_cast<size_t>(kDigits) - digits.size(), digits.size(), digits);
  return text;
}

/// Length and checksum, before anything is parsed. Returns the length of the header.
int64_t check_frame(io::InputFile& file, const std::string& kind) {
  const io::Origin& origin = file.origin();
  if (!file.size()) io::fail(origin, "expected a regular file");
  const int64_t size = *file.size();
  const std::string frame = frame_of(kind);
  std::string start(static_cast<size_t>(kLengthBytes + std::ssize(frame) + kDigits), '\0');
  const int64_t present = std::min<int64_t>(size, std::ssize(start));
  file.read_at(0, start.data(), static_cast<size_t>(present));
  if (present >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) {
    io::fail(origin, "a pickle, as earlier versions wrote checkpoints (checkpoint.pt); they are no longer read");
  }
  if (present < std::ssize(start)) {
    io::fail(origin, "truncated: a ", kind, " starts with ", start.size(), " bytes, file has ", size);
  }
  if (start.compare(kLengthBytes, frame.size(), frame) != 0) {
    io::fail(origin, "not a topomask ", kind, ": its header starts in another way");
  }
  int64_t promised = 0;
  const char* const last = start.data() + start.size();
  const auto read = std::from_chars(last - kDigits, last, promised);
  if (read.ec != std::errc() || read.ptr != last) io::fail(origin, "damaged: its length is not a number");
  if (promised != size) {
    io::fail(origin, size < promised ? "truncated" : "damaged", ": header says ", promised, " bytes, file has ", size);
  }
  uint32_t crc = 0, stored = 0;
  std::vector<char> chunk(io::kReadBuffer);
  for (int64_t at = 0; at < size - kChecksumBytes;) {
    const auto part = static_cast<size_t>(std::min<int64_t>(std::ssize(chunk), size - kChecksumBytes - at));
    file.read_at(at, chunk.data(), part);
    crc = io::extend_crc(crc, {chunk.data(), part});
    at += static_cast<int64_t>(part);
  }
  file.read_at(size - kChecksumBytes, reinterpret_cast<char*>(&stored), sizeof(stored));
  if (crc != stored) io::fail(origin, "checksum mismatch: file says ", stored, ", its content gives ", crc);
  uint64_t header = 0;
  std::memcpy(&header, start.data(), sizeof(header));
  const int64_t room = std::min(kLongestHeader, size - kLengthBytes - kChecksumBytes);
  if (header > static_cast<uint64_t>(room)) {
    io::fail(origin, "malformed: the header must have at most ", room, " bytes, got ", header);
  }
  return static_cast<int64_t>(header);
}

/// Where a tensor lies and what it is; anything but what the format allows is refused.
struct Place {
  std::string name;
  at::ScalarType type;
  std::vector<int64_t> shape;
  int64_t begin, end;
};

Place place_of(const io::Origin& origin, const std::string& name, const HeaderJson& json, int64_t data_bytes) {
  const auto refuse = [&](const auto&... why) { io::fail(origin, "malformed: tensor ", name, ": ", why...); };
  const auto list = [&](const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (!json.is_object() || found == json.end() || !found->is_array()) refuse(key, " must be an array");
    std::vector<int64_t> numbers;
    for (const auto& number : *found) {
      if (!number.is_number_unsigned() || number.template get<uint64_t>() > uint64_t{1} << 62) {
        refuse(key, " must hold integers >= 0");
      }
      numbers.push_back(number.template get<int64_t>());
    }
    return numbers;
  };
  const std::vector<int64_t> shape = list("shape"), offsets = list("data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    refuse("data_offsets must be two, rising, within ", data_bytes, " bytes");
  }
  const auto type = json.find("dtype");
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) { return type != json.end() && *type == t.name; });
  if (found == kTypes.end()) refuse("dtype is not known");
  // Factor by factor, so that nothing overflows. A shape with a 0 has no bytes, whatever else stands in it.
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  const int64_t most = empty ? int64_t{1} << 62 : data_bytes;
  auto bytes = static_cast<int64_t>(c10::elementSize(found->type));
  for (const int64_t length : shape) {
    if (length > most / bytes) refuse("its shape needs more bytes than the file has");
    bytes *= std::max<int64_t>(length, 1);
  }
  if ((empty ? 0 : bytes) != offsets[1] - offsets[0]) refuse("shape and data_offsets disagree");
  return {name, found->type, shape, offsets[0], offsets[1]};
}

}  // namespace

void write_tensor_file(const io::Origin& origin, const std::string& kind, const TensorFile& content) {
  const std::string header = make_header(origin, kind, content);
  const auto length = static_cast<uint64_t>(header.size());
  io::OutputFile file(origin);
  uint32_t crc = 0;
  const auto put = [&](std::string_view bytes) {
    crc = io::extend_crc(crc, bytes);
    file.put(bytes);
  };
  put({reinterpret_cast<const char*>(&length), sizeof(length)});
  put(header);
  for (const auto& [name, tensor] : in_file_order(content.tensors)) put(bytes_of(tensor));
  const uint32_t checksum = crc;
  file.put({reinterpret_cast<const char*>(&checksum), sizeof(checksum)});
  file.commit();
}

TensorFile read_tensor_file(const io::Origin& origin, const std::string& kind) {
  io::InputFile file(origin);
  const int64_t header_bytes = check_frame(file, kind);
  std::string text(static_cast<size_t>(header_bytes), '\0');
  file.read_at(kLengthBytes, text.data(), text.size());
  const HeaderJson header = HeaderJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object() || !header.contains(kMetadata) || !header[kMetadata].is_object()) {
    io::fail(origin, "malformed: the header must be a JSON object with ", kMetadata);
  }
  TensorFile content;
  for (const auto& [name, value] : header[kMetadata].items()) {
    if (!value.is_string()) io::fail(origin, "malformed: ", kMetadata, " ", name, " must be a string");
    content.metadata[name] = value.get<std::string>();
  }
  const int64_t data = kLengthBytes + header_bytes, data_bytes = *file.size() - data;
  std::vector<Place> places;
  for (const auto& [name, value] : header.items()) {
    if (name != kMetadata) places.push_back(place_of(origin, name, value, data_bytes));
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  int64_t end = 0;
  for (const Place& place : places) {
    if (place.begin != end) io::fail(origin, "malformed: bytes ", end, " to ", place.begin, " are not one tensor's");
    end = place.end;
  }
  if (end != data_bytes) io::fail(origin, "malformed: bytes ", end, " to ", data_bytes, " are no tensor's");
  for (const Place& place : places) {
    if (place.name == kChecksum) continue;
    const at::Tensor tensor = at::empty(place.shape, at::device(at::kCPU).dtype(place.type));
    file.read_at(data + place.begin, static_cast<char*>(tensor.mutable_data_ptr()), tensor.nbytes());
    content.tensors[place.name] = tensor;
  }
  return content;
}

}  // namespace topomask
