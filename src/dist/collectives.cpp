#include "dist/collectives.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <numeric>

namespace topomask {
namespace {

/// Starts a collective of torch.distributed by name. Boxed, since the type of the group in the schemas is not the same
/// in every release.
template <class... Args>
at::Tensor started(const char* name, Args&&... args) {
  const auto op = c10::Dispatcher::singleton().findSchema({name, ""});
  TORCH_CHECK(op, "topomask: this torch has no ", name, "; it was built without torch.distributed");
  torch::jit::Stack stack{c10::IValue(std::forward<Args>(args))...};
  op->callBoxed(&stack);
  return stack.front().toTensor();
}

at::Tensor waited(const at::Tensor& pending) {
  torch::jit::Stack stack{pending};
  c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::wait_tensor", "").callBoxed(&stack);
  return stack.front().toTensor();
}

}  // namespace

AllToAll::AllToAll(const at::Tensor& rows, const std::vector<int64_t>& send, const std::vector<int64_t>& recv,
                   const std::string& group, int64_t largest, int64_t message_bytes)
    : shape_(rows.sizes().vec()), type_(rows.scalar_type()) {
  shape_[0] = std::accumulate(recv.begin(), recv.end(), int64_t{0});
  const int64_t row_bytes = c10::multiply_integers(rows.sizes().slice(1)) * rows.element_size();
  const at::Tensor bytes = rows.contiguous().view(-1).view(at::kByte).view({rows.size(0), row_bytes});
  const int64_t step = std::max<int64_t>(message_bytes / std::max<int64_t>(row_bytes, 1), 1);
  const std::vector<at::Tensor> segments = bytes.split_with_sizes(send);
  if (largest <= step) {
    rounds_.push_back({bytes, started("_c10d_functional::all_to_all_single", bytes, recv, send, group), recv});
    return;
  }
  for (int64_t begin = 0; begin < largest; begin += step) start(segments, recv, group, begin, step);
}

void AllToAll::start(const std::vector<at::Tensor>& segments, const std::vector<int64_t>& recv,
                     const std::string& group, int64_t begin, int64_t step) {
  const auto piece = [&](int64_t rows) { return std::clamp<int64_t>(rows - begin, 0, step); };
  std::vector<at::Tensor> pieces;
  std::vector<int64_t> send, expected;
  for (const at::Tensor& segment : segments) {
    send.push_back(piece(segment.size(0)));
    pieces.push_back(segment.narrow(0, std::min(begin, segment.size(0)), send.back()));
  }
  for (const int64_t rows : recv) expected.push_back(piece(rows));
  const at::Tensor sent = at::cat(pieces);
  rounds_.push_back(
      {sent, started("_c10d_functional::all_to_all_single", sent, expected, send, group), std::move(expected)});
}

at::Tensor AllToAll::wait() {
  for (Round& round : rounds_) round.received = waited(round.received);
  at::Tensor bytes = rounds_.front().received;
  if (rounds_.size() > 1) {
    std::vector<std::vector<at::Tensor>> parts;
    for (const Round& round : rounds_) parts.push_back(round.received.split_with_sizes(round.splits));
    std::vector<at::Tensor> pieces;
    for (size_t rank = 0; rank < parts.front().size(); ++rank) {
      for (const auto& part : parts) pieces.push_back(part[rank]);
    }
    bytes = at::cat(pieces);
  }
  rounds_.clear();
  return bytes.view(-1).view(type_).view(shape_);
}

at::Tensor all_reduced(const at::Tensor& x, const std::string& op, const std::string& group, int64_t message_bytes) {
  const int64_t step = std::max<int64_t>(message_bytes / x.element_size(), 1);
  std::vector<at::Tensor> pieces = x.contiguous().view(-1).split(step);
  for (at::Tensor& piece : pieces) piece = started("_c10d_functional::all_reduce", piece, op, group);
  for (at::Tensor& piece : pieces) piece = waited(piece);
  return (pieces.size() == 1 ? pieces.front() : at::cat(pieces)).view(x.sizes());
}

}  // namespace topomask
