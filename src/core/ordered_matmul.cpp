#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/TensorUtils.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "core/library_tasks.h"
#include "core/ordered_sums.h"

namespace topomask {
namespace {

constexpr int64_t kTaskWork = int64_t{1} << 21;  // multiply-adds of a task, so that starting it does not count
constexpr int64_t kInnerBlock = 4096;            // terms of a sum that one thread adds up

int64_t count_of(int64_t length, int64_t block) {
  return (length + block - 1) / block;
}

/// How [S, n, k]·[S, k, m] is cut, by the sizes alone.
struct Cut {
  Cut(int64_t slices, int64_t n, int64_t k, int64_t m) {
    constexpr int64_t kRows = 64, kColumns = 256;  // at least, where there are so many
    inner_blocks = k > 2 * kInnerBlock ? count_of(k, kInnerBlock) : 1;
    const int64_t terms = inner_blocks > 1 ? kInnerBlock : k;
    columns = std::clamp<int64_t>(kTaskWork / (terms * std::min(n, kRows)), kColumns, std::max(kColumns, m));
    rows = std::clamp<int64_t>(kTaskWork / (terms * std::min(m, columns)), kRows, std::max(kRows, n));
    row_blocks = count_of(n, rows);
    column_blocks = count_of(m, columns);
    // Small matrices come several at a time.
    group = row_blocks * column_blocks == 1 ? std::clamp<int64_t>(kTaskWork / (terms * n * m), 1, slices) : 1;
    groups = count_of(slices, group);
  }
  int64_t tasks() const { return groups * row_blocks * column_blocks * inner_blocks; }
  int64_t inner_blocks, columns, rows, row_blocks, column_blocks, group, groups;
};

at::Tensor plain_product(const at::Tensor& a, const at::Tensor& b) {
  const int64_t n = a.size(-2), k = a.size(-1), m = b.size(-1);
  std::vector<int64_t> shape = at::infer_size(a.sizes().slice(0, a.dim() - 2), b.sizes().slice(0, b.dim() - 2));
  const auto expanded = [&](const at::Tensor& x) {
    std::vector<int64_t> sizes = shape;
    sizes.insert(sizes.end(), {x.size(-2), x.size(-1)});
    return x.expand(sizes);
  };
  const at::Tensor left = expanded(a), right = expanded(b);
  int64_t slices = 1;
  for (const int64_t size : shape) slices *= size;
  std::vector<int64_t> result = shape;
  result.insert(result.end(), {n, m});
  at::Tensor out = k == 0 ? at::zeros(result, a.options()) : at::empty(result, a.options());
  if (k == 0 || out.numel() == 0) return out;

  // Without a copy where the slices of both are a step apart; else one leading index after the other.
  const auto in_slices = [&](const at::Tensor& x) {
    return at::detail::computeStride(x.sizes(), x.strides(), at::DimVector{slices, x.size(-2), x.size(-1)}).has_value();
  };
  if (!in_slices(left) || !in_slices(right)) {
    for (int64_t s = 0; s < shape[0]; ++s) out.select(0, s).copy_(plain_product(left.select(0, s), right.select(0, s)));
    return out;
  }
  const at::Tensor l = left.reshape({slices, n, k}), r = right.reshape({slices, k, m}), y = out.view({slices, n, m});
  const Cut cut(slices, n, k, m);
  const at::Tensor partial =
      cut.inner_blocks > 1 ? at::empty({cut.inner_blocks, slices, n, m}, a.options()) : y.unsqueeze(0);
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t rest = task;
      const auto next = [&rest](int64_t blocks) { return std::exchange(rest, rest / blocks) % blocks; };
      const int64_t inner = next(cut.inner_blocks), column = next(cut.column_blocks) * cut.columns;
      const int64_t row = next(cut.row_blocks) * cut.rows, slice = rest * cut.group;
      const int64_t count = std::min(cut.group, slices - slice), rows = std::min(cut.rows, n - row);
      const int64_t from = inner * kInnerBlock, terms = cut.inner_blocks > 1 ? std::min(kInnerBlock, k - from) : k;
      const int64_t columns = std::min(cut.columns, m - column);
      at::Tensor to = partial[inner].narrow(0, slice, count).narrow(1, row, rows).narrow(2, column, columns);
      const at::Tensor x = l.narrow(0, slice, count).narrow(1, row, rows).narrow(2, from, terms);
      const at::Tensor z = r.narrow(0, slice, count).narrow(1, from, terms).narrow(2, column, columns);
      if (count == 1) {
        at::Tensor one = to[0];
        at::mm_out(one, x[0], z[0]);
      } else {
        at::bmm_out(to, x, z);
      }
    }
  };
  if (slices * n * k * m < kTaskWork) {  // not worth other threads
    const PlainOps plain;
    const OneLibraryThread alone;
    run(0, cut.tasks());
  } else {
    for_library_tasks(cut.tasks(), 1, run);
  }
  if (cut.inner_blocks > 1) {
    y.copy_(partial[0]);
    for (int64_t block = 1; block < cut.inner_blocks; ++block) y.add_(partial[block]);
  }
  return out;
}

