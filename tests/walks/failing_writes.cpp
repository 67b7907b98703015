#include <gtest/gtest.h>
#include <unistd.h>

#include "support/surviving_file.h"
#include "topomask/walks.h"

namespace topomask::testing {
namespace {

TEST(WalkFileWrites, ThatFailLeaveTheOldTable) {
  std::string folder = (std::filesystem::temp_directory_path() / "topomask_walks_XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/table";
  save_walks(sample_walks(Graph::path(5)), path);
  const WalkTable table = sample_walks(Graph::path(4'000), {.walkers = 4, .group_products = true});
  expect_old_file_survives(path, [&] { save_walks(table, path); });
  EXPECT_EQ(load_walks(path).num_nodes(), 4'000);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace topomask::testing
