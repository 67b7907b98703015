// A full disk, a short write, a failed fsync, close or rename, at every call that writes shards.

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "support/surviving_file.h"
#include "topomask/dist.h"
#include "topomask/graph_io.h"

namespace topomask::testing {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

class FailingShards : public ::testing::Test {
 protected:
  FailingShards() { fs::create_directories(folder()); }
  ~FailingShards() override { fs::remove_all(root_); }

  std::string folder() const { return root_ / "shards"; }
  Files files() const {
    Files result;
    for (const auto& entry : fs::directory_iterator(folder())) {
      result[entry.path().filename().string()] = content_of(entry.path());
    }
    return result;
  }
  void put(const Files& files) const {
    fs::remove_all(folder());
    fs::create_directories(folder());
    for (const auto& [name, content] : files) std::ofstream(folder() + "/" + name, std::ios::binary) << content;
  }

  /// `write` replaces all files of the folder. Each of its calls fails in turn: it reports that with a path below the
  /// folder and the reason, each file is the old or the new one, whole, the index is new where all shards are, and no
  /// temporary file is left.
  template <class Write>
  void expect_whole_files(const Write& write) const {
    const Files old = files();
    write();
    const Files fresh = files();
    for (const auto& [name, content] : fresh) ASSERT_NE(content, old.at(name)) << name;
    for (const auto mode : {FailingCalls::Mode::fail, FailingCalls::Mode::shorten}) {
      for (int64_t call = 1;; ++call) {
        put(old);
        std::string error, failed, reason;
        int64_t seen = 0;
        {
          const FailingCalls failing(folder(), call, mode);
          try {
            write();
          } catch (const std::exception& thrown) {
            error = thrown.what();
          }
          failed = FailingCalls::failed();
          reason = FailingCalls::reason();
          seen = FailingCalls::calls();
        }
        if (seen < call) break;
        SCOPED_TRACE("call " + std::to_string(call) + ", " + failed);
        EXPECT_EQ(error.empty(), failed.empty()) << error;
        if (!failed.empty()) {
          EXPECT_NE(error.find(folder() + "/"), std::string::npos) << error;
          EXPECT_NE(error.find(reason), std::string::npos) << error;
        }
        const Files after = files();
        ASSERT_EQ(after.size(), fresh.size()) << after.rbegin()->first;
        bool all_fresh = true;
        for (const auto& [name, content] : after) {
          EXPECT_TRUE(content == old.at(name) || content == fresh.at(name)) << name;
          if (name != "index.tmshards") all_fresh &= content == fresh.at(name);
        }
        EXPECT_TRUE(all_fresh || after.at("index.tmshards") == old.at("index.tmshards"));
        ASSERT_LT(call, 1000);
      }
    }
    put(old);
    const FailingCalls dribbling(folder(), 1, FailingCalls::Mode::dribble);
    write();
    EXPECT_TRUE(files() == fresh);
  }

  const fs::path root_ = fs::temp_directory_path() / ("topomask_failing_shards_" + std::to_string(::getpid()) + "_" +
                                                      ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(FailingShards, OfAGraphStayWhole) {
  const Graph before = Graph::path(60), graph = Graph::grid({6, 10});
  const Partition old_parts = partition(before, 2, PartitionMethod::ranges);
  const Partition parts = partition(graph, 2, PartitionMethod::cuthill_mckee);
  write_shards(before, old_parts, folder());
  expect_whole_files([&] { write_shards(graph, parts, folder()); });
}

TEST_F(FailingShards, OfAStreamStayWhole) {
  const Graph before = Graph::path(60), graph = Graph::grid({6, 10});
  const std::string file = root_ / "edges.txt";
  write_snap(graph, file);
  write_shards(before, partition(before, 2, PartitionMethod::ranges), folder());
  const Partition parts = partition(graph, 2, PartitionMethod::cuthill_mckee);
  expect_whole_files([&] { shard_edge_list(file, parts, folder(), false); });
}

TEST_F(FailingShards, OfAStreamDropWhatAKilledProcessLeft) {
  const Graph graph = Graph::grid({6, 10});
  const std::string file = root_ / "edges.txt";
  write_snap(graph, file);
  const Partition parts = partition(graph, 2);
  shard_edge_list(file, parts, folder(), false);
  const Files expected = files();
  const double weight = 1;
  const int32_t edge[] = {0, 59};
  std::string record(reinterpret_cast<const char*>(edge), sizeof(edge));
  record.append(reinterpret_cast<const char*>(&weight), sizeof(weight));
  for (const char* name : {"/edges-0.partial", "/edges-1.partial"}) std::ofstream(folder() + name) << record;
  shard_edge_list(file, parts, folder(), false);
  EXPECT_TRUE(files() == expected);
}

}  // namespace
}  // namespace topomask::testing
