#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/checks.h"
#include "dist/collectives.h"
#include "topomask/dist.h"

namespace topomask {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What the two halves of an exchange share, forward and then backward.
struct HaloExchange::Travel : torch::CustomClassHolder {
  Travel(HaloRows r, std::string g, int64_t bytes) : rows(std::move(r)), group(std::move(g)), message_bytes(bytes) {}

  void start(const Tensor& sent, bool back) {
    const auto &to = back ? rows.recv_splits : rows.send_splits, &from = back ? rows.send_splits : rows.recv_splits;
    under_way.emplace(sent, to, from, group, rows.largest, message_bytes);
  }

  Tensor finish() {
    TORCH_CHECK(under_way,
                "halo_exchange: every rank must use its halo in what it differentiates, since gradients of the "
                "halo travel between all ranks; on this rank none were sent");
    const Tensor received = under_way->wait();
    under_way.reset();
    return received;
  }

  HaloRows rows;
  std::string group;
  int64_t message_bytes;
  std::optional<AllToAll> under_way;
};

namespace {

using TravelPtr = c10::intrusive_ptr<HaloExchange::Travel>;

/// [..., rows, C] → [rows, ..., C].
Tensor rows_first(const Tensor& x) {
  return x.movedim(-2, 0);
}

TravelPtr travel_of(AutogradContext* ctx) {
  return c10::static_intrusive_pointer_cast<HaloExchange::Travel>(ctx->saved_data["travel"].toCapsule());
}

/// Forward: starts to send. Backward: waits for the gradients of what was sent, and adds them to those of x. Returns
/// what is sent, [s, ..., C], and x.
struct StartHalo : torch::autograd::Function<StartHalo> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const TravelPtr& travel) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor sent = rows_first(x).index_select(0, travel->rows.send_index);
    travel->start(sent, /*back=*/false);
    ctx->set_materialize_grads(false);
    ctx->saved_data["travel"] = c10::IValue::make_capsule(travel);
    ctx->saved_data["shape"] = x.sizes();
    return {sent, x.view_as(x)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const TravelPtr travel = travel_of(ctx);
    const Tensor rows = travel->finish().movedim(0, -2);
    const Tensor& index = travel->rows.send_index;
    const Tensor& own = grads[1];
    if (own.defined()) return {own.index_add(-2, index, rows), Tensor()};
    return {at::zeros(ctx->saved_data["shape"].toIntVector(), rows.options()).index_add_(-2, index, rows), Tensor()};
  }
};

/// Forward: waits for the rows of others. Backward: starts to send their gradients back. The backward pass of what is
/// computed between the two runs between them too.
struct FinishHalo : torch::autograd::Function<FinishHalo> {
  static Tensor forward(AutogradContext* ctx, const Tensor& sent, const TravelPtr& travel) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->saved_data["travel"] = c10::IValue::make_capsule(travel);
    ctx->saved_data["shape"] = sent.sizes();
    return travel->finish().movedim(0, -2);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    travel_of(ctx)->start(rows_first(grads[0]), /*back=*/true);
    // StartHalo takes the rows from the exchange; these are of the right shape only.
    return {at::empty(ctx->saved_data["shape"].toIntVector(), grads[0].options()), Tensor()};
  }
};

struct SumOverRanks : torch::autograd::Function<SumOverRanks> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, std::string group) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor out = all_reduced(x, "sum", group, kMessageBytes);
    ctx->saved_data["group"] = std::move(group);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {all_reduced(grads[0], "sum", ctx->saved_data["group"].toStringRef(), kMessageBytes), Tensor()};
  }
};

