#include <ATen/core/grad_mode.h>

#include "attention/fused.h"
#include "attention/routes.h"
#include "core/checks.h"

namespace topomask {

MaskTiles tiles_for(const char* op, const at::Tensor& q, int64_t value_dim, const Mask& mask, Weighting weighting) {
  const auto tiles = mask.tiles();
  TORCH_CHECK(tiles, op, ": route must be one the mask offers, got fused for mask ", mask.name());
  const ops::fused_attention::Problem problem{q.scalar_type(), q.size(-1), value_dim,
                                              tiles->kind,     weighting,  q.device().type()};
  TORCH_CHECK(ops::fused_attention::supports(problem), op, ": route must have a kernel for rows of ", q.size(-1),
              " and ", value_dim, " values in ", q.scalar_type(), " on ", q.device(), ", got fused for mask ",
              mask.name());
  // Refused here, since the backward pass would notice only after everything before it. Nothing is learned of a mask
  // under which every token is global.
  const int64_t nodes = q.size(-2), most = ops::fused_attention::most_learned_nodes(problem);
  const bool learned =
      tiles->values.defined() && at::GradMode::is_enabled() && tiles->values.requires_grad() && tiles->globals < nodes;
  TORCH_CHECK(!learned || nodes <= most, op, ": q must have at most ", most,
              " nodes where the offsets of a Toeplitz mask are learned by the route fused on ", q.device(), ", got ",
              nodes, " for mask ", mask.name());
  return *tiles;
}

at::Tensor fused_route(const Problem& problem) {
  const MaskTiles tiles = tiles_for("attention", problem.q, problem.v.size(-1), *problem.mask, Weighting::kernel);
  return std::get<0>(ops::fused_attention::forward(problem.q, problem.k, problem.v, tiles,
                                                   {.eps = problem.eps, .nodes_first = problem.nodes_first}));
}

}  // namespace topomask
