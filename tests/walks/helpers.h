#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/compare.h"
#include "topomask/walks.h"

namespace topomask::testing {

/// The arrays of a table, with names; products where there are some.
inline std::vector<std::pair<std::string, at::Tensor>> arrays_of(const WalkTable& table) {
  std::vector<std::pair<std::string, at::Tensor>> arrays = {{"offsets", table.offsets()},
                                                            {"columns", table.columns()},
                                                            {"hops", table.hops()},
                                                            {"loads", table.loads()},
                                                            {"counts", table.counts()},
                                                            {"pattern offsets", table.pattern()->offsets()},
                                                            {"pattern columns", table.pattern()->columns()},
                                                            {"feature_offsets", table.feature_offsets()}};
  if (table.has_group_products()) {
    arrays.push_back({"product_offsets", table.product_offsets()});
    arrays.push_back({"product_hops", table.product_hops()});
    arrays.push_back({"product_values", table.product_values()});
  }
  return arrays;
}

/// Equal bit for bit.
inline void expect_same(const WalkTable& actual, const WalkTable& expected) {
  const auto a = arrays_of(actual), e = arrays_of(expected);
  ASSERT_EQ(a.size(), e.size());
  for (size_t k = 0; k < a.size(); ++k) EXPECT_TRUE(at::equal(a[k].second, e[k].second)) << a[k].first;
  EXPECT_EQ(actual.walkers(), expected.walkers());
  EXPECT_EQ(actual.max_hops(), expected.max_hops());
}

/// R_t as [max_hops + 1, N, N], double.
inline at::Tensor dense_hops(const WalkTable& table) {
  const int64_t n = table.num_nodes();
  const at::Tensor rows = at::repeat_interleave(at::arange(n), table.offsets().diff());
  at::Tensor dense = at::zeros({table.max_hops() + 1, n, n}, at::kDouble);
  dense.index_put_({table.hops().to(at::kLong), rows, table.columns().to(at::kLong)},
                   table.loads().to(at::kDouble) / static_cast<double>(table.walkers()));
  return dense;
}

/// W^t as [terms, N, N], double.
inline at::Tensor powers(const Graph& graph, int64_t terms) {
  const at::Tensor w = graph.to(at::kDouble).matrix().dense();
  std::vector<at::Tensor> all = {at::eye(graph.num_nodes(), at::kDouble)};
  while (static_cast<int64_t>(all.size()) < terms) all.push_back(at::matmul(all.back(), w));
  return at::stack(all);
}

inline Graph petersen() {
  std::vector<int64_t> source, target;
  for (int64_t i = 0; i < 5; ++i) {
    for (const auto& [u, v] : {std::pair{i, (i + 1) % 5}, {i, i + 5}, {i + 5, (i + 2) % 5 + 5}}) {
      source.push_back(u);
      target.push_back(v);
    }
  }
  return Graph::from_edges(10, at::tensor(source), at::tensor(target));
}

/// Directed, of uneven weights and signs, with a dead end (node 5), a loop (node 2) and an isolated node (node 6).
inline Graph weighted_digraph() {
  return Graph::from_edges(
      7, at::tensor({0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4}), at::tensor({1, 2, 3, 0, 2, 2, 4, 4, 5, 0, 1, 5}),
      at::tensor({.5, -.3, .2, .9, .1, .4, .6, -.7, .3, .2, .2, .5}, at::kDouble), {.directed = true});
}

inline Graph binary_tree(int64_t nodes) {
  return Graph::forest(at::arange(-1, nodes - 1).floor_divide(2).where(at::arange(nodes) > 0, at::tensor(-1)));
}

}  // namespace topomask::testing
