#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "dist/checksum.h"
#include "dist/edge_attention.h"
#include "support/compare.h"
#include "topomask/attention.h"
#include "topomask/masks.h"

// Ranks that exchange rows are tested over Gloo (tests/python/dist/test_local_rows.py).

namespace topomask {
namespace {

using at::Tensor;

const char* const kNoGroup = "there is no group of this name";

TEST(LocalRows, OfOnePartAreTheMaskOfOneProcess) {
  const Graph graph = Graph::erdos_renyi(41, 0.1, 2).normalised().to(at::kDouble);
  const LocalRows rows(partition(graph, 1), 0, *graph.pattern(), kNoGroup);
  for (const int64_t heads : {1, 3}) {
    const auto leaf = [](at::IntArrayRef shape) { return at::rand(shape, at::kDouble).requires_grad_(); };
    const Tensor q = leaf({2, 3, 41, 4}), k = leaf({2, 3, 41, 4}), v = leaf({2, 3, 41, 5});
    const Tensor values = heads == 1 ? leaf({graph.num_entries()}) : leaf({heads, graph.num_entries()});
    const MaskPtr mask = sparse_mask({graph.pattern(), values});
    for (const bool softmax : {false, true}) {
      const Tensor out = softmax ? rows.softmax_attention(q, k, v, values) : rows.attention(q, k, v, values);
      const Tensor want = softmax
                              ? softmax_attention(q, k, v, mask, {.route = Route::sparse})
                              : attention(q, k, v, mask, {.features = FeatureMap::identity(), .route = Route::sparse});
      EXPECT_TRUE(testing::close(out, want, 1e-12)) << "softmax " << softmax;
      const Tensor cotangent = at::randn(out.sizes(), at::kDouble);
      const auto got = testing::gradients(out, cotangent, {q, k, v, values});
      const auto expected = testing::gradients(want, cotangent, {q, k, v, values});
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(testing::close(got[i], expected[i], 1e-12)) << "input " << i;
    }
  }
}

TEST(LocalRows, TheExampleAttendsOverTheEdges) {
  const Graph graph = Graph::grid({5, 6}).normalised().to(at::kDouble);
  const Partition cut = partition(graph, 1);
  const Tensor q = at::randn({2, 30, 4}, at::kDouble);
  const Tensor out = edge_attention(shard_of(graph, cut, 0), cut, q, q + 1, q * 2, kNoGroup);
  EXPECT_TRUE(testing::close(out, softmax_attention(q, q + 1, q * 2, sparse_mask(graph.matrix())), 1e-12));
}

TEST(LocalRows, OfNoNodesAndOfNoEntriesAreEmptyOrZero) {
  const SparsePattern none(0, 0, at::zeros({1}, at::kLong), at::empty({0}, at::kInt));
  const LocalRows empty({at::empty({0}, at::kInt), 1}, 0, none, kNoGroup);
  EXPECT_EQ(empty.attention(at::ones({2, 0, 3}), at::ones({2, 0, 3}), at::ones({2, 0, 4}), at::ones({0})).sizes(),
            at::IntArrayRef({2, 0, 4}));
  const Partition three = given_partition(3, at::zeros({3}, at::kLong), 1);
  const SparsePattern bare(3, 3, at::zeros({4}, at::kLong), at::empty({0}, at::kInt));
  const LocalRows rows(three, 0, bare, kNoGroup);
  EXPECT_TRUE(rows.softmax_attention(at::ones({3, 2}), at::ones({3, 2}), at::ones({3, 2}), at::ones({0}))
                  .equal(at::zeros({3, 2})));
}

TEST(LocalRows, RefusesWhatDoesNotFit) {
  const Graph graph = Graph::path(5);
  const Partition one = partition(graph, 1);
  EXPECT_ERROR(LocalRows(one, 0, *Graph::path(4).pattern(), kNoGroup),
               "LocalRows: rows must be [5, 5], the rows that part 0 owns, got [4, 4]");
  EXPECT_ERROR(LocalRows(one, 1, *graph.pattern(), kNoGroup), "LocalRows: part must be in [0, 1), got 1");
  const LocalRows rows(one, 0, *graph.pattern(), kNoGroup);
  const Tensor x = at::ones({2, 5, 3}), values = at::ones({8});
  EXPECT_ERROR(
      rows.attention(x[0][0], x, x, values),
      "LocalRows.attention: q must be float64, float32 or bfloat16 on cpu [..., 5, m], the rows of this rank, got");
  EXPECT_ERROR(rows.attention(x.to(at::kLong), x, x, values), "q must be float64, float32 or bfloat16");
  EXPECT_ERROR(rows.softmax_attention(x, x[0], x, values), "LocalRows.softmax_attention: k must be like q, got");
  EXPECT_ERROR(rows.attention(x, x, x.to(at::kDouble), values),
               "v must be like q, Float[2, 5, 3] on cpu, but for its last");
  EXPECT_ERROR(rows.attention(x, x, x, at::ones({7})), "values must be Float [8] or [H, 8], got Float[7]");
  EXPECT_ERROR(rows.attention(x, x, x, at::ones({8}, at::kDouble)),
               "values must be Float [8] or [H, 8], got Double[8]");
  EXPECT_ERROR(rows.attention(x, x, x, at::ones({3, 8})), "q must be [..., H = 3, 5, m], got Float[2, 5, 3]");
}

TEST(HaloPlan, RefusesNodesThatItCannotAskFor) {
  const Partition one = partition(Graph::path(5), 1);
  const auto needs = [&](const Tensor& nodes) { return HaloPlan(one, 0, nodes, kNoGroup); };
  EXPECT_EQ(needs(at::empty({0}, at::kLong)).rows.largest, 0);
  EXPECT_ERROR(needs(at::ones({2})), "HaloPlan: needed must be Long [h] on cpu, got Float[2]");
  EXPECT_ERROR(needs(at::tensor({1, 5}, at::kLong)), "HaloPlan: needed must be in [0, 5), got 5");
  EXPECT_ERROR(needs(at::tensor({-1, 2}, at::kLong)), "HaloPlan: needed must be in [0, 5), got -1");
  EXPECT_ERROR(needs(at::tensor({2, 2}, at::kLong)), "HaloPlan: needed must be ascending and distinct");
  EXPECT_ERROR(needs(at::tensor({1, 3}, at::kLong)),
               "HaloPlan: needed must be nodes of other parts, got 1, which part 0 owns");
  EXPECT_ERROR(HaloPlan({one.owners, 0}, 0, at::empty({0}, at::kLong), kNoGroup),
               "HaloPlan: partition must have at least one part, got 0");
}

TEST(Checksum, DiffersInEveryByteShapeAndDtype) {
  const Tensor x = at::arange(3, 24).to(at::kChar);  // 21 bytes: two words and a part of one
  const int64_t sum = checksum(x);
  EXPECT_EQ(sum, checksum(x.clone()));
  EXPECT_EQ(sum, checksum(at::stack({x, x}, 1).select(1, 0)));  // other strides
  for (int64_t i = 0; i < x.size(0); ++i) {
    Tensor other = x.clone();
    other[i] += 1;
    EXPECT_NE(checksum(other), sum) << "byte " << i;
  }
  EXPECT_NE(checksum(x.view({3, 7})), sum);
  EXPECT_NE(checksum(x.view(at::kByte)), sum);
  EXPECT_NE(checksum(at::constant_pad_nd(x, {0, 1})), sum);
  EXPECT_NE(checksum(x.flip(0)), sum);
  const Tensor words = at::arange(2);
  EXPECT_NE(checksum(words), checksum(words.flip(0)));
  EXPECT_NE(checksum(at::empty({0})), checksum(at::empty({0, 2})));
}

}  // namespace
}  // namespace topomask
