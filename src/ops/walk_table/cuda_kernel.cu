#include "core/walk_step.h"
#include "ops/walk_table/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kWarp = 32, kThreads = 256;
constexpr size_t kShared = 48 * 1024;
constexpr uint32_t kGone = 0xFFFFFFFFu;

inline unsigned blocks_for(int64_t items, int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

__device__ __forceinline__ uint64_t visit_key(uint32_t column, int hop) {
  return static_cast<uint64_t>(column) << kHopBits | static_cast<uint32_t>(hop);
}

/// Whether a walk of `hop` hops halts: the words of two hops come from one counter.
template <class T>
__device__ __forceinline__ bool halts(const WalkArgs<T>& a, uint32_t start, uint32_t number, int hop) {
  if (a.halt_below[hop] == 0) return false;
  const uint32_t whose = a.antithetic ? even_of_couple(number) : number;
  const PhiloxWords words = walk_words_of(start, whose, static_cast<uint32_t>(hop / 2), a.key);
  return halting_word(words, hop) + (a.antithetic ? half_for_odd(number) : 0) < a.halt_below[hop];
}

/// One thread walks alone.
template <class T, bool kWrite>
__global__ void __launch_bounds__(kThreads)
    walk_kernel(const WalkArgs<T> a, int32_t* visits, const int64_t* ends, uint64_t* keys, T* loads) {
  const int64_t walk = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (walk >= a.nodes * a.walkers) return;
  const auto start = static_cast<uint32_t>(a.first_node + walk / a.walkers);
  const uint32_t number = a.first_walker + static_cast<uint32_t>(walk % a.walkers);
  int64_t place = 0;
  if constexpr (kWrite) place = ends[walk] - visits[walk];
  uint32_t position = start;
  T load = 1;
  if constexpr (kWrite) {
    keys[place] = visit_key(position, 0);
    loads[place] = load;
  }
  PhiloxWords words{};
  int hop = 0;
  for (; hop < a.max_hops; ++hop) {
    if (hop % 2 == 0) words = walk_words_of(start, number, static_cast<uint32_t>(hop / 2), a.key);
    if (a.antithetic ? halts(a, start, number, hop) : halting_word(words, hop) < a.halt_below[hop]) break;
    const int64_t row = a.offsets[position];
    const auto degree = static_cast<uint32_t>(a.offsets[position + 1] - row);
    if (degree == 0) break;
    const int64_t entry = step_entry(row, degree, direction_word(words, hop), a.threshold, a.alias);
    position = static_cast<uint32_t>(a.columns[entry]);
    if constexpr (kWrite) {
      load = step_load(load, a.factors[entry], a.scale[hop], degree, a.threshold == nullptr);
      keys[place + hop + 1] = visit_key(position, hop + 1);
      loads[place + hop + 1] = load;
    }
  }
  if constexpr (!kWrite) visits[walk] = hop + 1;
}

/// What a warp knows of an ensemble, in shared memory.
template <class T>
struct Ensemble {
  uint32_t* now;  ///< where each walker is; kGone once it has halted
  uint32_t* next;
  T* load;
  static size_t bytes(int64_t walkers) { return static_cast<size_t>(walkers) * (2 * sizeof(uint32_t) + sizeof(T)); }
};

/// The neighbour that the j-th walker of a block leaves to: draw j of Fisher and Yates, whose swaps are followed back.
__device__ __forceinline__ uint32_t drawn(PhiloxKey key, uint32_t start, uint32_t first, int hop, uint32_t j,
                                          uint32_t degree) {
  PhiloxWords words{};
  uint32_t known = kGone, place = kGone;
  for (int64_t s = j; s >= 0; --s) {
    const auto step = static_cast<uint32_t>(s);
    if (step / 4 != known) {
      known = step / 4;
      words = repelling_words(start, first, static_cast<uint32_t>(hop), step, key);
    }
    const uint32_t swapped = step + random_below(repelling_word(words, step), degree - step);
    if (step == j) {
      place = swapped;
    } else if (place == swapped) {
      place = step;
    }
  }
  return place;
}

/// A warp walks one ensemble from one node.
template <class T, bool kWrite>
__global__ void __launch_bounds__(kThreads)
    repelling_kernel(const WalkArgs<T> a, int32_t* visits, const int64_t* ends, uint64_t* keys, T* loads) {
  extern __shared__ char shared[];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const int64_t ensembles = a.walkers / a.ensemble;
  const int64_t which = static_cast<int64_t>(blockIdx.x) * warps + warp;
  if (which >= a.nodes * ensembles) return;
  const auto size = static_cast<int>(a.ensemble);
  const auto start = static_cast<uint32_t>(a.first_node + which / ensembles);
  const int64_t first_walk = which / ensembles * a.walkers + which % ensembles * a.ensemble;
  const uint32_t first_number = a.first_walker + static_cast<uint32_t>(which % ensembles * a.ensemble);
  Ensemble<T> e;
  e.load = reinterpret_cast<T*>(shared) + warp * size;
  e.now = reinterpret_cast<uint32_t*>(shared + static_cast<size_t>(warps) * size * sizeof(T)) + 2 * warp * size;
  e.next = e.now + size;
  for (int w = lane; w < size; w += kWarp) {
    e.now[w] = start;
    e.load[w] = 1;
    if constexpr (kWrite) {
      const int64_t place = ends[first_walk + w] - visits[first_walk + w];
      keys[place] = visit_key(start, 0);
      loads[place] = 1;
    } else {
      visits[first_walk + w] = 1;
    }
  }
  for (int hop = 0; hop < a.max_hops; ++hop) {
    bool alive = false;
    __syncwarp();
    for (int w = lane; w < size; w += kWarp) {
      if (e.now[w] != kGone && halts(a, start, first_number + w, hop)) e.now[w] = kGone;
      alive = alive || e.now[w] != kGone;
    }
    if (!__any_sync(0xFFFFFFFFu, alive)) break;
    __syncwarp();
    for (int w = lane; w < size; w += kWarp) {
      const uint32_t node = e.now[w];
      e.next[w] = kGone;
      if (node == kGone) continue;
      const int64_t row = a.offsets[node];
      const auto degree = static_cast<uint32_t>(a.offsets[node + 1] - row);
      if (degree == 0) continue;
      // Those on one node, by number, form blocks of its degree: which block, and which place in it.
      uint32_t place = 0, block = 0;
      for (int v = 0; v < w; ++v) {
        if (e.now[v] != node) continue;
        if (place == 0) block = v;
        place = place + 1 == degree ? 0 : place + 1;
      }
      if (place == 0) block = w;
      const int64_t entry = row + drawn(a.key, start, first_number + block, hop, place, degree);
      e.next[w] = static_cast<uint32_t>(a.columns[entry]);
      if constexpr (kWrite) {
        e.load[w] = step_load(e.load[w], a.factors[entry], a.scale[hop], degree, true);
        const int64_t at = ends[first_walk + w] - visits[first_walk + w] + hop + 1;
        keys[at] = visit_key(e.next[w], hop + 1);
        loads[at] = e.load[w];
      } else {
        visits[first_walk + w] = hop + 2;
      }
    }
    uint32_t* const moved = e.next;
    e.next = e.now;
    e.now = moved;
  }
}

template <class T, bool kWrite>
void run(const WalkArgs<T>& args, int32_t* visits, const int64_t* ends, uint64_t* keys, T* loads, cudaStream_t stream) {
  const int64_t walks = args.nodes * args.walkers;
  if (walks == 0) return;
  if (args.ensemble == 0) {
    walk_kernel<T, kWrite><<<blocks_for(walks, kThreads), kThreads, 0, stream>>>(args, visits, ends, keys, loads);
    return;
  }
  const size_t bytes = Ensemble<T>::bytes(args.ensemble);
  int warps = kThreads / kWarp;
  while (warps > 1 && warps * bytes > kShared) warps /= 2;
  const unsigned blocks = blocks_for(walks / args.ensemble, warps);
  repelling_kernel<T, kWrite><<<blocks, warps * kWarp, warps * bytes, stream>>>(args, visits, ends, keys, loads);
}

}  // namespace

template <class T>
void count_visits(const WalkArgs<T>& args, int32_t* visits, cudaStream_t stream) {
  run<T, false>(args, visits, nullptr, nullptr, nullptr, stream);
}

template <class T>
void write_visits(const WalkArgs<T>& args, const int64_t* ends, const int32_t* visits, uint64_t* keys, T* loads,
                  cudaStream_t stream) {
  run<T, true>(args, const_cast<int32_t*>(visits), ends, keys, loads, stream);
}

template <class T>
int64_t largest_ensemble() {
  return static_cast<int64_t>(kShared / Ensemble<T>::bytes(1));
}

#define TOPOMASK_WALKS(T)                                                                                      \
  template void count_visits(const WalkArgs<T>&, int32_t*, cudaStream_t);                                      \
  template void write_visits(const WalkArgs<T>&, const int64_t*, const int32_t*, uint64_t*, T*, cudaStream_t); \
  template int64_t largest_ensemble<T>();
TOPOMASK_WALKS(float)
TOPOMASK_WALKS(double)

}  // namespace topomask::cuda
