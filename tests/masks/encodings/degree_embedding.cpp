#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/encodings.h"

namespace topomask {
namespace {

using testing::close;
using testing::normal;

TEST(DegreeEmbedding, IsARowOfTheTablePerNode) {
  const at::Tensor table = normal({3, 4}, 1).requires_grad_();
  const at::Tensor embedded = degree_embedding(Graph::star(5), table);
  EXPECT_TRUE(embedded.equal(table.index_select(0, at::tensor({2, 1, 1, 1, 1}, at::kLong)))) << "4 shares row 2";
  const at::Tensor gradient = testing::gradients(embedded, at::ones({5, 4}, at::kDouble), {table})[0];
  EXPECT_TRUE(close(gradient.select(1, 0), at::tensor({0., 4., 1.}, at::kDouble), 1e-15));
  EXPECT_EQ(degree_embedding(Graph::path(0), table).sizes(), (std::vector<int64_t>{0, 4}));
}

TEST(DegreeEmbedding, AddsInDegreesOfADirectedGraph) {
  const at::Tensor edges = at::tensor({0, 0, 1}, at::kLong), targets = at::tensor({1, 2, 2}, at::kLong);
  const Graph graph = Graph::from_edges(3, edges, targets, {}, {.directed = true});
  const at::Tensor out = normal({3, 2}, 1), in = normal({4, 2}, 2);
  const at::Tensor expected = at::stack({out[2] + in[0], out[1] + in[1], out[0] + in[2]});
  EXPECT_TRUE(close(degree_embedding(graph, out, in), expected, 1e-15));
}

TEST(DegreeEmbedding, RefusesBadTables) {
  const Graph graph = Graph::path(3);
  EXPECT_ERROR(degree_embedding(graph, at::zeros({3})),
               "degree_embedding: table must be Float or Double [max_degree + 1, C], got Float[3]");
  EXPECT_ERROR(degree_embedding(graph, at::zeros({0, 3})), "table must be Float or Double");
  EXPECT_ERROR(degree_embedding(graph, at::zeros({3, 2}), at::zeros({2})), "in_table must be Float or Double");
  EXPECT_ERROR(degree_embedding(graph, at::zeros({3, 2}), at::zeros({3, 4})),
               "in_table must be Float with 2 columns as table has, got Float[3, 4]");
}

}  // namespace
}  // namespace topomask