struct OrderedMatmul : torch::autograd::Function<OrderedMatmul> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b) {
    ctx->save_for_backward({a, b});
    return plain_product(a, b);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    torch::autograd::variable_list result(2);
    if (ctx->needs_input_grad(0)) {
      result[0] = reduced_to(ordered_matmul(grads[0], saved[1].mT()), saved[0].sizes());
    }
    if (ctx->needs_input_grad(1)) {
      result[1] = reduced_to(ordered_matmul(saved[0].mT(), grads[0]), saved[1].sizes());
    }
    return result;
  }
};

}  // namespace

at::Tensor matmul_in_blocks(const at::Tensor& a, const at::Tensor& b, int64_t block) {
  const int64_t inner = a.size(-1), whole = inner / block * block;
  if (whole == 0) return at::matmul(a, b);
  const at::Tensor left = a.narrow(-1, 0, whole).unflatten(-1, {whole / block, block}).movedim(-2, -3);
  const at::Tensor right = b.narrow(-2, 0, whole).unflatten(-2, {whole / block, block});
  const bool narrow = a.scalar_type() == at::kBFloat16 || a.scalar_type() == at::kHalf;
  at::Tensor sum = at::sum(at::matmul(left, right), -3, /*keepdim=*/false, narrow ? at::kFloat : a.scalar_type());
  if (whole < inner) sum = sum + at::matmul(a.narrow(-1, whole, inner - whole), b.narrow(-2, whole, inner - whole));
  return sum.to(a.scalar_type());
}

namespace {

/// On a GPU a product is shared out by tiles of its result. A small result of a long sum would keep a few of its
/// multiprocessors busy, so that the sum is cut into as many parts as make some hundred tiles.
at::Tensor product_on_cuda(const at::Tensor& a, const at::Tensor& b) {
  constexpr int64_t kTile = 128, kTiles = 256, kLeast = 256;
  const int64_t inner = a.size(-1), n = a.size(-2), m = b.size(-1);
  const int64_t slices =
      std::max(a.numel() / std::max<int64_t>(n * inner, 1), b.numel() / std::max<int64_t>(inner * m, 1));
  const int64_t tiles = std::max<int64_t>(slices * count_of(n, kTile) * count_of(m, kTile), 1);
  if (inner < 8 * kLeast || tiles * 2 > kTiles) return at::matmul(a, b);
  // A multiple of 64 terms: rows of every part stay aligned.
  const int64_t block = std::max(kLeast, count_of(count_of(inner * tiles, kTiles), 64) * 64);
  return matmul_in_blocks(a, b, block);
}

}  // namespace

at::Tensor ordered_matmul(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_cpu()) return product_on_cuda(a, b);
  const bool recorded = at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad());
  return recorded ? OrderedMatmul::apply(a, b) : plain_product(a, b);
}

}  // namespace topomask
