// A full disk, a short write, a failed fsync, close or rename, at every call of every writer.

#include "graph/io/helpers.h"
#include "support/surviving_file.h"

namespace topomask::testing {
namespace {

using FailingWrites = GraphFiles;

TEST_F(FailingWrites, LeaveTheOldGraphAndNothingElse) {
  const Graph graph = Graph::grid({9, 7});
  const auto check = [&](const std::string& name, const auto& write) {
    SCOPED_TRACE(name);
    const std::string path = put(name, "what was there before");
    expect_old_file_survives(path, [&] { write(graph, path); });
    std::filesystem::remove(path);
  };
  const auto metis = [](const Graph& g, const std::string& path) { write_metis(g, path); };
  check("g.txt", write_snap);
  check("g.txt.gz", write_snap);
  check("g.graph", metis);
  check("g.mtx", write_matrix_market);
  check("g.npz", write_npz);
}

TEST_F(FailingWrites, OfAFileOfManyBuffersDoToo) {
  const Graph graph = Graph::path(100'000);
  const std::string path = put("g.npz", "what was there before");
  expect_old_file_survives(path, [&] { write_npz(graph, path); });
}

}  // namespace
}  // namespace topomask::testing
