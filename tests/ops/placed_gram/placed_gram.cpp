#include "cuda/on_cuda.h"
#include "ops/placed_gram/op.h"
#include "ops/sparse_product/op.h"
#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask {
namespace {

using PlacedGramCuda = testing::OnCuda;

PatternPtr pattern_of(const at::Tensor& dense) {
  const at::Tensor where = dense.nonzero();
  return std::make_shared<SparsePattern>(dense.size(0), dense.size(1),
                                         at::constant_pad_nd(dense.ne(0).sum(1).cumsum(0), {1, 0}),
                                         where.select(1, 1).to(at::kInt).contiguous());
}

/// Grids; random rows; rows that share columns, without and with a hub in each; nothing.
std::vector<PatternPtr> patterns() {
  std::vector<PatternPtr> result;
  for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{{15, 15}, {64, 61}, {1, 300}}) {
    const Graph graph = Graph::grid({height, width}).normalised().to(at::kDouble);
    const WalkOptions options{.walkers = 20, .halting_probability = 0.1, .max_hops = 10, .seed = 3};
    result.push_back(sample_walks(graph, options).pattern());
  }
  for (const int64_t rows : {1, 50, 350}) {
    at::Tensor dense = at::rand({rows, 170}) < 0.15;
    dense.slice(0, rows / 3, rows / 2).zero_();
    result.push_back(pattern_of(dense));
  }
  at::Tensor dense = at::zeros({500, 500});
  dense.fill_diagonal_(1);
  dense.slice(0, 0, 150).slice(1, 0, 90).copy_(at::rand({150, 90}) < 0.4);
  result.push_back(pattern_of(dense));
  dense.select(1, 3).fill_(1);
  result.push_back(pattern_of(dense));
  result.push_back(pattern_of(at::zeros({33, 4})));
  return result;
}

constexpr int64_t kAny = int64_t{1} << 40;

/// One head and many, values and gradients, and the same bits every time.
TEST_F(PlacedGramCuda, IsTheCpusProduct) {
  int tried = 0;
  for (const PatternPtr& here : patterns()) {
    const PatternPtr out = here->product(here), there = here->to(cuda_), out_there = out->to(cuda_);
    const auto [starts, places] = ops::placed_gram::make(there->tensors(), out_there->tensors(), kAny);
    if (starts.numel() == 0) {  // a row of more entries than threads hold
      EXPECT_GT(out->offsets().diff().max().item<int64_t>(), 512);
      continue;
    }
    ++tried;
    for (const int64_t heads : {1, 3}) {
      for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
        const double tolerance = dtype == at::kDouble ? 1e-13 : 2e-6;
        const at::Tensor values = testing::normal({heads, here->entries()}, 1).to(dtype),
                         slope = testing::normal({heads, out->entries()}, 2).to(dtype);
        const at::Tensor exact = values.to(at::kDouble).requires_grad_(),
                         want = ops::sparse_product::gram(exact, here->tensors(), out->tensors()),
                         want_back = testing::gradients(want, slope.to(at::kDouble), {exact})[0];
        at::Tensor last, last_back;
        for (int run = 0; run < 2; ++run) {
          const at::Tensor x = values.to(cuda_).requires_grad_();
          const at::Tensor got = ops::placed_gram::gram(x, there->tensors(), out_there->tensors(), starts, places);
          const at::Tensor back = testing::gradients(got, slope.to(cuda_), {x})[0];
          EXPECT_TRUE(testing::close(got.cpu(), want, tolerance));
          EXPECT_TRUE(testing::close(back.cpu(), want_back, 4 * tolerance));
          EXPECT_TRUE(run == 0 || (got.equal(last) && back.equal(last_back)));
          last = got.detach();
          last_back = back;
        }
      }
    }
  }
  EXPECT_GT(tried, 6);
}

/// What is not finite stays in the rows whose entries meet it.
TEST_F(PlacedGramCuda, KeepsInfinityWhereItBelongs) {
  const PatternPtr here = patterns()[0], out = here->product(here), there = here->to(cuda_), out_there = out->to(cuda_);
  const at::Tensor values = at::rand({1, here->entries()}, at::kDouble) + 1;
  values[0][here->entries() / 2] = std::numeric_limits<double>::infinity();
  const at::Tensor want = ops::sparse_product::gram(values, here->tensors(), out->tensors());
  const auto [starts, places] = ops::placed_gram::make(there->tensors(), out_there->tensors(), kAny);
  const at::Tensor got =
      ops::placed_gram::gram(values.to(cuda_), there->tensors(), out_there->tensors(), starts, places);
  EXPECT_TRUE(at::allclose(got.cpu(), want, 1e-13, 0));
}

TEST_F(PlacedGramCuda, FunctionGradientsAreTheSameEveryTime) {
  const WalkTable here = sample_walks(Graph::grid({40, 41}).normalised().to(at::kDouble),
                                      {.walkers = 20, .halting_probability = 0.02, .max_hops = 40, .seed = 3}),
                  there = here.to(cuda_);
  for (const int64_t terms : {1, 16, 17, 41}) {
    const at::Tensor f = testing::normal({2, terms}, 1), slope = testing::normal({2, here.pattern()->entries()}, 2);
    const at::Tensor f_here = f.clone().requires_grad_(), f_there = f.to(cuda_).requires_grad_();
    const at::Tensor want = testing::gradients(walk_features(here, f_here), slope, {f_here})[0];
    const auto back = [&] { return testing::gradients(walk_features(there, f_there), slope.to(cuda_), {f_there})[0]; };
    const at::Tensor first = back();
    EXPECT_TRUE(testing::close(first.cpu(), want, 1e-12)) << terms;
    for (int run = 0; run < 3; ++run) EXPECT_TRUE(back().equal(first)) << terms;
  }
}

}  // namespace
}  // namespace topomask
