#include "dist/checksum.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "dist/fingerprint.h"

namespace topomask {

int64_t checksum(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().cpu().contiguous();
  uint64_t header = mixed_bits(static_cast<uint64_t>(plain.scalar_type()));
  for (const int64_t size : plain.sizes()) header = mixed_bits(header ^ static_cast<uint64_t>(size));
  const auto* bytes = static_cast<const unsigned char*>(plain.const_data_ptr());
  const auto length = static_cast<int64_t>(plain.nbytes());
  constexpr int64_t kWord = sizeof(uint64_t), kTask = 1 << 16;
  const uint64_t sum = at::parallel_reduce(
      0, (length + kWord - 1) / kWord, kTask, uint64_t{0},
      [&](int64_t begin, int64_t end, uint64_t total) {
        for (int64_t i = begin; i < end; ++i) {
          uint64_t word = 0;
          std::memcpy(&word, bytes + i * kWord, static_cast<size_t>(std::min(kWord, length - i * kWord)));
          total += mixed_bits(word ^ mixed_bits(static_cast<uint64_t>(i)));
        }
        return total;
      },
      std::plus<>());
  return static_cast<int64_t>(header + sum);
}

}  // namespace topomask
