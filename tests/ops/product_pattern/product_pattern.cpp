#include "ops/product_pattern/op.h"
#include "support/compare.h"
#include "support/devices.h"
#include "support/sparse_reference.h"

namespace topomask {
namespace {

using at::Tensor;
using testing::random_pattern;

Tensor ones_of(const PatternPtr& pattern) {
  return testing::dense_matrix(pattern, at::ones({1, pattern->entries()}, at::kDouble))[0];
}

TEST(ProductPattern, IsThatOfTheDenseProduct) {
  for (const at::Device device : testing::devices()) {
    for (const auto& [rows, cols, others] :
         std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 1, 1}, {13, 40, 9}, {150, 63, 200}, {0, 3, 2}}) {
      SCOPED_TRACE(c10::str(rows, " x ", cols, " x ", others, " on ", device));
      const PatternPtr a = random_pattern(rows, cols, 0.05, 1), b = random_pattern(others, cols, 0.05, 2);
      const Tensor places = at::matmul(ones_of(a), ones_of(b).t()).nonzero();  // row by row, columns ascending
      const auto [offsets, columns] = ops::product_pattern::make(a->to(device)->tensors(), b->to(device)->tensors());
      EXPECT_TRUE(columns.cpu().to(at::kLong).equal(places.select(1, 1)));
      EXPECT_TRUE(at::repeat_interleave(at::arange(rows), offsets.cpu().diff()).equal(places.select(1, 0)));
      EXPECT_EQ(offsets.size(0), rows + 1);
    }
  }
}

}  // namespace
}  // namespace topomask
