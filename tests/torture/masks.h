#pragma once

#include <functional>
#include <string>
#include <vector>

#include "topomask/mask.h"
#include "torture/draw.h"
#include "torture/graphs.h"
#include "torture/reference.h"

namespace topomask::torture {

/// A mask of the library and its definition.
struct DrawnMask {
  std::string family = {};
  std::string what;                     ///< family, options and graph
  MaskPtr mask;                         ///< on the CPU, in the dtype it was asked for
  std::vector<at::Tensor> leaves = {};  ///< its parameters: leaves on the CPU, some of which require grad
  std::vector<std::string> names = {};  ///< of the leaves
  /// M from the leaves in double.
  std::function<MaskValue(const std::vector<at::Tensor>&)> reference;
  double accuracy = 0;  ///< error of an entry besides rounding, as a part of its magnitude: a tolerance that was asked
  bool follows = true;  ///< a change of a leaf in place changes the mask
  bool through_float = false;  ///< gradients of float64 parameters are float32 on the way
  /// Gradients of parameters are accurate relative to the largest one only (FFT).
  bool normwise = false;
  /// Error of ∂M_ij/∂θ in addition to that of the sums in a gradient, as a part of magnitude_ij/|θ|: a derivative that
  /// is zero but for cancellation has it.
  double slope = 1e-2;
};

/// What a family draws from.
class MaskDraw {
 public:
  MaskDraw(Draw& draw, at::ScalarType dtype) : draw(draw), dtype(dtype) {}

  Draw& draw;
  const at::ScalarType dtype;

  /// `values` rounded to the dtype as a leaf; the reference finds them in the order in which they were made.
  at::Tensor leaf(const std::string& name, const at::Tensor& values);
  /// The shape with a head dimension in front, or not: [], [1] and [H] are drawn.
  std::vector<int64_t> per_head(std::vector<int64_t> shape);
  /// The mask with what was drawn so far.
  DrawnMask finish(std::string what, MaskPtr mask,
                   std::function<MaskValue(const std::vector<at::Tensor>&)> reference) const;

 private:
  std::vector<at::Tensor> leaves_;
  std::vector<std::string> names_;
};

/// The edges of a graph, each undirected one once, and which of them each stored entry of W is.
struct EdgeList {
  at::Tensor from, to, entry;  ///< int64

  at::Tensor dense(const at::Tensor& weights, int64_t nodes, bool directed) const;  ///< W from weights [E]
};
EdgeList edge_list(const DrawnGraph& graph);

/// The graph with the weights of its edges as a leaf, and how the leaf becomes W.
struct LearntWeights {
  Graph graph;
  std::function<at::Tensor(const at::Tensor&)> dense;
};
LearntWeights learn_weights(MaskDraw& d, const DrawnGraph& graph);

struct Family {
  const char* name;
  DrawnMask (*draw)(MaskDraw&);
};

// The families, a list for each file.
std::vector<Family> basic_families();
std::vector<Family> structured_families();
std::vector<Family> forest_families();
std::vector<Family> walk_families();
std::vector<Family> encoding_families();
const std::vector<Family>& families();

/// Any family, with global tokens around it or not, alone or in a head of its own, in the dtype asked for: made in it,
/// or moved to it.
DrawnMask draw_mask(Draw& draw, at::ScalarType dtype);

/// For texts: ", name" where a choice was taken.
inline std::string when(bool taken, const std::string& text) {
  return taken ? ", " + text : std::string();
}

}  // namespace topomask::torture
