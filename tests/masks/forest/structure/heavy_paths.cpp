#include "masks/forest/structure/heavy_paths.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace topomask {
namespace {

std::vector<int32_t> random_parents(int64_t nodes) {
  at::manual_seed(4);
  std::vector<int32_t> parent(nodes, -1);
  for (int64_t v = 1; v < nodes; ++v) parent[v] = v % 50 == 0 ? -1 : at::randint(0, v, {1}).item<int32_t>();
  return parent;
}

std::vector<std::vector<int32_t>> forests() {
  std::vector<int32_t> path(1000), star(1000, 0);
  for (int32_t v = 0; v < 1000; ++v) path[v] = v - 1;
  star[0] = -1;
  return {random_parents(997), path, star, {-1}, {}};
}

TEST(HeavyPaths, HoldEveryNodeOnceBelowItsParent) {
  for (const auto& parent : forests()) {
    const HeavyPaths paths(make_rooted_order(parent.data(), static_cast<int64_t>(parent.size())));
    EXPECT_TRUE(std::get<0>(paths.nodes.sort()).equal(at::arange(std::ssize(parent), at::kInt)));
    const int32_t *node = paths.nodes.const_data_ptr<int32_t>(), *offset = paths.offsets.const_data_ptr<int32_t>();
    for (int64_t path = 0; path + 1 < paths.offsets.numel(); ++path) {
      for (int32_t i = offset[path] + 1; i < offset[path + 1]; ++i) {
        EXPECT_EQ(parent[node[i]], node[i - 1]);
        EXPECT_EQ(paths.heavy[node[i - 1]].item<int32_t>(), node[i]);
      }
    }
  }
}

TEST(HeavyPaths, HaveFewLevelsHoweverDeepTheTree) {
  for (const auto& parent : forests()) {
    const HeavyPaths paths(make_rooted_order(parent.data(), static_cast<int64_t>(parent.size())));
    const auto levels = static_cast<double>(paths.levels.size()) - 1;
    EXPECT_LE(levels, 1 + std::log2(static_cast<double>(parent.size()) + 1));
  }
}

TEST(HeavyPaths, NameTheOtherChildrenOfEveryNode) {
  for (const auto& parent : forests()) {
    const HeavyPaths paths(make_rooted_order(parent.data(), static_cast<int64_t>(parent.size())));
    const int32_t* offset = paths.light_offsets.const_data_ptr<int32_t>();
    for (size_t v = 0; v < parent.size(); ++v) {
      for (int32_t k = offset[v]; k < offset[v + 1]; ++k) {
        const auto child = paths.light_children[k].item<int32_t>();
        EXPECT_EQ(parent[child], static_cast<int32_t>(v));
        EXPECT_NE(paths.heavy[static_cast<int64_t>(v)].item<int32_t>(), child);
      }
    }
  }
}

}  // namespace
}  // namespace topomask
