#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <torch/library.h>

#include "core/recycled.h"
#include "ops/block_after/op.h"
#include "ops/block_rows.h"

namespace topomask::ops::block_after {

namespace {

using namespace block_rows;

/// What both passes of the second half do to a chunk: y = x + projection(out), norm(y), and the hidden layer.
template <class T>
class Hidden {
 public:
  Hidden(const Tensor& x, const Tensor& out, const Tensor& wp, const Tensor& bp, const Tensor& norm_weight,
         const Tensor& norm_bias, double eps, const Tensor& w1, const Tensor& b1, bool low)
      : products(x, low),
        norm(norm_weight, norm_bias, eps, products),
        x_(x),
        out_(out),
        wp_(wp),
        w1_(w1),
        bp_(bp),
        b1_(b1),
        y_(products.buffer(x.size(1))),
        o_(products.buffer(x.size(1))),
        h_(products.buffer(w1.size(0))),
        n_low_(products.low_buffer(x.size(1))),
        o_low_(products.low_buffer(x.size(1))) {}

  void forward(int64_t at, int64_t count) {
    const int64_t width = x_.size(1), heads = out_.size(0), dim = out_.size(2);
    o = o_.narrow(0, 0, count), y = y_.narrow(0, 0, count), h = h_.narrow(0, 0, count);
    HeadArgs<T> args{};
    args.rows = o.mutable_data_ptr<T>();
    args.parts[0] = const_cast<T*>(out_.const_data_ptr<T>()) + at * dim;
    args.count = 1, args.heads = heads, args.dim = dim, args.stride = out_.size(1) * dim;
    gather_rows(args, 0, count);
    o = products.operand(o, o_low_);
    products.multiply(y, o, wp_.t(), bp_);
    y.add_(x_.narrow(0, at, count));
    n = products.operand(norm.forward<T>(y), n_low_);
    products.multiply(h, n, w1_.t(), b1_);
    TORCH_INTERNAL_ASSERT_DEBUG_ONLY(width == heads * dim);
  }

  Products products;
  Norm norm;
  Tensor o, y, n, h;

