#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <torch/library.h>

#include <array>

#include "core/recycled.h"
#include "ops/block_before/op.h"
#include "ops/block_rows.h"

namespace topomask::ops::block_before {

namespace {

using namespace block_rows;

std::tuple<Tensor, Tensor, Tensor> before(const Tensor& x, const Tensor& norm_weight, const Tensor& norm_bias,
                                          double eps, const Tensor& w, const Tensor& b, int64_t heads, double offset,
                                          bool low) {
  check(x, norm_weight, norm_bias, w, b, heads);
  const int64_t rows = x.size(0), width = x.size(1), dim = width / heads;
  std::array<Tensor, 3> made;
  for (Tensor& part : made) part = recycled_empty({heads, rows, dim}, x.options().requires_grad(false));
  const Tensor weight = Weight(w, low).whole.t(), plain = x.detach(), nw = norm_weight.detach().contiguous(),
               nb = norm_bias.detach().contiguous(), bias = b.detach();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "block_before", [&] {
    for_ranges(rows, [&](int64_t, int64_t begin, int64_t end) {
      const at::NoGradGuard no_grad;
      const Products products(plain, low);
      Norm norm(nw, nb, eps, products);
      const Tensor all = products.buffer(3 * width), n_low = products.low_buffer(width);
      for (int64_t at = begin; at < end; at += kRows) {
        const int64_t count = std::min(kRows, end - at);
        const Tensor y = all.narrow(0, 0, count);
        const Tensor n = norm.forward<scalar_t>(plain.narrow(0, at, count));
        products.multiply(y, products.operand(n, n_low), weight, bias);
        HeadArgs<scalar_t> args{};
        args.rows = y.mutable_data_ptr<scalar_t>();
        for (int p = 0; p < 3; ++p) {
          args.parts[p] = made[p].mutable_data_ptr<scalar_t>() + at * dim;
          args.features[p] = p < 2 ? args.parts[p] : nullptr;
        }
        args.count = 3, args.heads = heads, args.dim = dim, args.stride = rows * dim;
        args.offset = static_cast<scalar_t>(offset);
        feature_rows(args, 0, count);
      }
    });
  });
  return {made[0], made[1], made[2]};
}

std::vector<Tensor> before_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& x,
                                    const Tensor& norm_weight, const Tensor& norm_bias, double eps, const Tensor& w,
                                    const Tensor& q, const Tensor& k, double offset, bool low) {
  check_backward(dq, dk, dv, x, norm_weight, norm_bias, w, q, k);
  const int64_t heads = q.size(0), rows = x.size(0), width = x.size(1), dim = width / heads;
  const std::array<Tensor, 3> grads{dq.contiguous(), dk.contiguous(), dv.contiguous()};
  const std::array<Tensor, 2> features{q.contiguous(), k.contiguous()};
  const Tensor weight = Weight(w, low).whole, plain = x.detach(), nw = norm_weight.detach().contiguous(),
               nb = norm_bias.detach().contiguous();
  const Tensor dx = recycled_empty(x.sizes(), plain.options());
  const Gradients sums(range_count(rows), {nw, nb, w, at::empty({3 * width}, plain.options())});
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "block_before_backward", [&] {
    for_ranges(rows, [&](int64_t range, int64_t begin, int64_t end) {
      const at::NoGradGuard no_grad;
      const Products products(plain, low);
      Norm norm(nw, nb, eps, products);
      const Tensor all = products.buffer(3 * width), all_low = products.low_buffer(3 * width),
                   n_low = products.low_buffer(width), slopes = products.buffer(width);
      for (int64_t at = begin; at < end; at += kRows) {
        const int64_t count = std::min(kRows, end - at);
        const Tensor dy = all.narrow(0, 0, count), here = plain.narrow(0, at, count), dn = slopes.narrow(0, 0, count);
        const Tensor n = norm.forward<scalar_t>(here);
        HeadArgs<scalar_t> args{};
        args.rows = dy.mutable_data_ptr<scalar_t>();
        for (int p = 0; p < 3; ++p) {
          args.parts[p] = const_cast<scalar_t*>(grads[p].const_data_ptr<scalar_t>()) + at * dim;
          args.features[p] = p < 2 ? features[p].const_data_ptr<scalar_t>() + at * dim : nullptr;
        }
        args.count = 3, args.heads = heads, args.dim = dim, args.stride = rows * dim;
        args.offset = static_cast<scalar_t>(offset);
        gather_rows(args, 0, count);
        add_columns<scalar_t>(dy, sums.at(range, 3));
        const Tensor operand = products.operand(dy, all_low);
        products.add_outer(sums.at(range, 2), operand, products.operand(n, n_low));
        products.multiply(dn, operand, weight);
        norm.backward<scalar_t>(dn, here, nullptr, dx.mutable_data_ptr<scalar_t>() + at * width, sums.at(range, 0),
                                sums.at(range, 1));
      }
    });
  });
  return {dx, sums.sum(0), sums.sum(1), sums.sum(2), sums.sum(3)};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("block_before", before);
  m.impl("block_before_backward", before_backward);
}

}  // namespace topomask::ops::block_before
