#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/mask.h"

namespace TOPOMASK_API topomask {

/// How masked kernel attention is computed; every route gives the same answer to rounding.
enum class Route {
  automatic,  ///< the planner chooses
  dense,      ///< (M ⊙ φ(Q)φ(K)ᵀ)V with N×N matrices: N²(m+d); automatic only where they are small
  sparse,     ///< over the nonzeros of M: nnz(M)(m+d), one fused kernel
  features,   ///< through M = Φ₁Φ₂ᵀ: nnz(Φ₁, Φ₂)·m(d+1)
  operator_,  ///< through M·X with m(d+1) columns, in slices
  fused,      ///< as dense, tile by tile and without N×N matrices: N²(m+d), one fused kernel
  strips,     ///< as dense, some rows of M at a time, for any mask: N²(m+d) and N products M·x
};

const char* to_string(Route route);

/// The problem, in the planner's terms. Counts are >= 0; heads and threads >= 1.
struct Workload {
  int64_t slices = 1;  ///< B·H: batch times heads
  int64_t heads = 1;   ///< H of the mask
  int64_t nodes = 0;
  int64_t features = 0;               ///< m
  int64_t value_dim = 0;              ///< d
  at::ScalarType dtype = at::kFloat;  ///< of q, k, v: float64, float32, bfloat16, or on cuda float16
  at::DeviceType device = at::kCPU;   ///< cpu or cuda
  int threads = 1;                    ///< of the CPU
  bool training = false;              ///< gradients are wanted: the backward pass counts too
};

struct RouteEstimate {
  Route route = Route::automatic;
  bool available = false;
  double seconds = 0;
  double bytes = 0;    ///< beyond inputs and output
  std::string reason;  ///< why it is not available or not chosen
};

struct Plan {
  Route route = Route::automatic;
  std::string mask;
  Workload workload;
  int64_t memory_budget = 0;
  std::vector<RouteEstimate> estimates;
  std::string reason;  ///< why this route
};

/// The default of AttentionOptions::memory_budget: 4 GiB.
inline constexpr int64_t kDefaultMemoryBudget = int64_t{1} << 32;

/// Picks the route with the least estimated time among those inside the budget; an error, with the table, where none
/// is.
Plan plan_attention(const Mask& mask, const Workload& workload, int64_t memory_budget = kDefaultMemoryBudget);

/// The same for softmax attention, which has the routes fused, sparse, strips and dense; with an additive mask, all but
/// sparse.
Plan plan_softmax(const Mask& mask, const Workload& workload, bool additive,
                  int64_t memory_budget = kDefaultMemoryBudget);

std::ostream& operator<<(std::ostream& out, const Plan& plan);

}  // namespace topomask
