#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "data/episodes/shard.h"
#include "io/input_file.h"
#include "io/quoted.h"

namespace topomask::episodes {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLargestExtent = int64_t{1} << 31;

/// Reads what a JSON object holds, and names what is missing or of another type.
class ObjectReader {
 public:
  ObjectReader(const io::Origin& origin, const Json& json, std::string what)
      : origin_(origin), json_(json), what_(std::move(what)) {
    if (!json.is_object()) refuse("must be an object");
  }

  template <typename... Args>
  [[noreturn]] void refuse(const Args&... args) const {
    io::fail(origin_, "malformed: ", what_, " ", args...);
  }

  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) refuse("has no \"", key, "\"");
    return *found;
  }
  std::string text(const char* key) const { return as_text(at(key), key); }
  std::string as_text(const Json& value, const char* key) const {
    if (!value.is_string()) refuse("must have a string as \"", key, "\"");
    return value.get<std::string>();
  }
  uint64_t number(const char* key) const { return as_number(at(key), key, ~uint64_t{0}); }
  uint64_t as_number(const Json& value, const char* key, uint64_t most) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > most) {
      refuse("must have an integer from 0 to ", most, " as \"", key, "\"");
    }
    return value.get<uint64_t>();
  }
  const Json& list(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) refuse("must have an array as \"", key, "\"");
    return value;
  }

 private:
  const io::Origin& origin_;
  const Json& json_;
  std::string what_;
};

/// The number of elements must be possible for what the packed bytes can unpack to.
void check_size(const ObjectReader& reader, const Field& field, const Block& block) {
  int64_t bytes = stored_bytes(field);
  for (const int64_t extent : block.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) reader.refuse("overflows by its shape");
  }
  if (bytes / io::kLargestDeflateRatio > block.packed) {
    reader.refuse("has ", bytes, " bytes by its shape, which ", block.packed, " packed bytes cannot hold");
  }
}

Block read_block(const io::Origin& origin, const Field& field, const Json& json, const std::string& episode) {
  const ObjectReader reader(origin, json, episode + ", array " + field.name);
  if (reader.text("name") != field.name) reader.refuse("is called ", io::quoted(reader.text("name")));
  if (reader.text("type") != stored_type(field)) reader.refuse("must have the type ", stored_type(field));
  if (reader.text("packing") != (field.moves ? "frames" : "plain")) reader.refuse("is packed in an unknown way");
  Block block;
  for (const Json& extent : reader.list("shape")) {
    block.shape.push_back(static_cast<int64_t>(reader.as_number(extent, "shape", kLargestExtent)));
  }
  if (std::ssize(block.shape) != field.dimensions) reader.refuse("must have ", field.dimensions, " dimensions");
  block.packed = static_cast<int64_t>(reader.as_number(reader.at("bytes"), "bytes", uint64_t{1} << 62));
  block.crc = static_cast<uint32_t>(reader.as_number(reader.at("crc"), "crc", ~uint32_t{0}));
  check_size(reader, field, block);
  return block;
}

/// Shapes of one episode must be of the same frames, cameras, image, joints and objects.
void check_shapes(const ObjectReader& reader, const Entry& entry) {
  const auto& image = entry.blocks[0].shape;
  const int64_t t = image[0], c = image[1], h = image[2], w = image[3], b = std::ssize(entry.names);
  if (t == 0 || c == 0 || h == 0 || w == 0) reader.refuse("must have images that are not empty");
  const int64_t j = entry.blocks[5].shape[1], p = entry.blocks[7].shape[1];
  const std::array<std::vector<int64_t>, kFields.size()> wanted{
      {{t, c, h, w, 3}, {t, c, h, w}, {t, c, h, w}, {c, 3, 3}, {c, 4, 4}, {t, j}, {t, j}, {t, p, 3}, {t, b, 7}}};
  for (size_t i = 0; i < kFields.size(); ++i) {
    if (entry.blocks[i].shape != wanted[i]) {
      reader.refuse("must have ", kFields[i].name, " of shape ", at::IntArrayRef(wanted[i]), ", got ",
                    at::IntArrayRef(entry.blocks[i].shape));
    }
  }
}

Entry read_entry(const io::Origin& origin, const Json& json, size_t index) {
  const std::string what = "episode " + std::to_string(index);
  const ObjectReader reader(origin, json, what);
  Entry entry{.kind = reader.text("kind"), .seed = reader.number("seed")};
  const Json& interval = reader.at("interval");
  if (!interval.is_number() || !(interval.get<double>() > 0)) reader.refuse("must have a number > 0 as \"interval\"");
  entry.interval = interval.get<double>();
  for (const Json& name : reader.list("names")) entry.names.push_back(reader.as_text(name, "names"));
  const Json& arrays = reader.list("arrays");
  if (arrays.size() != kFields.size()) reader.refuse("must have ", kFields.size(), " arrays, got ", arrays.size());
  for (size_t i = 0; i < kFields.size(); ++i) entry.blocks[i] = read_block(origin, kFields[i], arrays[i], what);
  check_shapes(reader, entry);
  return entry;
}

}  // namespace

std::string directory_text(const Directory& directory) {
  Json json{{"dropped", Json::object()}, {"depth_unit", kDepthUnit}, {"episodes", Json::array()}};
  for (const auto& [reason, count] : directory.dropped) json["dropped"][reason] = count;
  for (const Entry& entry : directory.entries) {
    Json arrays = Json::array();
    for (size_t i = 0; i < kFields.size(); ++i) {
      const Block& block = entry.blocks[i];
      arrays.push_back({{"name", kFields[i].name},
                        {"type", stored_type(kFields[i])},
                        {"packing", kFields[i].moves ? "frames" : "plain"},
                        {"shape", block.shape},
                        {"bytes", block.packed},
                        {"crc", block.crc}});
    }
    json["episodes"].push_back({{"kind", entry.kind},
                                {"seed", entry.seed},
                                {"interval", entry.interval},
                                {"names", entry.names},
                                {"arrays", std::move(arrays)}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Directory parse_directory(const io::Origin& origin, std::string_view text, int64_t data_bytes) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) io::fail(origin, "malformed: the directory is not JSON");
  const ObjectReader reader(origin, json, "the directory");
  const Json& unit = reader.at("depth_unit");
  if (!unit.is_number() || unit.get<double>() != kDepthUnit) reader.refuse("must have the \"depth_unit\" ", kDepthUnit);
  Directory directory;
  const Json& dropped = reader.at("dropped");
  if (!dropped.is_object()) reader.refuse("must have an object as \"dropped\"");
  for (const auto& [reason, count] : dropped.items()) {
    directory.dropped[reason] = static_cast<int64_t>(reader.as_number(count, "dropped", uint64_t{1} << 40));
  }
  int64_t end = 0;
  for (const Json& episode : reader.list("episodes")) {
    Entry entry = read_entry(origin, episode, directory.entries.size());
    entry.begin = end;
    for (const Block& block : entry.blocks) {
      if (block.packed > data_bytes - end) reader.refuse("has arrays past the end of the file");
      end += block.packed;
    }
    directory.entries.push_back(std::move(entry));
  }
  if (end != data_bytes) reader.refuse("describes ", end, " bytes of arrays, the file has ", data_bytes);
  return directory;
}

}  // namespace topomask::episodes
