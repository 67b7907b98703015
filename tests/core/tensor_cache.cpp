#include "core/tensor_cache.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <thread>

#include "support/compare.h"
#include "support/devices.h"
#include "support/parameter_changes.h"

namespace topomask {
namespace {

/// A cache of p ⊗ (1, …, 1), which counts how often it computes.
struct CountingCache {
  TensorCache cache;
  mutable std::atomic<int> computed = 0;
  int64_t width = 8;

  at::Tensor operator()(const at::Tensor& p) const {
    return cache.get({p}, [this](const std::vector<at::Tensor>& parameters) {
      ++computed;
      return std::vector<at::Tensor>{parameters[0].unsqueeze(-1) * at::ones({width}, parameters[0].options())};
    })[0];
  }
};

TEST(TensorCache, ComputesOnceForTheSameValues) {
  const CountingCache cache;
  const at::Tensor p = at::tensor({1.0, 2.0}).requires_grad_();
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(cache(p).is_same(cache(p)));
  EXPECT_TRUE(cache(p.clone()).is_same(cache(p)));  // another tensor of the same values
  EXPECT_TRUE(cache(at::tensor({1.0, 5.0, 2.0, 6.0}).view({2, 2}).select(1, 0)).is_same(cache(p)));
  EXPECT_EQ(cache.computed, 1);
}

TEST(TensorCache, SeesEveryWayOfWriting) {
  for (const at::Device device : testing::devices()) {
    for (const testing::ParameterChange& change : testing::parameter_changes()) {
      if (device.is_cuda() && !change.on_cuda) continue;
      const CountingCache cache;
      at::Tensor p = at::rand({3}, at::device(device)).requires_grad_();
      const auto cached = [&] {
        const at::NoGradGuard no_grad;
        return cache(p);
      };
      const at::Tensor before = cached().clone();
      change.write(p);
      EXPECT_TRUE(at::equal(cached(), p.detach().unsqueeze(-1).expand({3, 8}))) << change.name << " on " << device;
      EXPECT_FALSE(at::equal(cached(), before)) << change.name;
    }
  }
}

TEST(TensorCache, ComparesBytes) {
  const CountingCache cache;
  const at::Tensor p = at::tensor({0.0, std::nan("")});
  cache(p);
  cache(p);
  EXPECT_EQ(cache.computed, 1);  // NaN is what it was
  p[0] = -0.0;
  EXPECT_TRUE(cache(p).signbit()[0].all().item<bool>());
  EXPECT_EQ(cache.computed, 2);
}

TEST(TensorCache, SeesAnotherShapeAndAnotherType) {
  const CountingCache cache;
  at::Tensor p = at::zeros({4});
  EXPECT_EQ(cache(p).sizes(), (at::IntArrayRef{4, 8}));
  p.set_data(at::zeros({2}, at::kDouble));  // as many bytes, all 0
  EXPECT_EQ(cache(p).scalar_type(), at::kDouble);
  p.set_data(at::zeros({1, 2}, at::kDouble));
  EXPECT_EQ(cache(p).sizes(), (at::IntArrayRef{1, 2, 8}));
  p.resize_({0});
  EXPECT_EQ(cache(p).sizes(), (at::IntArrayRef{0, 8}));
}

TEST(TensorCache, ComputesWhileAGradientIsRecorded) {
  const CountingCache cache;
  const at::Tensor p = at::tensor({1.0, 2.0}).requires_grad_();
  cache(p);
  EXPECT_TRUE(cache(p).requires_grad());
  EXPECT_EQ(cache.computed, 2);
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(cache(p).requires_grad());
  }
  EXPECT_TRUE(cache(p).requires_grad());
}

TEST(TensorCache, DoesNotKeepWhatIsAsLargeAsItsParameters) {
  CountingCache cache;
  cache.width = 1;
  const at::Tensor p = at::rand({5});
  for (int i = 0; i < 3; ++i) cache(p);
  EXPECT_EQ(cache.computed, 3);
}

TEST(TensorCache, WhatItKeepsServesInsideAndOutsideInferenceMode) {
  const CountingCache cache;
  const at::Tensor p = at::tensor({1.0, 2.0});
  {
    const c10::InferenceMode inference;
    EXPECT_FALSE(cache(p).is_inference());
    const at::Tensor made_here = at::tensor({3.0, 4.0});
    EXPECT_TRUE(at::equal(cache(made_here).select(1, 0), made_here));
    made_here.mul_(2);
    EXPECT_TRUE(at::equal(cache(made_here).select(1, 0), made_here));
  }
  EXPECT_FALSE(cache(p).is_inference());
}

TEST(TensorCache, IsSharedByThreads) {
  const CountingCache cache;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, &wrong, t] {
      const at::Tensor p = at::full({16}, static_cast<double>(t % 2));
      for (int i = 0; i < 200; ++i) wrong += !at::equal(cache(p).select(1, 3), p);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace topomask
