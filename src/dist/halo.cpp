#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <numeric>

#include "core/checks.h"
#include "topomask/dist.h"

namespace topomask {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A collective of torch.distributed by name, and its result when it is there. Boxed, since the type of the group in
/// the schemas is not the same in every release.
template <class... Args>
Tensor collective(const char* name, Args&&... args) {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto op = dispatcher.findSchema({name, ""});
  TORCH_CHECK(op, "topomask: this torch has no ", name, "; it was built without torch.distributed");
  torch::jit::Stack stack{c10::IValue(std::forward<Args>(args))...};
  op->callBoxed(&stack);
  torch::jit::Stack waiting{stack.front()};
  dispatcher.findSchemaOrThrow("_c10d_functional::wait_tensor", "").callBoxed(&waiting);
  return waiting.front().toTensor();
}

Tensor all_to_all_rows(const Tensor& rows, const std::vector<int64_t>& send, const std::vector<int64_t>& recv,
                       const std::string& group) {
  return collective("_c10d_functional::all_to_all_single", rows.contiguous(), recv, send, group);
}

/// [..., rows, C] → [rows, ..., C] and back.
Tensor rows_first(const Tensor& x) {
  return x.movedim(-2, 0);
}

struct HaloExchange : torch::autograd::Function<HaloExchange> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& index, std::vector<int64_t> send,
                        std::vector<int64_t> recv, std::string group) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor out = all_to_all_rows(rows_first(x).index_select(0, index), send, recv, group).movedim(0, -2);
    ctx->saved_data["rows"] = x.size(-2);
    ctx->saved_data["send"] = std::move(send);
    ctx->saved_data["recv"] = std::move(recv);
    ctx->saved_data["group"] = std::move(group);
    ctx->save_for_backward({index});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const Tensor index = ctx->get_saved_variables()[0];
    const Tensor back = all_to_all_rows(rows_first(grads[0]), ctx->saved_data["recv"].toIntVector(),
                                        ctx->saved_data["send"].toIntVector(), ctx->saved_data["group"].toStringRef());
    std::vector<int64_t> shape = back.sizes().vec();
    shape[0] = ctx->saved_data["rows"].toInt();
    const Tensor result = at::zeros(shape, back.options()).index_add_(0, index, back);
    return {result.movedim(0, -2), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

struct SumOverRanks : torch::autograd::Function<SumOverRanks> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, std::string group) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor out = collective("_c10d_functional::all_reduce", x.contiguous(), std::string("sum"), group);
    ctx->saved_data["group"] = std::move(group);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const std::string& group = ctx->saved_data["group"].toStringRef();
    return {collective("_c10d_functional::all_reduce", grads[0].contiguous(), std::string("sum"), group), Tensor()};
  }
};

void check_halo(const Tensor& x, const HaloRows& rows) {
  constexpr const char* kOp = "halo_exchange";
  TORCH_CHECK(x.dim() >= 2, kOp, ": x must be [..., n, C], got ", describe(x));
  TORCH_CHECK(rows.send_index.defined() && rows.send_index.dim() == 1 && rows.send_index.scalar_type() == at::kLong,
              kOp, ": send_index must be Long [s], got ", describe(rows.send_index));
  const int64_t sent = std::accumulate(rows.send_splits.begin(), rows.send_splits.end(), int64_t{0});
  TORCH_CHECK(sent == rows.send_index.size(0), kOp, ": send_splits must sum to the ", rows.send_index.size(0),
              " rows of send_index, got ", sent);
  TORCH_CHECK(rows.send_splits.size() == rows.recv_splits.size(), kOp, ": recv_splits must have ",
              rows.send_splits.size(), " ranks as send_splits has, got ", rows.recv_splits.size());
}

}  // namespace

Tensor halo_exchange(const Tensor& x, const HaloRows& rows, const std::string& group) {
  check_halo(x, rows);
  return HaloExchange::apply(x, rows.send_index, rows.send_splits, rows.recv_splits, group);
}

Tensor sum_over_ranks(const Tensor& x, const std::string& group) {
  return SumOverRanks::apply(x, group);
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("halo_exchange(Tensor x, Tensor send_index, int[] send_splits, int[] recv_splits, str group) -> Tensor",
        [](const Tensor& x, const Tensor& send_index, std::vector<int64_t> send_splits,
           std::vector<int64_t> recv_splits, const std::string& group) {
          return halo_exchange(x, {send_index, std::move(send_splits), std::move(recv_splits)}, group);
        });
  m.def("sum_over_ranks(Tensor x, str group) -> Tensor",
        [](const Tensor& x, const std::string& group) { return sum_over_ranks(x, group); });
}

}  // namespace topomask
