#include "torture/inputs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace topomask::torture {

at::Tensor DrawnInput::there(at::Device device) const {
  return view(leaf.to(device));
}

DrawnInput draw_input(Draw& draw, const std::string& name, const std::vector<int64_t>& leading, int64_t nodes,
                      int64_t width, at::ScalarType dtype, double gain) {
  const Draw::Scope scope(draw, name);
  std::vector<int64_t> shape = leading;
  shape.insert(shape.end(), {nodes, width});
  const auto rank = static_cast<int64_t>(shape.size());
  DrawnInput input{name, {}, [](const at::Tensor& x) { return x; }, "plain"};
  std::vector<int64_t> stored = shape;
  switch (draw.below("layout", 9)) {
    case 2:
      std::swap(stored[rank - 1], stored[rank - 2]);
      input.view = [](const at::Tensor& x) { return x.mT(); };
      input.layout = "transposed";
      break;
    case 3:
      stored[rank - 1] = 2 * width + 1;
      stored[rank - 2] = nodes + 2;
      input.view = [width, nodes](const at::Tensor& x) {
        return x.slice(-1, 1, 2 * width + 1, 2).slice(-2, 1, nodes + 1);
      };
      input.layout = "sliced";
      break;
    case 4:
      if (leading.empty()) break;
      std::fill(stored.begin(), stored.end() - 2, 1);
      input.view = [shape](const at::Tensor& x) { return x.expand(shape); };
      input.layout = "expanded over batch and heads";
      break;
    case 5:
      std::reverse(stored.begin(), stored.end());
      input.view = [rank](const at::Tensor& x) {
        std::vector<int64_t> order(rank);
        std::iota(order.rbegin(), order.rend(), 0);
        return x.permute(order);
      };
      input.layout = "dimensions reversed in memory";
      break;
    case 6:
      if (leading.empty()) break;
      std::swap(stored[rank - 2], stored[rank - 3]);
      input.view = [](const at::Tensor& x) { return x.transpose(-2, -3); };
      input.layout = "heads inside nodes";
      break;
    case 7:
      stored[rank - 2] = 1;
      input.view = [shape](const at::Tensor& x) { return x.expand(shape); };
      input.layout = "expanded over nodes";
      break;
    case 8:
      stored[rank - 1] = 3 * width;
      input.view = [width](const at::Tensor& x) { return x.narrow(-1, width, width); };
      input.layout = "a third of a wider tensor";
      break;
    default:
      break;
  }
  input.leaf = (draw.normal("values", stored) * gain).to(dtype).requires_grad_(draw.chance("grad", 80));
  return input;
}

}  // namespace topomask::torture
