#include "support/compare.h"
#include "topomask/global_tokens.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

TEST(Masks, ConvertBetweenPrecisions) {
  const MaskPtr mask = with_global_tokens(neighbours_mask(Graph::path(5)), 1);
  EXPECT_EQ(mask->dtype(), at::kFloat);
  const MaskPtr wide = mask->to(at::kDouble);
  EXPECT_EQ(wide->dtype(), at::kDouble);
  EXPECT_TRUE(testing::close(wide->dense(), mask->dense(), 0));
}

TEST(Masks, AcceptNoNodes) {
  const at::Tensor x = at::zeros({2, 0, 3});
  for (const MaskPtr& mask : {none_mask(0), causal_mask(0), neighbours_mask(Graph::path(0))}) {
    EXPECT_EQ(mask->matmul(x).sizes(), x.sizes()) << mask->name();
    EXPECT_EQ(mask->dense().numel(), 0) << mask->name();
  }
}

TEST(Masks, SayWhatIsWrong) {
  EXPECT_ERROR(none_mask(-1), "none_mask: nodes must be in [0, 2^31-1], got -1");
  EXPECT_ERROR(causal_mask(-2), "causal_mask: nodes must be in [0, 2^31-1], got -2");
  EXPECT_ERROR(dense_mask(at::zeros({2, 3})),
               "dense_mask: matrix must be Float or Double, [N, N] or [H, N, N], got Float[2, 3]");
  EXPECT_ERROR(sparse_mask({nullptr, at::zeros({3})}), "sparse_mask: pattern must be given");
  const Graph graph = Graph::path(3);
  EXPECT_ERROR(sparse_mask({graph.pattern(), at::zeros({3})}), "values must be Float or Double, [entries = 4]");
  const auto wide = std::make_shared<SparsePattern>(1, 2, at::tensor({0, 1}, at::kLong), at::tensor({1}, at::kInt));
  EXPECT_ERROR(sparse_mask({wide, at::zeros({1})}), "sparse_mask: pattern must be square, got [1, 2]");
  EXPECT_ERROR(with_global_tokens(nullptr, 1), "with_global_tokens: mask must be given");
  EXPECT_ERROR(with_global_tokens(none_mask(3), -1), "with_global_tokens: tokens must be >= 0, got -1");
  const MaskPtr mask = neighbours_mask(graph);
  EXPECT_ERROR(mask->matmul(at::zeros({4, 2})), "Mask::matmul: x must be [..., N = 3, C], got Float[4, 2]");
  EXPECT_ERROR(mask->matmul(at::zeros({3})), "Mask::matmul: x must be [..., N = 3, C]");
  EXPECT_ERROR(mask->matmul(at::zeros({3, 2}, at::kDouble)),
               "Mask::matmul: x must be Float as the mask is, got Double[3, 2]");
  const MaskPtr heads = dense_mask(at::ones({2, 3, 3}));
  EXPECT_ERROR(heads->matmul(at::zeros({3, 3, 1})), "x must be [..., H = 2, N = 3, C] for a mask with 2 heads");
  EXPECT_ERROR(none_mask(3)->masked_product({}, {}, {}, false),
               "Mask::masked_product: mask none does not implement it");
}

}  // namespace
}  // namespace topomask
