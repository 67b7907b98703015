#pragma once

#include <functional>
#include <string>

#include "torture/draw.h"

namespace topomask::torture {

/// A tensor in some layout: a leaf, and the view of it that is handed over.
struct DrawnInput {
  std::string name;
  at::Tensor leaf;  ///< on the CPU, contiguous, in the dtype of the case
  std::function<at::Tensor(const at::Tensor&)> view;
  std::string layout;

  /// What attention gets: the view of the leaf, wherever that is moved to first.
  at::Tensor there(at::Device device) const;
};

/// [leading…, nodes, width] of normal numbers times `gain`.
DrawnInput draw_input(Draw& draw, const std::string& name, const std::vector<int64_t>& leading, int64_t nodes,
                      int64_t width, at::ScalarType dtype, double gain);

}  // namespace topomask::torture
