#include "walks/step_kernel.h"

#include "core/simd.h"
#include "core/walk_step.h"

namespace topomask {
namespace {

template <class S>
TOPOMASK_INLINE void walk_words_body(const WalkWordsArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  const uint32_t* start = args.start;
  const uint32_t* number = args.number;
  uint32_t* halting0 = args.words.halting[0];
  uint32_t* halting1 = args.words.halting[1];
  uint32_t* direction0 = args.words.direction[0];
  uint32_t* direction1 = args.words.direction[1];
  // The compiler makes vectors of these loops once it is told that the arrays do not overlap.
  const PhiloxKey key = args.key;
  const uint32_t pair = args.pair;
#pragma GCC ivdep
  for (int64_t j = begin; j < end; ++j) {
    const PhiloxWords words = walk_words_of(start[j], number[j], pair, key);
    halting0[j] = halting_word(words, 0);
    direction0[j] = direction_word(words, 0);
    halting1[j] = halting_word(words, 1);
    direction1[j] = direction_word(words, 1);
  }
  if (!args.antithetic) return;
#pragma GCC ivdep
  for (int64_t j = begin; j < end; ++j) {
    const PhiloxWords words = walk_words_of(start[j], even_of_couple(number[j]), pair, key);
    const uint32_t half = half_for_odd(number[j]);
    halting0[j] = halting_word(words, 0) + half;
    halting1[j] = halting_word(words, 1) + half;
  }
}

template <bool kUniform, class T>
int64_t hop(const WalkHopArgs<T>& args) {
  const Walkers<T> from = args.from, to = args.to;
  int64_t arrived = 0;
  for (int64_t k = 0; k < args.count; ++k) {
    const uint32_t j = args.survivor[k], node = from.position[j], origin = args.origin[j];
    const int64_t row = args.offsets[node];
    const auto degree = static_cast<uint32_t>(args.offsets[node + 1] - row);
    if (degree == 0) continue;
    const int64_t entry =
        step_entry(row, degree, args.direction[origin], kUniform ? nullptr : args.threshold, args.alias);
    to.start[arrived] = from.start[j];
    to.number[arrived] = from.number[j];
    to.position[arrived] = static_cast<uint32_t>(args.columns[entry]);
    to.load[arrived] = step_load(from.load[j], args.factors[entry], args.scale, degree, kUniform);
    args.to_origin[arrived] = origin;
    ++arrived;
  }
  return arrived;
}

}  // namespace

TOPOMASK_SIMD_VERSIONS(walk_words, WalkWordsArgs, float)

int64_t walk_survivors(const uint32_t* halting, const uint32_t* origin, int64_t count, uint32_t halt_below,
                       uint32_t* survivor) {
  // Halting is a coin that no branch predictor knows: every place is written, then kept or overwritten.
  int64_t kept = 0;
  for (int64_t j = 0; j < count; ++j) {
    survivor[kept] = static_cast<uint32_t>(j);
    kept += halting[origin[j]] >= halt_below;
  }
  return kept;
}

int64_t walk_hop(const WalkHopArgs<float>& args) {
  return args.threshold ? hop<false>(args) : hop<true>(args);
}
int64_t walk_hop(const WalkHopArgs<double>& args) {
  return args.threshold ? hop<false>(args) : hop<true>(args);
}

}  // namespace topomask
