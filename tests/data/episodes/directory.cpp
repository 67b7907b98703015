// Directories whose checksum is right and whose content is not.

#include <gtest/gtest.h>
#include <zlib.h>

#include "data/episodes/made_episode.h"
#include "data/files.h"
#include "support/compare.h"

namespace topomask::testing {
namespace {

/// A shard of one episode in whose directory `from` is replaced by `to`, with sizes and checksum made right.
std::string with(const std::string& whole, const std::string& from, const std::string& to) {
  uint64_t length = 0;
  std::memcpy(&length, whole.data() + 16, sizeof(length));
  std::string directory = whole.substr(32, length);
  const size_t at = directory.find(from);
  TORCH_CHECK(at != std::string::npos, "the directory has no ", from);
  directory.replace(at, from.size(), to);
  const auto crc =
      static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const unsigned char*>(directory.data()), directory.size()));
  std::string result = whole.substr(0, 32) + directory + whole.substr(32 + length);
  const uint64_t new_length = directory.size(), bytes = result.size();
  std::memcpy(result.data() + 12, &crc, sizeof(crc));
  std::memcpy(result.data() + 16, &new_length, sizeof(new_length));
  std::memcpy(result.data() + 24, &bytes, sizeof(bytes));
  return result;
}

struct Case {
  const char *from, *to, *error;
};

TEST(EpisodeDirectory, IsRefusedByWhatIsWrongInIt) {
  const TemporaryFolder folder;
  EpisodeWriter writer(folder / "a.episodes");
  writer.add(made_episode(1, 2, 3));
  writer.commit();
  const std::string whole = read_file(folder / "a.episodes"), path = folder / "b.episodes";
  const std::vector<Case> cases{
      {"{\"dropped\"", "[\"dropped\"", "the directory is not JSON"},
      {"\"dropped\":{}", "\"dropped\":{\"still\":-1}", "an integer from 0 to"},
      {"\"dropped\":{}", "\"dropped\":[]", "the directory must have an object as \"dropped\""},
      {"\"depth_unit\":0.0001", "\"depth_unit\":0.001", "must have the \"depth_unit\" 0.0001"},
      {"\"seed\":1", "\"seed\":\"1\"", "episode 0 must have an integer"},
      {"\"kind\":\"push\"", "\"kind\":7", "episode 0 must have a string as \"kind\""},
      {"\"interval\":0.25", "\"interval\":0", "episode 0 must have a number > 0 as \"interval\""},
      {"\"interval\"", "\"pause\"", "episode 0 has no \"interval\""},
      {"\"rgb\"", "\"rbg\"", "array rgb is called \"rbg\""},
      {"\"u2\"", "\"u1\"", "array depth must have the type u2"},
      {"\"plain\"", "\"none\"", "array intrinsics is packed in an unknown way"},
      {"[2,2,3,4,3]", "[2,2,3,4]", "array rgb must have 5 dimensions"},
      {"[2,2,3,4,3]", "[2,2,3,2147483648,3]", "array rgb has 77309411328 bytes by its shape, which"},
      {"[2,2,3,4,3]", "[2147483648,2147483648,2147483648,4,3]", "array rgb overflows by its shape"},
      {"[2,2,3,4,3]", "[2,2,3,4,2]", "must have rgb of shape [2, 2, 3, 4, 3], got [2, 2, 3, 4, 2]"},
      {"[2,2,3,4,3]", "[0,2147483648,2147483648,2147483648,3]", "must have images that are not empty"},
      {"[2,8]", "[2,9]", "must have actions of shape [2, 9], got [2, 8]"},
      {"[\"box 0\",\"box 1\"]", "[\"box 0\"]", "must have bodies of shape [2, 1, 7], got [2, 2, 7]"},
      {"\"bytes\":", "\"bytes\":99", "the directory has arrays past the end of the file"},
      {"\"episodes\":[", "\"episodes\":[],\"more\":[", "describes 0 bytes of arrays, the file has"},
  };
  for (const Case& c : cases) {
    std::filesystem::remove(path);
    write_file(path, with(whole, c.from, c.to));
    EXPECT_ERROR(EpisodeSet set(path), c.error);
  }
}

}  // namespace
}  // namespace topomask::testing
