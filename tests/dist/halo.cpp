#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include <numeric>

#include "dist/collectives.h"
#include "dist/overlapped_product.h"
#include "support/compare.h"

// What runs between processes is tested through the operators (tests/python/dist); here one process is a group, whose
// halo is rows of its own.

namespace topomask {
namespace {

using at::Tensor;

/// A collective call that is over at once.
struct Done : c10d::Work {
  bool wait(std::chrono::milliseconds) override { return true; }
};

struct Loopback : c10d::Backend {
  Loopback() : Backend(0, 1) {}
  const std::string getBackendName() const override { return "loopback"; }
  c10::intrusive_ptr<c10d::Work> alltoall_base(Tensor& out, Tensor& in, std::vector<int64_t>&, std::vector<int64_t>&,
                                               const c10d::AllToAllOptions&) override {
    ++exchanges;
    out.copy_(in);
    return c10::make_intrusive<Done>();
  }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<Tensor>&, const c10d::AllreduceOptions&) override {
    ++reductions;
    return c10::make_intrusive<Done>();
  }
  int exchanges = 0, reductions = 0;
};

class Halo : public ::testing::Test {
 protected:
  void SetUp() override {
    group_->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, backend_);
    group_->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
    group_->setGroupName("alone");
    c10d::register_process_group("alone", group_);
  }
  void TearDown() override { c10d::unregister_process_group("alone"); }

  static HaloRows rows(int64_t largest = -1) { return {at::tensor({4, 0, 4}, at::kLong), {3}, {3}, largest}; }
  c10::intrusive_ptr<c10d::ProcessGroup> group_ = c10::make_intrusive<c10d::ProcessGroup>(0, 1);
  c10::intrusive_ptr<Loopback> backend_ = c10::make_intrusive<Loopback>();
};

TEST_F(Halo, OverlapsWithWorkAndHasGradients) {
  const Tensor x = at::randn({2, 5, 3}, at::kDouble).requires_grad_();
  const Tensor inside = at::randn({4, 5}, at::kDouble), border = at::randn({6, 8}, at::kDouble);
  const Tensor out = overlapped_product(inside, border, x, rows(3), "alone");
  const Tensor other = x.detach().clone().requires_grad_();
  const Tensor seen = at::cat({other, other.index_select(1, rows().send_index)}, 1);
  const Tensor expected = at::cat({at::matmul(inside, other), at::matmul(border, seen)}, 1);
  EXPECT_TRUE(testing::close(out, expected, 1e-12, 1e-12));
  const Tensor weights = at::randn(out.sizes(), at::kDouble);
  const Tensor grad = torch::autograd::grad({out}, {x}, {weights})[0];
  EXPECT_TRUE(testing::close(grad, torch::autograd::grad({expected}, {other}, {weights})[0], 1e-12, 1e-12));
  EXPECT_EQ(backend_->exchanges, 2);
  EXPECT_EQ(backend_->reductions, 0);
}

TEST_F(Halo, IsCutIntoMessages) {
  for (const at::ScalarType type : {at::kDouble, at::kBFloat16, at::kBool}) {
    const Tensor x = at::randn({5, 3}, at::kDouble).gt(0).to(type);
    const int64_t two_rows = 2 * 3 * static_cast<int64_t>(x.element_size());
    backend_->exchanges = backend_->reductions = 0;
    EXPECT_TRUE(halo_exchange(x, rows(), "alone", two_rows).equal(x.index_select(0, rows().send_index)));
    EXPECT_EQ(backend_->exchanges, 2);
    EXPECT_EQ(backend_->reductions, 1);  // the most rows, which were not given
    EXPECT_TRUE(halo_exchange(x, rows(7), "alone", 1).equal(x.index_select(0, rows().send_index)));
    EXPECT_EQ(backend_->exchanges, 2 + 7);
  }
}

TEST_F(Halo, SumsAreCutIntoMessages) {
  const Tensor x = at::randn({3, 7}, at::kDouble).t();
  EXPECT_TRUE(all_reduced(x, "sum", "alone", 5 * 8).equal(x));
  EXPECT_EQ(backend_->reductions, 5);
  EXPECT_TRUE(all_reduced(x, "sum", "alone", 1).equal(x));
  EXPECT_EQ(backend_->reductions, 5 + 21);
  EXPECT_TRUE(sum_over_ranks(x, "alone").equal(x));
  EXPECT_EQ(backend_->reductions, 5 + 21 + 1);
}

TEST_F(Halo, OfNothingIsEmpty) {
  const HaloRows none{at::empty({0}, at::kLong), {0}, {0}};
  const Tensor x = at::zeros({2, 0, 3}).requires_grad_();
  const Tensor halo = halo_exchange(x, none, "alone");
  EXPECT_EQ(halo.sizes(), at::IntArrayRef({2, 0, 3}));
  EXPECT_EQ(torch::autograd::grad({halo.sum()}, {x})[0].sizes(), x.sizes());
  EXPECT_EQ(halo_exchange(at::zeros({5, 0}), rows(), "alone").sizes(), at::IntArrayRef({3, 0}));
}

TEST_F(Halo, RefusesWhatCannotBeSent) {
  const Tensor x = at::zeros({5, 3});
  EXPECT_ERROR(start_halo_exchange(x[0], rows(), "alone"), "halo_exchange: x must be [..., n, C], got");
  EXPECT_ERROR(start_halo_exchange(x, rows(2), "alone"),
               "largest must be at least the 3 rows that this rank sends to or takes from another, got 2");
  EXPECT_ERROR(start_halo_exchange(x, rows(), "alone", 0), "message_bytes must be positive, got 0");
}

}  // namespace
}  // namespace topomask
