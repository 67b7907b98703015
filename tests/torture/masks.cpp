#include "torture/masks.h"

#include <ATen/ATen.h>

#include "topomask/global_tokens.h"
#include "topomask/masks.h"
#include "topomask/per_head.h"

namespace topomask::torture {
namespace {

DrawnMask with_tokens(DrawnMask inner, int64_t tokens) {
  DrawnMask result = inner;
  result.what = "global tokens(" + std::to_string(tokens) + ") around " + inner.what;
  result.mask = with_global_tokens(inner.mask, tokens);
  result.reference = [inner = inner.reference, tokens](const std::vector<at::Tensor>& leaves) {
    const MaskValue value = inner(leaves);
    const auto padded = [&](const at::Tensor& x) { return at::constant_pad_nd(x, {tokens, 0, tokens, 0}, 1); };
    return MaskValue{padded(value.matrix), padded(value.magnitude)};
  };
  return result;
}

/// The mask as the first of two heads; the second is all ones, or the same mask again, which keeps the sparse route.
DrawnMask in_a_head(DrawnMask inner, bool twice) {
  DrawnMask result = inner;
  result.what = std::string(twice ? "two heads of " : "ones in a second head next to ") + inner.what;
  result.mask = per_head_mask({inner.mask, twice ? inner.mask : none_mask(inner.mask->size())});
  result.reference = [inner = inner.reference, twice, n = inner.mask->size()](const std::vector<at::Tensor>& leaves) {
    const MaskValue value = inner(leaves);
    const auto both = [&](const at::Tensor& x) {
      const at::Tensor one = x.reshape({n, n});
      return at::stack({one, twice ? one : at::ones_like(one)});
    };
    return MaskValue{both(value.matrix), both(value.magnitude)};
  };
  return result;
}

}  // namespace

at::Tensor EdgeList::dense(const at::Tensor& weights, int64_t nodes, bool directed) const {
  const at::Tensor half = at::zeros({nodes, nodes}, at::kDouble).index_put({from, to}, weights);
  return directed ? half : half.tril() + half.tril(-1).t();
}

EdgeList edge_list(const DrawnGraph& graph) {
  const at::Tensor kept = graph.graph.directed() ? graph.edges : graph.edges.tril();
  const at::Tensor places = kept.nonzero();
  EdgeList list{places.select(1, 0).contiguous(), places.select(1, 1).contiguous(), {}};
  const at::Tensor number = at::arange(list.from.size(0), at::kLong);
  at::Tensor edge_of = at::zeros({graph.nodes(), graph.nodes()}, at::kLong);
  if (!graph.graph.directed()) edge_of.index_put_({list.to, list.from}, number);
  edge_of.index_put_({list.from, list.to}, number);
  const at::Tensor rows = at::repeat_interleave(graph.graph.offsets().diff());
  list.entry = edge_of.index({rows, graph.graph.columns().to(at::kLong)});
  return list;
}

LearntWeights learn_weights(MaskDraw& d, const DrawnGraph& graph) {
  const EdgeList list = edge_list(graph);
  const at::Tensor weights = d.leaf("weights", graph.weights.index({list.from, list.to}));
  return {graph.graph.with_weights(weights.index_select(0, list.entry)),
          [list, n = graph.nodes(), directed = graph.graph.directed()](const at::Tensor& leaf) {
            return list.dense(leaf, n, directed);
          }};
}

at::Tensor MaskDraw::leaf(const std::string& name, const at::Tensor& values) {
  leaves_.push_back(values.detach().to(dtype).clone().requires_grad_(draw.chance("grad." + name, 75)));
  names_.push_back(name);
  return leaves_.back();
}

std::vector<int64_t> MaskDraw::per_head(std::vector<int64_t> shape) {
  const int64_t heads = draw.pick<int64_t>("heads", {0, 0, 1, 2, 3});
  if (heads > 0) shape.insert(shape.begin(), heads);
  return shape;
}

DrawnMask MaskDraw::finish(std::string what, MaskPtr mask,
                           std::function<MaskValue(const std::vector<at::Tensor>&)> reference) const {
  return {.what = std::move(what),
          .mask = std::move(mask),
          .leaves = leaves_,
          .names = names_,
          .reference = std::move(reference)};
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> joined;
    for (const auto& list :
         {basic_families(), structured_families(), forest_families(), walk_families(), encoding_families()}) {
      joined.insert(joined.end(), list.begin(), list.end());
    }
    return joined;
  }();
  return all;
}

DrawnMask draw_mask(Draw& draw, at::ScalarType dtype) {
  const Draw::Scope scope(draw, "mask");
  const Family& family = families()[draw.below("family", std::ssize(families()))];
  // 0: made in its dtype; 1: made in the other one and moved; 2: moved there and back.
  const int64_t moves = draw.pick<int64_t>("moves", {0, 0, 0, 0, 0, 1, 2});
  const at::ScalarType other = dtype == at::kDouble ? at::kFloat : at::kDouble;
  MaskDraw context(draw, moves == 1 ? other : dtype);
  DrawnMask drawn = family.draw(context);
  drawn.family = family.name;
  drawn.what = drawn.family + drawn.what;
  if (const int64_t tokens = draw.pick<int64_t>("tokens", {0, 0, 0, 1, 3}); tokens > 0) {
    drawn = with_tokens(std::move(drawn), tokens);
    if (draw.chance("tokens_twice", 15)) drawn = with_tokens(std::move(drawn), 2);
  }
  if (const int64_t head = draw.pick<int64_t>("head", {0, 0, 0, 0, 1, 2}); head > 0 && drawn.mask->heads() == 1) {
    drawn = in_a_head(std::move(drawn), head == 2);
  }
  if (moves == 1) drawn.mask = drawn.mask->to(dtype);
  if (moves == 2) drawn.mask = drawn.mask->to(other)->to(dtype);
  drawn.what += when(moves == 1, "moved to the dtype") + when(moves == 2, "moved to the other dtype and back");
  drawn.follows = drawn.follows && moves == 0;
  // What passed through float32 has its accuracy.
  if (moves > 0 && dtype == at::kDouble) drawn.accuracy = std::max(drawn.accuracy, 1e-5);
  drawn.through_float = moves == 2 && dtype == at::kDouble;
  return drawn;
}

}  // namespace topomask::torture
