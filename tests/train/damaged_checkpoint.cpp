// Files that are not what was written: every one is refused by name, before anything in it is believed.

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <random>

#include "support/compare.h"
#include "train/run_testing.h"

namespace topomask::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStart = "{\"__metadata__\":{\"topomask\":\"checkpoint 2\",\"bytes\":\"";

std::string bytes_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The error of loading these bytes from a file; empty where they are taken.
std::string refusal(const fs::path& path, const std::string& bytes) {
  fs::remove(path);  // ext4 waits for the disk when a file is cut to nothing and written again
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    load_checkpoint(path);
    return "";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
}

bool names(const std::string& error, const fs::path& path, const std::string& what = "") {
  return error.starts_with("load_checkpoint: " + path.string() + ": " + what);
}

size_t header_end(const std::string& bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return sizeof(length) + static_cast<size_t>(length);
}

std::string small_checkpoint(const fs::path& path) {
  at::manual_seed(3);
  save_checkpoint({.step = 7,
                   .seconds = 1.5,
                   .config = "{}",
                   .model = {{"a", at::randn({3, 5})}, {"b", at::randn({0, 4})}},
                   .optimiser = {{"steps", at::tensor(7.0F)}}},
                  path);
  return bytes_in(path);
}

/// A file with this header and data, whose length and checksum are right: only the header itself can give it away.
std::string sealed(const std::string& metadata, const std::string& tensors, const std::string& data,
                   uint64_t header_bytes = 0) {
  std::string header = kStart + std::string(20, '0') + "\"" + metadata + "}" + tensors + "}";
  const std::string total = std::to_string(8 + header.size() + data.size() + 4);
  header.replace(std::strlen(kStart) + 20 - total.size(), total.size(), total);
  const uint64_t length = header_bytes > 0 ? header_bytes : header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file += header + data;
  const auto crc = static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(file.data()), file.size()));
  return file.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
}

const std::string kSteps = R"(,"step":"7","seconds":"1.5","config":"{}")";

std::string entry(const std::string& name, const std::string& type, const std::string& shape,
                  const std::string& offsets) {
  return ",\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

std::string checksum_entry(int64_t at) {
  return entry("checksum", "U8", "[4]", c10::str("[", at, ",", at + 4, "]"));
}

TEST(DamagedCheckpoint, IsRefusedWhereverItIsCut) {
  const ScratchFolder folder;
  const fs::path path = folder / "cut.safetensors";
  const std::string whole = small_checkpoint(path);
  ASSERT_EQ(refusal(path, whole), "");
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string error = refusal(path, whole.substr(0, length));
    ASSERT_TRUE(names(error, path, "truncated: ")) << length << ": " << error;
    ASSERT_NE(error.find(c10::str("file has ", length)), std::string::npos) << error;
  }
  const std::string said = c10::str("truncated: header says ", whole.size(), " bytes, file has ", whole.size() - 1);
  EXPECT_TRUE(names(refusal(path, whole.substr(0, whole.size() - 1)), path, said));
  EXPECT_TRUE(names(refusal(path, whole + "x"), path, "damaged: header says"));
  EXPECT_ERROR(load_checkpoint(folder / "none"), "none: cannot open the file: No such file");
  EXPECT_ERROR(load_checkpoint(folder.path), "expected a file, got a directory");
}

TEST(DamagedCheckpoint, IsRefusedWhicheverBitIsFlipped) {
  const ScratchFolder folder;
  const fs::path path = folder / "flipped.safetensors";
  std::string bytes = small_checkpoint(path);
  int mismatches = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto flip = [&] { bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8); };
    flip();
    const std::string error = refusal(path, bytes);
    ASSERT_TRUE(names(error, path)) << "bit " << bit << ": " << error;
    mismatches += names(error, path, "checksum mismatch: ");
    flip();
  }
  // The rest are in the name of the format and in the length, which are looked at before.
  const auto others = static_cast<int>(8 * (std::strlen(kStart) + 20));
  EXPECT_GE(mismatches, static_cast<int>(8 * bytes.size()) - others);
}

