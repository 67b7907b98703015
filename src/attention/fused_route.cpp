#include "attention/fused.h"
#include "attention/routes.h"
#include "core/checks.h"

namespace topomask {

MaskTiles tiles_for(const char* op, const at::Tensor& q, int64_t value_dim, const Mask& mask, Weighting weighting) {
  const auto tiles = mask.tiles();
  TORCH_CHECK(tiles, op, ": route must be one the mask offers, got fused for mask ", mask.name());
  TORCH_CHECK(ops::fused_attention::supports(
                  {q.scalar_type(), q.size(-1), value_dim, tiles->kind, weighting, q.device().type()}),
              op, ": route must have a kernel for rows of ", q.size(-1), " and ", value_dim, " values in ",
              q.scalar_type(), " on ", q.device(), ", got fused for mask ", mask.name());
  return *tiles;
}

at::Tensor fused_route(const Problem& problem) {
  const MaskTiles tiles = tiles_for("attention", problem.q, problem.v.size(-1), *problem.mask, Weighting::kernel);
  return std::get<0>(ops::fused_attention::forward(problem.q, problem.k, problem.v, tiles,
                                                   {.eps = problem.eps, .nodes_first = problem.nodes_first}));
}

}  // namespace topomask
