#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "graph/io/helpers.h"

namespace topomask::testing {
namespace {

using RealData = GraphFiles;

const std::filesystem::path kData = TOPOMASK_DATA_DIR;

TEST_F(RealData, RoadNetworkOfTwelveCities) {
  const std::string path = kData / "graphs" / "roads-12-cities.txt.gz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no road network at " << path;
  const auto start = std::chrono::steady_clock::now();
  const Graph graph = read_graph(path);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(graph.num_nodes(), 1'988'158);
  EXPECT_EQ(graph.num_edges(), 2'214'174);
  EXPECT_EQ(graph.num_entries(), 2 * graph.num_edges());
  RecordProperty("seconds", std::to_string(seconds));
}

class RealMesh : public GraphFiles {
 protected:
  // Empty where the mesh or xz is missing.
  std::string unpacked(const std::string& name) const {
    const std::filesystem::path packed = kData / "graphs" / (name + ".graph.xz");
    if (!std::filesystem::exists(packed)) return {};
    const std::string command = "xz -dc '" + packed.string() + "' > '" + at(name + ".graph") + "' 2> /dev/null";
    return std::system(command.c_str()) == 0 ? at(name + ".graph") : std::string{};
  }
};

TEST_F(RealMesh, HasTheCountsOfItsHeader) {
  const std::string small = unpacked("4elt"), large = unpacked("mdual");
  if (small.empty() || large.empty()) GTEST_SKIP() << "no meshes under " << kData << ", or no xz";
  const Graph elements = read_graph(small);
  EXPECT_EQ(elements.num_nodes(), 7'434);
  EXPECT_EQ(elements.num_edges(), 43'031);
  const Graph dual = read_graph(large);
  EXPECT_EQ(dual.num_nodes(), 258'569);
  EXPECT_EQ(dual.num_edges(), 513'132);
  write_metis(dual, at("again.graph"));
  expect_same(read_metis(at("again.graph")), dual);
}

TEST_F(RealData, CitationGraphs) {
  struct Expected {
    const char* name;
    int64_t nodes, edges;
  };
  for (const Expected& e :
       {Expected{"cora", 2'708, 5'278}, Expected{"citeseer", 3'312, 4'536}, Expected{"dblp", 17'716, 52'867},
        Expected{"amazon_cs", 13'752, 245'861}, Expected{"coauthor_phy", 34'493, 247'962}}) {
    const std::string path = kData / "citation" / (std::string(e.name) + ".npz");
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no citation graph at " << path;
    const Graph graph = read_graph(path);
    EXPECT_EQ(graph.num_edges(), e.edges) << e.name;
    EXPECT_LE(graph.num_nodes(), e.nodes)
        << e.name;  // the archives do not say N: nodes after the last edge end are unknown
  }
}

}  // namespace
}  // namespace topomask::testing
