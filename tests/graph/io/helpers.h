#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "topomask/graph_io.h"

namespace topomask::testing {

/// A folder of its own for each test, gone afterwards.
class GraphFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "topomask_graph_io_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::string put(const std::string& name, const std::string& bytes) const {
    // A new file each time: ext4 waits for the disk when one is cut to nothing and written again.
    std::filesystem::remove(at(name));
    std::ofstream(at(name), std::ios::binary) << bytes;
    return at(name);
  }
  static std::string get(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  size_t files() const {
    const std::filesystem::directory_iterator entries(folder_);
    return static_cast<size_t>(std::distance(begin(entries), end(entries)));
  }

  std::filesystem::path folder_;
};

/// The text of the c10::Error that `action` throws, or "no error".
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

inline void expect_same(const Graph& actual, const Graph& expected) {
  EXPECT_EQ(actual.num_nodes(), expected.num_nodes());
  EXPECT_EQ(actual.directed(), expected.directed());
  EXPECT_TRUE(at::equal(actual.offsets(), expected.offsets()));
  EXPECT_TRUE(at::equal(actual.columns(), expected.columns()));
  EXPECT_EQ(actual.weights().scalar_type(), expected.weights().scalar_type());
  EXPECT_TRUE(at::equal(actual.weights(), expected.weights()));
}

inline std::string deflated(const std::string& bytes, int window) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}
inline std::string gzipped(const std::string& bytes) {
  return deflated(bytes, 15 + 16);
}

template <typename... T>
std::string packed(T... values) {
  std::string out;
  (out.append(reinterpret_cast<const char*>(&values), sizeof(T)), ...);
  return out;
}

/// One member of a hand-made archive. `method` and `flags` may lie, to see what the reader says.
struct Member {
  std::string name;
  std::string bytes;
  bool deflate = false;
  bool descriptor = false;  ///< sizes and checksum after the data, as streaming writers leave them
  int method = -1;
  int flags = 0;
  int64_t claimed_bytes = -1;
  bool wrong_checksum = false;
};

inline std::string zip_of(const std::vector<Member>& members) {
  std::string out, directory;
  for (const Member& m : members) {
    const std::string data = m.deflate ? deflated(m.bytes, -15) : m.bytes;
    auto crc = static_cast<uint32_t>(crc32(0, reinterpret_cast<const unsigned char*>(m.bytes.data()), m.bytes.size()));
    if (m.wrong_checksum) crc ^= 1;
    const auto method = static_cast<uint16_t>(m.method >= 0 ? m.method : (m.deflate ? 8 : 0));
    const auto flags = static_cast<uint16_t>(m.flags | (m.descriptor ? 8 : 0));
    const auto small = static_cast<uint32_t>(data.size());
    const auto large = static_cast<uint32_t>(m.claimed_bytes >= 0 ? m.claimed_bytes : m.bytes.size());
    const auto name = static_cast<uint16_t>(m.name.size()), zero = uint16_t{0};
    const auto offset = static_cast<uint32_t>(out.size());
    const uint32_t hidden = m.descriptor ? 0 : ~0u;
    out += packed(uint32_t{0x04034b50}, uint16_t{20}, flags, method, zero, zero, crc & hidden, small & hidden,
                  large & hidden, name, zero) +
           m.name + data;
    if (m.descriptor) out += packed(uint32_t{0x08074b50}, crc, small, large);
    directory += packed(uint32_t{0x02014b50}, uint16_t{20}, uint16_t{20}, flags, method, zero, zero, crc, small, large,
                        name, zero, zero, zero, zero, uint32_t{0}, offset) +
                 m.name;
  }
  const auto count = static_cast<uint16_t>(members.size()), zero = uint16_t{0};
  return out + directory +
         packed(uint32_t{0x06054b50}, zero, zero, count, count, static_cast<uint32_t>(directory.size()),
                static_cast<uint32_t>(out.size()), zero);
}

inline std::string npy_text(const std::string& header, const std::string& body, int version = 1) {
  const std::string start = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  const std::string length = version == 1 ? packed(static_cast<uint16_t>(header.size() + 1))
                                          : packed(static_cast<uint32_t>(header.size() + 1));
  return c10::str(start, length, header, "\n", body);
}

template <typename T>
std::string npy(const std::string& type, const std::vector<T>& values, const std::string& shape = "", int version = 1) {
  const std::string extent = shape.empty() ? c10::str("(", values.size(), ",)") : shape;
  return npy_text(c10::str("{'descr': '", type, "', 'fortran_order': False, 'shape': ", extent, ", }"),
                  std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)), version);
}

}  // namespace topomask::testing