 private:
  Tensor x_, out_, wp_, w1_, bp_, b1_, y_, o_, h_, n_low_, o_low_;
};

Tensor after(const Tensor& x, const Tensor& given, const Tensor& wp, const Tensor& bp, const Tensor& norm_weight,
             const Tensor& norm_bias, double eps, const Tensor& w1, const Tensor& b1, const Tensor& w2,
             const Tensor& b2, bool low) {
  check(x, given, wp, bp, norm_weight, norm_bias, w1, b1, w2, b2);
  const int64_t rows = x.size(0), width = x.size(1);
  const Tensor plain = x.detach(), out = given.detach().contiguous(), p = Weight(wp, low).whole,
               first = Weight(w1, low).whole, second = Weight(w2, low).whole;
  const Tensor result = recycled_empty(x.sizes(), plain.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "block_after", [&] {
    for_ranges(rows, [&](int64_t, int64_t begin, int64_t end) {
      const at::NoGradGuard no_grad;
      Hidden<scalar_t> hidden(plain, out, p, bp.detach(), norm_weight.detach().contiguous(),
                              norm_bias.detach().contiguous(), eps, first, b1.detach(), low);
      const Tensor h_low = hidden.products.low_buffer(w1.size(0)), z = hidden.products.buffer(width);
      for (int64_t at = begin; at < end; at += kRows) {
        const int64_t count = std::min(kRows, end - at);
        hidden.forward(at, count);
        at::gelu_out(hidden.h, hidden.h);
        Tensor here = z.narrow(0, 0, count), to = result.narrow(0, at, count);
        hidden.products.multiply(here, hidden.products.operand(hidden.h, h_low), second.t(), b2.detach());
        at::add_out(to, hidden.y, here);
      }
    });
  });
  return result;
}

std::vector<Tensor> after_backward(const Tensor& grad, const Tensor& x, const Tensor& given, const Tensor& wp,
                                   const Tensor& bp, const Tensor& norm_weight, const Tensor& norm_bias, double eps,
                                   const Tensor& w1, const Tensor& b1, const Tensor& w2, bool low) {
  check_backward(grad, x, given, wp, bp, norm_weight, norm_bias, w1, b1, w2);
  const int64_t rows = x.size(0), width = x.size(1), hidden_width = w1.size(0);
  const Tensor plain = x.detach(), out = given.detach().contiguous(), p = Weight(wp, low).whole,
               first = Weight(w1, low).whole, second = Weight(w2, low).whole, slope = grad.contiguous();
  const Tensor dx = recycled_empty(x.sizes(), plain.options()), dout = recycled_empty(out.sizes(), out.options());
  const Gradients sums(range_count(rows), {wp, bp, norm_weight, norm_bias, w1, b1, w2, bp});
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "block_after_backward", [&] {
    for_ranges(rows, [&](int64_t range, int64_t begin, int64_t end) {
      const at::NoGradGuard no_grad;
      Hidden<scalar_t> hidden(plain, out, p, bp.detach(), norm_weight.detach().contiguous(),
                              norm_bias.detach().contiguous(), eps, first, b1.detach(), low);
      const Products& products = hidden.products;
      const Tensor activated = products.buffer(hidden_width), of_hidden = products.buffer(hidden_width),
                   narrow_hidden = products.low_buffer(hidden_width), more = products.low_buffer(hidden_width),
                   of_norm = products.buffer(width), narrow_low = products.low_buffer(width),
                   other_low = products.low_buffer(width);
      for (int64_t at = begin; at < end; at += kRows) {
        const int64_t count = std::min(kRows, end - at);
        const Tensor dz = slope.narrow(0, at, count), dy = dx.narrow(0, at, count);
        Tensor g = activated.narrow(0, 0, count), dh = of_hidden.narrow(0, 0, count), dn = of_norm.narrow(0, 0, count);
        hidden.forward(at, count);
        at::gelu_out(g, hidden.h);
        const Tensor dz_operand = products.operand(dz, narrow_low);
        products.add_outer(sums.at(range, 6), dz_operand, products.operand(g, narrow_hidden));
        add_columns<scalar_t>(dz, sums.at(range, 7));
        products.multiply(dh, dz_operand, second);
        at::gelu_backward_out(dh, dh, hidden.h);
        add_columns<scalar_t>(dh, sums.at(range, 5));
        const Tensor dh_operand = products.operand(dh, more);
        products.add_outer(sums.at(range, 4), dh_operand, hidden.n);
        products.multiply(dn, dh_operand, first);
        hidden.norm.template backward<scalar_t>(dn, hidden.y, dz.const_data_ptr<scalar_t>(),
                                                dy.mutable_data_ptr<scalar_t>(), sums.at(range, 2), sums.at(range, 3));
        add_columns<scalar_t>(dy, sums.at(range, 1));
        const Tensor dy_operand = products.operand(dy, other_low);
        products.add_outer(sums.at(range, 0), dy_operand, hidden.o);
        products.multiply(dn, dy_operand, p);
        HeadArgs<scalar_t> args{};
        args.rows = dn.mutable_data_ptr<scalar_t>();
        args.parts[0] = dout.mutable_data_ptr<scalar_t>() + at * out.size(2);
        args.count = 1, args.heads = out.size(0), args.dim = out.size(2), args.stride = rows * out.size(2);
        feature_rows(args, 0, count);
      }
    });
  });
  std::vector<Tensor> result{dx, dout};
  for (int64_t which = 0; which < 8; ++which) result.push_back(sums.sum(which));
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("block_after", after);
  m.impl("block_after_backward", after_backward);
}

}  // namespace topomask::ops::block_after