void check_halo(const Tensor& x, const HaloRows& rows, int64_t message_bytes) {
  constexpr const char* kOp = "halo_exchange";
  TORCH_CHECK(x.dim() >= 2, kOp, ": x must be [..., n, C], got ", describe(x));
  TORCH_CHECK(rows.send_index.defined() && rows.send_index.dim() == 1 && rows.send_index.scalar_type() == at::kLong,
              kOp, ": send_index must be Long [s], got ", describe(rows.send_index));
  const int64_t sent = std::accumulate(rows.send_splits.begin(), rows.send_splits.end(), int64_t{0});
  TORCH_CHECK(sent == rows.send_index.size(0), kOp, ": send_splits must sum to the ", rows.send_index.size(0),
              " rows of send_index, got ", sent);
  TORCH_CHECK(rows.send_splits.size() == rows.recv_splits.size(), kOp, ": recv_splits must have ",
              rows.send_splits.size(), " ranks as send_splits has, got ", rows.recv_splits.size());
  for (const auto* splits : {&rows.send_splits, &rows.recv_splits}) {
    const int64_t most = splits->empty() ? 0 : *std::max_element(splits->begin(), splits->end());
    TORCH_CHECK(rows.largest < 0 || rows.largest >= most, kOp, ": largest must be at least the ", most,
                " rows that this rank sends to or takes from another, got ", rows.largest);
  }
  TORCH_CHECK(message_bytes >= 1, kOp, ": message_bytes must be positive, got ", message_bytes);
}

}  // namespace

HaloExchange::HaloExchange(const Tensor& x, HaloRows rows, const std::string& group, int64_t message_bytes) {
  check_halo(x, rows, message_bytes);
  if (rows.largest < 0) {
    int64_t most = 0;
    for (const int64_t count : rows.send_splits) most = std::max(most, count);
    const Tensor mine = at::full({1}, most, rows.send_index.options());
    rows.largest = all_reduced(mine, "max", group, kMessageBytes).item<int64_t>();
  }
  travel_ = c10::make_intrusive<Travel>(std::move(rows), group, message_bytes);
  const variable_list made = StartHalo::apply(x, travel_);
  sent_ = made[0];
  own_ = made[1];
}

HaloExchange::~HaloExchange() = default;
HaloExchange::HaloExchange(HaloExchange&&) noexcept = default;
HaloExchange& HaloExchange::operator=(HaloExchange&&) noexcept = default;

Tensor HaloExchange::wait() {
  if (!halo_.defined()) halo_ = FinishHalo::apply(sent_, travel_);
  return halo_;
}

HaloExchange start_halo_exchange(const Tensor& x, const HaloRows& rows, const std::string& group,
                                 int64_t message_bytes) {
  return HaloExchange(x, rows, group, message_bytes);
}

Tensor halo_exchange(const Tensor& x, const HaloRows& rows, const std::string& group, int64_t message_bytes) {
  return start_halo_exchange(x, rows, group, message_bytes).wait();
}

Tensor sum_over_ranks(const Tensor& x, const std::string& group) {
  return SumOverRanks::apply(x, group);
}

namespace {

/// An exchange that the caller of the operator holds.
struct HeldExchange : torch::CustomClassHolder {
  explicit HeldExchange(HaloExchange e) : exchange(std::move(e)) {}
  HaloExchange exchange;
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  using Held = c10::intrusive_ptr<HeldExchange>;
  using Splits = std::vector<int64_t>;
  m.class_<HeldExchange>("HaloExchange")
      .def("own", [](const Held& held) { return held->exchange.own(); })
      .def("wait", [](const Held& held) { return held->exchange.wait(); });
  m.def(
      "start_halo_exchange(Tensor x, Tensor send_index, int[] send_splits, int[] recv_splits, str group, "
      "int largest=-1, int message_bytes=268435456) -> __torch__.torch.classes.topomask.HaloExchange",
      [](const Tensor& x, const Tensor& send_index, Splits send, Splits recv, const std::string& group, int64_t largest,
         int64_t message_bytes) {
        const HaloRows rows{send_index, std::move(send), std::move(recv), largest};
        return c10::make_intrusive<HeldExchange>(start_halo_exchange(x, rows, group, message_bytes));
      });
  m.def(
      "halo_exchange(Tensor x, Tensor send_index, int[] send_splits, int[] recv_splits, str group, "
      "int largest=-1, int message_bytes=268435456) -> Tensor",
      [](const Tensor& x, const Tensor& send_index, Splits send, Splits recv, const std::string& group, int64_t largest,
         int64_t message_bytes) {
        return halo_exchange(x, {send_index, std::move(send), std::move(recv), largest}, group, message_bytes);
      });
  m.def("sum_over_ranks(Tensor x, str group) -> Tensor",
        [](const Tensor& x, const std::string& group) { return sum_over_ranks(x, group); });
}

}  // namespace topomask
