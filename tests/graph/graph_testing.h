#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "topomask/graph.h"

namespace topomask::testing {

/// W as float64 [N, N], read entry by entry.
inline at::Tensor dense_adjacency(const Graph& graph) {
  at::Tensor dense = at::zeros({graph.num_nodes(), graph.num_nodes()}, at::kDouble);
  const at::Tensor weights = graph.weights().detach().to(at::kDouble);
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = graph.columns().const_data_ptr<int32_t>();
  for (int64_t i = 0; i < graph.num_nodes(); ++i) {
    for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
      dense.mutable_data_ptr<double>()[i * graph.num_nodes() + column[e]] += weights.const_data_ptr<double>()[e];
    }
  }
  return dense;
}

/// The 0/1 matrix of a relation between nodes, asked of every pair.
inline at::Tensor dense_relation(int64_t nodes, const std::function<bool(int64_t, int64_t)>& related) {
  at::Tensor dense = at::zeros({nodes, nodes}, at::kDouble);
  for (int64_t i = 0; i < nodes; ++i) {
    for (int64_t j = 0; j < nodes; ++j) dense.mutable_data_ptr<double>()[i * nodes + j] = related(i, j);
  }
  return dense;
}

inline void expect_same_graph(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.directed(), b.directed());
  EXPECT_TRUE(at::equal(a.offsets(), b.offsets()));
  EXPECT_TRUE(at::equal(a.columns(), b.columns()));
  EXPECT_EQ(a.weights().scalar_type(), b.weights().scalar_type());
  EXPECT_TRUE(at::equal(a.weights(), b.weights()));
}

inline at::Tensor ids(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

/// The message of the error that `call` throws, or a string that matches nothing.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "(no error)";
}

}  // namespace topomask::testing

/// The whole message, so that argument, expectation and what came are all held.
#define EXPECT_MESSAGE(call, text) EXPECT_EQ(::topomask::testing::error_of([&] { (void)(call); }), text)
