#include <ATen/ATen.h>

#include <cmath>
#include <string_view>

#include "data/graphs/features.h"
#include "data/random_order.h"

namespace topomask {
namespace {

constexpr size_t kLongestNgram = 3;
constexpr char kWordStart = '\x02', kWordEnd = '\x03';  // control characters, which no word contains

/// FNV-1a (Fowler, Noll and Vo), 64 bits.
uint64_t hash_of(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// Where the characters of UTF-8 text start, and its end. Bytes that continue nothing are part of the one before.
void find_characters(std::string_view text, std::vector<size_t>& starts) {
  starts.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == 0 || (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) starts.push_back(i);
  }
  starts.push_back(text.size());
}

}  // namespace

at::Tensor ngram_features(const std::string& forms, const std::vector<int64_t>& ends, int64_t columns, uint64_t seed) {
  const auto words = static_cast<int64_t>(ends.size());
  at::Tensor features = at::zeros({words, columns});
  float* out = features.mutable_data_ptr<float>();
  const PhiloxKey key = philox_key(seed);
  std::string marked;
  std::vector<size_t> starts;
  for (int64_t w = 0, first = 0; w < words; first = ends[static_cast<size_t>(w++)], out += columns) {
    const int64_t last = ends[static_cast<size_t>(w)];
    marked.assign(1, kWordStart);
    marked.append(forms, static_cast<size_t>(first), static_cast<size_t>(last - first));
    marked += kWordEnd;
    find_characters(marked, starts);
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      for (size_t j = i + 1; j < starts.size() && j <= i + kLongestNgram; ++j) {
        const uint64_t hash = hash_of(std::string_view(marked).substr(starts[i], starts[j] - starts[i]));
        const PhiloxWords random = philox(
            {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32), 0, static_cast<uint32_t>(DrawFor::ngrams)},
            key);
        out[random_below(random.a, static_cast<uint32_t>(columns))] += (random.b & 1) != 0 ? 1.0F : -1.0F;
      }
    }
    double squares = 0;
    for (int64_t c = 0; c < columns; ++c) squares += double{out[c]} * double{out[c]};
    if (squares > 0) {  // signs may cancel
      const auto scale = static_cast<float>(1 / std::sqrt(squares));
      for (int64_t c = 0; c < columns; ++c) out[c] *= scale;
    }
  }
  return features;
}

}  // namespace topomask
