#include <zlib.h>

#include "fuzz/graph_file.h"

// Arrays in an archive that is whole, so that mutations reach what the archive's checksums hide in the target npz. The
// input is a sequence of members: a byte that chooses the name, two bytes of length, and the array.

namespace {

template <class... Fields>
std::string packed(Fields... fields) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&fields), sizeof(fields)), ...);
  return bytes;
}

class Archive {
 public:
  void add(const std::string& name, std::string_view content) {
    const auto size = static_cast<uint32_t>(content.size()), offset = static_cast<uint32_t>(members_.size());
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const unsigned char*>(content.data()), static_cast<uInt>(content.size())));
    const auto length = static_cast<uint16_t>(name.size());
    constexpr uint16_t kZero = 0, kVersion = 20;
    const std::string common = packed(kVersion, kZero, kZero, kZero, kZero, crc, size, size, length, kZero);
    members_ += packed(uint32_t{0x04034b50}) + common + name;
    members_ += content;
    directory_ +=
        packed(uint32_t{0x02014b50}, kVersion) + common + packed(kZero, kZero, kZero, uint32_t{0}, offset) + name;
    ++count_;
  }

  std::string bytes() const {
    constexpr uint16_t kZero = 0;
    return members_ + directory_ +
           packed(uint32_t{0x06054b50}, kZero, kZero, count_, count_, static_cast<uint32_t>(directory_.size()),
                  static_cast<uint32_t>(members_.size()), kZero);
  }

 private:
  std::string members_, directory_;
  uint16_t count_ = 0;
};

}  // namespace

FUZZ_TARGET(npy) {
  // Edge lists, and matrices as SciPy writes them.
  constexpr const char* kNames[] = {"src.npy",    "dst.npy",   "weight.npy", "num_nodes.npy",
                                    "format.npy", "shape.npy", "indptr.npy", "indices.npy",
                                    "data.npy",   "row.npy",   "col.npy"};
  Archive archive;
  std::string_view rest = topomask::fuzz::text_of(data, size);
  for (int member = 0; member < 6 && rest.size() >= 3; ++member) {
    const auto at = [&](size_t i) { return static_cast<unsigned char>(rest[i]); };
    const char* name = kNames[at(0) % std::size(kNames)];
    const size_t length = std::min<size_t>(at(1) | at(2) << 8, rest.size() - 3);
    archive.add(name, rest.substr(3, length));
    rest.remove_prefix(3 + length);
  }
  const std::string bytes = archive.bytes();
  topomask::fuzz::read_graph_file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), topomask::read_npz);
}
