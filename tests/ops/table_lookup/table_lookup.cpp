#include <ATen/Parallel.h>

#include "ops/table_lookup/op.h"
#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask {
namespace {

using testing::close;
using testing::normal;

TEST(TableLookup, IsLinearWithSumsAsItsGradient) {
  const at::Tensor index = at::tensor({0, 2, 2, 1, 7, -1}, at::kShort).view({2, 3});
  const at::Tensor table = normal({4, 3}, 1).t().slice(1, 0, 3).requires_grad_();  // [3, 3]
  const at::Tensor places = at::tensor({0, 2, 2, 1, 2, 2}, at::kLong);  // what lies outside reads the last value
  const at::Tensor expected = table.index_select(1, places).view({3, 2, 3});
  const at::Tensor actual = ops::table_lookup::lookup(table, index);
  EXPECT_TRUE(actual.equal(expected));
  const at::Tensor g = normal({3, 2, 3}, 2).requires_grad_();
  EXPECT_TRUE(close(testing::gradients(actual, g, {table})[0],
                    at::zeros({3, 3}, at::kDouble).index_add(1, places, g.view({3, 6})), 1e-14));
  const at::Tensor h = normal({3, 3}, 3);
  EXPECT_TRUE(close(testing::gradients(ops::table_lookup::sums(g, index, 3), h, {g})[0],
                    ops::table_lookup::lookup(h, index), 1e-14));
}

TEST(TableLookup, SumsAreExactEnoughAndDoNotDependOnThreads) {
  const at::Tensor index = at::arange(3'000'001).remainder(5).to(at::kShort);
  const at::Tensor grad = at::rand({1, 3'000'001}) + 1;
  const at::Tensor expected = at::zeros({5}, at::kDouble).index_add(0, index.to(at::kInt), grad[0].to(at::kDouble));
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = ops::table_lookup::sums(grad, index, 5);
  at::set_num_threads(3);
  EXPECT_TRUE(ops::table_lookup::sums(grad, index, 5).equal(one));
  at::set_num_threads(threads);
  EXPECT_TRUE(close(one[0], expected, 1e-7));
}

TEST(TableLookup, RefusesBadArguments) {
  const at::Tensor index = at::zeros({4}, at::kShort), table = at::zeros({2, 3});
  EXPECT_ERROR(ops::table_lookup::lookup(table, index.to(at::kLong)),
               "table_lookup: index must be int16 on cpu, got Long[4]");
  EXPECT_ERROR(ops::table_lookup::lookup(at::zeros({2, 0}), index),
               "table_lookup: table must be float32 or float64 [H, K], K >= 1, got Float[2, 0]");
  EXPECT_ERROR(ops::table_lookup::sums(at::zeros({2, 5}), index, 3),
               "table_sums: grad must be float32 or float64, [H, ...] with the shape of index [4]");
  EXPECT_ERROR(ops::table_lookup::sums(at::zeros({2, 4}), index, 0), "table_sums: size must be >= 1, got 0");
  EXPECT_ERROR(ops::table_lookup::sums(at::zeros({2, 4}), index.to(at::kLong), 3),
               "table_sums: index must be int16 on cpu");
}

}  // namespace
}  // namespace topomask
