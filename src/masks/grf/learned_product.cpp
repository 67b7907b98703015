#include "masks/grf/learned_product.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <vector>

#include "ops/hop_pairs/op.h"
#include "ops/placed_gram/op.h"
#include "walks/kept_loads.h"

namespace topomask {

namespace {

/// A list takes five bytes a pair and four an entry; a pattern with its transpose and tiles, about 20 an entry.
constexpr int64_t kMostPairs = 4;
constexpr int64_t kMostPlaces = 16;  // bytes an entry

/// What a table was made from: the loads, and which values they had then.
struct KnownProduct {
  std::weak_ptr<const KeptLoads> loads;
  int64_t number;
  int64_t terms;
  std::shared_ptr<LearnedProduct> product;
};

/// Lists are no longer than this, and mostly not much shorter: products of entries of Φ̂ that meet in Φ̂Φ̂ᵀ.
int64_t meetings_of(const SparsePattern& features) {
  const at::Tensor visitors = features.transposed().offsets.diff();
  return visitors.square().sum().item<int64_t>();
}

std::vector<at::Tensor> table_tensors(const WalkTable& walks, const at::Tensor& loads) {
  return {walks.pattern()->offsets(), walks.pattern()->columns(), walks.feature_offsets(), walks.hops(), loads};
}

}  // namespace

bool LearnedProduct::supports(const WalkTable& walks, int64_t terms) {
  return !walks.loads().requires_grad() && ops::hop_pairs::supports(terms);
}

std::shared_ptr<LearnedProduct> LearnedProduct::of(const WalkTable& walks, int64_t terms) {
  static std::mutex mutex;
  static std::vector<KnownProduct> all;
  const std::lock_guard lock(mutex);
  const std::shared_ptr<KeptLoads>& loads = KeptLoads::of(walks);
  const KeptLoads::Values now = loads->current(walks.loads());
  std::erase_if(all, [&](const KnownProduct& known) {  // of loads that are gone, or have changed in place since
    const auto its_loads = known.loads.lock();
    return !its_loads || (its_loads == loads && known.number != now.number);
  });
  for (const KnownProduct& known : all) {
    if (known.loads.lock() == loads && known.terms == terms) return known.product;
  }
  all.push_back({loads, now.number, terms, std::make_shared<LearnedProduct>(now.loads)});
  return all.back().product;
}

LearnedProduct::State LearnedProduct::prepared(const WalkTable& walks, const SparsePattern& product, int64_t terms) {
  const c10::InferenceMode ordinary(false);
  const at::NoGradGuard no_grad;
  const int64_t most = kMostPairs * product.entries();
  if (meetings_of(*walks.pattern()) <= most) {  // otherwise even finding their length would take long
    const auto table = table_tensors(walks, loads_);
    std::tie(offsets_, pairs_, sums_) =
        ops::hop_pairs::make(table, table, {product.offsets(), product.columns()}, terms, most);
    if (offsets_.numel() > 0) return State::lists;
  }
  if (walks.device().is_cuda()) {
    std::tie(starts_, places_) =
        ops::placed_gram::make(walks.pattern()->tensors(), product.tensors(), kMostPlaces * product.entries());
    if (starts_.numel() > 0) return State::places;
  }
  return State::refused;
}

at::Tensor LearnedProduct::values(const WalkTable& walks, const SparsePattern& product, const at::Tensor& f) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::waiting) {
      state_ = prepared(walks, product, f.size(-1));
      loads_.reset();
    }
    if (state_ == State::refused) return {};
  }
  at::Tensor result;
  if (state_ == State::lists) {
    const auto n = static_cast<double>(walks.walkers());
    const at::Tensor g = ops::hop_pairs::pair_products(at::atleast_2d(f), 1 / (n * n));
    result = ops::hop_pairs::values(g, offsets_, pairs_, sums_);
  } else {
    const at::Tensor features = at::atleast_2d(walk_features(walks, f));
    result = ops::placed_gram::gram(features, walks.pattern()->tensors(), product.tensors(), starts_, places_);
  }
  return f.dim() == 1 ? result.squeeze(0) : result;
}

}  // namespace topomask
