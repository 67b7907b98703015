#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Rows that travel between all ranks of a group. Bytes travel as bytes, whatever their dtype, in messages of at most
/// message_bytes between two ranks, but of one row at least.
class AllToAll {
 public:
  /// Starts to send `send[r]` rows of `rows` [Σ send, ...] to each rank r, in their order; returns at once. largest:
  /// the most rows that one rank sends another, the same on every rank, which decides into how many messages they are
  /// cut.
  AllToAll(const at::Tensor& rows, const std::vector<int64_t>& send, const std::vector<int64_t>& recv,
           const std::string& group, int64_t largest, int64_t message_bytes);

  /// The rows received, [Σ recv, ...], by rank.
  at::Tensor wait();

 private:
  struct Round {
    at::Tensor sent;  // kept alive until its bytes have left
    at::Tensor received;
    std::vector<int64_t> splits;
  };
  void start(const std::vector<at::Tensor>& segments, const std::vector<int64_t>& recv, const std::string& group,
             int64_t begin, int64_t step);

  std::vector<int64_t> shape_;  // of what is received
  at::ScalarType type_;
  std::vector<Round> rounds_;
};

/// x with `op` ("sum", "max") over the ranks, in pieces of at most message_bytes.
at::Tensor all_reduced(const at::Tensor& x, const std::string& op, const std::string& group, int64_t message_bytes);

}  // namespace topomask
