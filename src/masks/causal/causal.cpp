#include <ATen/ATen.h>

#include "core/ordered_sums.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

/// Rows a chunk holds: inside a chunk the product is dense, between chunks an [m, d] state is carried. At least m, so
/// that the states of all chunks together take no more memory than N·d.
int64_t chunk_rows(int64_t features) {
  return std::max<int64_t>(64, features);
}

class CausalMask final : public Mask {
 public:
  explicit CausalMask(int64_t nodes) : nodes_(nodes) {}

  std::string name() const override { return "causal"; }
  int64_t size() const override { return nodes_; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(nodes_);
    return {.operator_work = n, .dense_work = n * n, .tiles = TileKind::causal};
  }

  std::optional<double> masked_product_work(int64_t features, int64_t value_dim) const override {
    const auto chunk = static_cast<double>(chunk_rows(features));
    return static_cast<double>(nodes_) *
           (chunk * static_cast<double>(features + value_dim) + 2.0 * features * value_dim);
  }

  at::Tensor masked_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                            bool transposed) const override {
    // j ≥ i is j ≤ i read backwards.
    if (transposed) return masked_product(a.flip(-2), b.flip(-2), c.flip(-2), false).flip(-2);
    const int64_t slices = a.size(0) * a.size(1), chunk = chunk_rows(a.size(-1));
    const int64_t chunks = (nodes_ + chunk - 1) / chunk;
    const auto in_chunks = [&](const at::Tensor& x) {
      const at::Tensor padded = at::constant_pad_nd(x, {0, 0, 0, chunks * chunk - nodes_});
      return padded.reshape({slices * chunks, chunk, x.size(-1)});
    };
    const at::Tensor a_chunks = in_chunks(a), b_chunks = in_chunks(b), c_chunks = in_chunks(c);
    at::Tensor out = ordered_matmul(ordered_matmul(a_chunks, b_chunks.mT()).tril_(), c_chunks);
    at::Tensor states = ordered_matmul(b_chunks.mT(), c_chunks).view({slices, chunks, a.size(-1), c.size(-1)});
    // What lies before each chunk, summed without it: a difference of sums would let a large chunk round off earlier
    // ones.
    if (chunks > 0) states = at::constant_pad_nd(states.narrow(1, 0, chunks - 1), {0, 0, 0, 0, 1, 0}).cumsum(1);
    states = states.reshape({slices * chunks, a.size(-1), c.size(-1)});
    if (out.is_cuda()) {
      out.baddbmm_(a_chunks, states);
    } else {
      out.add_(ordered_matmul(a_chunks, states));
    }
    return out.view({slices, chunks * chunk, c.size(-1)}).narrow(1, 0, nodes_).reshape_as(c);
  }

  at::Tensor dense() const override { return at::ones({nodes_, nodes_}).tril_(); }
  std::optional<MaskTiles> tiles() const override { return MaskTiles{.kind = TileKind::causal}; }
  MaskPtr to(const at::TensorOptions&) const override { return shared_from_this(); }
  at::Tensor apply(const at::Tensor& x) const override { return x.cumsum(-2); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return x.flip(-2).cumsum(-2).flip(-2); }

 private:
  int64_t nodes_;
};

}  // namespace

MaskPtr causal_mask(int64_t nodes) {
  TORCH_CHECK(nodes >= 0 && nodes <= std::numeric_limits<int32_t>::max(),
              "causal_mask: nodes must be in [0, 2^31-1], got ", nodes);
  return std::make_shared<CausalMask>(nodes);
}

}  // namespace topomask