TEST(DamagedCheckpoint, OfARealRunIsRefusedToo) {
  const ScratchFolder folder;
  RunConfig config = small_run();
  config.train.steps = 2;
  config.train.log_every = 5;
  train(config, folder / "run", kQuiet);
  const fs::path path = folder.path / "run" / kCheckpointName;
  std::string bytes = bytes_in(path);
  const size_t header = header_end(bytes);
  std::mt19937 random(5);
  const auto anywhere = [&](size_t from) {
    return std::uniform_int_distribution<size_t>(from, bytes.size() - 1)(random);
  };
  std::vector<size_t> places;
  for (size_t place = 0; place < header; ++place) places.push_back(place);
  for (int i = 0; i < 500; ++i) places.push_back(anywhere(header));
  for (size_t place = bytes.size() - 8; place < bytes.size(); ++place) places.push_back(place);
  for (const size_t place : places) {
    const auto flip = [&, bit = 1 << place % 8] { bytes[place] = static_cast<char>(bytes[place] ^ bit); };
    flip();
    ASSERT_TRUE(names(refusal(path, bytes), path)) << place;
    flip();
  }
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(names(refusal(path, bytes.substr(0, anywhere(0))), path, "truncated: "));
  }
  for (const size_t cut : {size_t{14760}, size_t{30996}, size_t{40000}, size_t{60000}}) {
    ASSERT_LT(cut, bytes.size());
    EXPECT_TRUE(names(refusal(path, bytes.substr(0, cut)), path, "truncated: ")) << cut;
  }
  EXPECT_EQ(refusal(path, bytes), "");
}

TEST(DamagedCheckpoint, IsNotBelievedWhereLengthAndChecksumAreRight) {
  const ScratchFolder folder;
  const fs::path path = folder / "forged.safetensors";
  const std::string four(4, '\0');
  const auto expect = [&](const std::string& bytes, const std::string& what) {
    const std::string error = refusal(path, bytes);
    EXPECT_TRUE(names(error, path, "malformed: ") && error.find(what) != std::string::npos) << what << "\n" << error;
  };
  const auto with = [&](const std::string& tensor) { return sealed(kSteps, checksum_entry(4) + tensor, four); };
  ASSERT_EQ(refusal(path, with(entry("a", "F32", "[1]", "[0,4]"))), "");
  expect(with(entry("a", "F32", "[4611686018427387904,4]", "[0,4]")), "needs more bytes than the file has");
  expect(with(entry("a", "F32", "[0,4611686018427387904,4611686018427387904]", "[0,0]")), "needs more bytes");
  expect(with(entry("a", "F32", "[100000000000]", "[0,4]")), "needs more bytes than the file has");
  expect(with(entry("a", "F32", "[18446744073709551615]", "[0,4]")), "shape must hold integers >= 0");
  expect(with(entry("a", "F32", "[-1]", "[0,4]")), "shape must hold integers >= 0");
  expect(with(entry("a", "F32", "\"1\"", "[0,4]")), "shape must be an array");
  expect(with(entry("a", "F32", "[2]", "[0,4]")), "shape and data_offsets disagree");
  expect(with(entry("a", "F32", "[1]", "[4,0]")), "data_offsets must be two, rising, within 8 bytes");
  expect(with(entry("a", "F32", "[1]", "[4,8]")), "are not one tensor's");  // as the checksum: a hole, an overlap
  expect(with(entry("a", "F32", "[250000]", "[0,1000000]")), "data_offsets must be two");
  expect(with(entry("a", "F99", "[1]", "[0,4]")), "dtype is not known");
  expect(with(",\"a\":3"), "tensor a: shape must be an array");
  expect(with(""), "are not one tensor's");
  expect(with(entry("other/a", "F32", "[1]", "[0,4]")), "a checkpoint has no tensor other/a");
  expect(sealed(kSteps, entry("a", "F32", "[1]", "[0,4]"), four), "are no tensor's");
  expect(sealed(R"(,"step":7)", checksum_entry(0), ""), "__metadata__ step must be a string");
  expect(sealed(R"(,"seconds":"1","config":"{}")", checksum_entry(0), ""), "no step in its metadata");
  for (const char* step : {"-1", "seven", "", "1e3", "99999999999999999999"}) {
    expect(sealed(c10::str(R"(,"seconds":"1","config":"{}","step":")", step, "\""), checksum_entry(0), ""),
           "step must be a number >= 0");
  }
  expect(sealed(kSteps, checksum_entry(0) + std::string(100'000, '['), ""), "must be a JSON object");
  expect(sealed(kSteps, checksum_entry(0), "", 1 << 20), "the header must have at most");
  expect(sealed(kSteps, checksum_entry(0), "", ~uint64_t{0}), "the header must have at most");
}

}  // namespace
}  // namespace topomask::testing
