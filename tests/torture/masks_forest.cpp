#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "topomask/forest.h"
#include "torture/masks.h"

namespace topomask::torture {
namespace {

/// Lengths of edges, rounded to float32: 1, small integers with zeros among them, or real ones.
enum class Lengths { ones, integers, real };
constexpr const char* kLengths[] = {"unit lengths", "integer lengths", "real lengths"};

at::Tensor draw_lengths(Draw& draw, Lengths kind, int64_t n) {
  if (kind == Lengths::ones) return at::ones({n}, at::kDouble);
  const at::Tensor drawn = draw.uniform("lengths", {n}, 0, 1);
  if (kind == Lengths::integers) return (drawn * 4).floor();
  return (drawn * 0.9 + 0.1).to(at::kFloat).to(at::kDouble);
}

/// exp(a·dist + b) inside trees; a and b [] or [H].
MaskValue exponential_of(const TreeDistances& tree, const at::Tensor& a, const at::Tensor& b) {
  const auto wide = [](const at::Tensor& x) { return x.unsqueeze(-1).unsqueeze(-1); };
  const at::Tensor exponent = wide(a) * tree.distance + wide(b);
  const at::Tensor matrix = exponent.exp() * tree.same_tree;
  const at::Tensor terms = wide(a).abs() * tree.distance.abs() + wide(b).abs();
  return {matrix, (matrix * (1 + terms)).detach()};
}

DrawnMask draw_tree_exponential(MaskDraw& d) {
  Draw& draw = d.draw;
  const DrawnForest trees = draw_forest(draw);
  const auto kind = static_cast<Lengths>(draw.below("lengths", 3));
  const bool learnt_lengths = draw.chance("learn_lengths", 50), with_b = draw.chance("b", 60);
  const at::Tensor given = draw_lengths(draw, kind, trees.parent.size(0));
  const at::Tensor lengths = learnt_lengths ? d.leaf("lengths", given) : given.to(d.dtype);
  // Growing masks take another way through the passes.
  const double sign = draw.pick("growing", {-1.0, -1.0, -1.0, 0.15});
  const at::Tensor a = d.leaf("a", draw.uniform("a", d.per_head({}), 0.05, 1.0) * sign);
  at::Tensor b;
  if (with_b) b = d.leaf("b", draw.uniform("b", draw.chance("b_per_head", 50) ? a.sizes() : at::IntArrayRef{}, -1, 1));
  const auto reference = [parent = trees.parent, given, learnt_lengths, with_b](const auto& leaves) {
    size_t next = 0;
    const TreeDistances tree = tree_distances(parent, learnt_lengths ? leaves[next++] : given);
    const at::Tensor& slope = leaves[next++];
    return exponential_of(tree, slope, with_b ? leaves[next] : at::zeros({}, at::kDouble));
  };
  DrawnMask result = d.finish("(" + trees.what + ", " + kLengths[static_cast<int>(kind)] +
                                  when(learnt_lengths, "learned") + when(sign > 0, "growing") + ")",
                              tree_mask(Forest(trees.parent, lengths), DistanceFunction::exponential(a, b)), reference);
  result.follows = !learnt_lengths || lengths.requires_grad();  // a forest copies lengths that nobody learns
  return result;
}

DrawnMask draw_tree_table(MaskDraw& d) {
  Draw& draw = d.draw;
  const DrawnForest trees = draw_forest(draw);
  const auto kind = static_cast<Lengths>(draw.below("lengths", 2));
  const at::Tensor lengths = draw_lengths(draw, kind, trees.parent.size(0));
  const int64_t terms = draw.pick<int64_t>("terms", {1, 2, 5, 40, 700});
  const at::Tensor f =
      d.leaf("f", draw.uniform("f", d.per_head({terms}), draw.chance("both_signs", 30) ? -1.0 : 0.05, 1.0));
  const auto reference = [parent = trees.parent, lengths, terms](const auto& leaves) {
    const TreeDistances tree = tree_distances(parent, lengths);
    const at::Tensor place = tree.distance.round().to(at::kLong);
    const at::Tensor inside = (place < terms).to(at::kDouble) * tree.same_tree;
    const int64_t n = parent.size(0);
    const at::Tensor& table = leaves[0];
    std::vector<int64_t> shape{n, n};
    if (table.dim() == 2) shape.insert(shape.begin(), table.size(0));
    if (terms == 0 || n == 0) return MaskValue{at::zeros(shape, at::kDouble), at::zeros(shape, at::kDouble)};
    const at::Tensor looked_up = table.index_select(-1, place.clamp(0, terms - 1).view({-1})).view(shape) * inside;
    const at::Tensor norm = table.detach().norm(2, -1).unsqueeze(-1).unsqueeze(-1);
    return MaskValue{looked_up, (norm * tree.same_tree).expand(shape)};
  };
  DrawnMask result =
      d.finish("(" + trees.what + ", " + kLengths[static_cast<int>(kind)] + ", " + std::to_string(terms) + " values)",
               tree_mask(Forest(trees.parent, lengths.to(d.dtype)), DistanceFunction::table(f)), reference);
  result.normwise = true;
  return result;
}

/// A function of distance without parameters: the library's, the same in plain C++, and a bound of its terms.
struct DrawnFunction {
  DistanceFunction library;
  std::function<double(double)> plain, bound;
  double tolerance = 0;
  std::string what;
};

DrawnFunction draw_function(Draw& draw, bool combine = true) {
  const auto constant = [](double value) { return [value](double) { return value; }; };
  switch (draw.below("function", combine ? 7 : 5)) {
    case 0: {
      const double a = draw.uniform("rate", -0.8, 0.05), b = draw.uniform("shift", -0.5, 0.5);
      const auto f = [a, b](double x) { return std::exp(a * x + b); };
      return {DistanceFunction::exponential(a, b), f, f, 0, "exponential"};
    }
    case 1: {
      const std::vector<double> c{draw.uniform("c0", 0.2, 1), draw.uniform("c1", -0.2, 0.2),
                                  draw.uniform("c2", -0.02, 0.02)};
      return {DistanceFunction::polynomial(c), [c](double x) { return c[0] + x * (c[1] + x * c[2]); },
              [c](double x) { return std::abs(c[0]) + x * (std::abs(c[1]) + x * std::abs(c[2])); }, 0, "polynomial"};
    }
    case 2: {
      const double omega = draw.uniform("omega", 0.05, 1.5), phase = draw.uniform("phase", -1, 1);
      return {DistanceFunction::cosine(omega, phase), [=](double x) { return std::cos(omega * x + phase); },
              constant(1), 0, "cosine"};
    }
    case 3: {
      const double width = draw.uniform("width", 2, 9), tolerance = draw.pick("tolerance", {1e-6, 1e-10, 1e-3});
      const auto f = [width](double x) { return 1 / (1 + x * x / (width * width)); };
      return {DistanceFunction::smooth(f, tolerance), f, constant(1), tolerance, "smooth"};
    }
    case 4: {
      const double width = draw.uniform("width", 1, 9);
      const auto f = [width](double x) { return std::exp(-x * x / (2 * width * width)); };
      return {DistanceFunction::smooth(f, 1e-9), f, constant(1), 1e-9, "Gaussian"};
    }
    default: {
      const bool sum = draw.chance("sum", 50);
      DrawnFunction parts[2] = {DrawnFunction{DistanceFunction::cosine(0), {}, {}, 0, {}},
                                DrawnFunction{DistanceFunction::cosine(0), {}, {}, 0, {}}};
      for (int part = 0; part < 2; ++part) {
        const Draw::Scope scope(draw, part == 0 ? "first" : "second");
        parts[part] = draw_function(draw, false);
      }
      const auto& [f, g] = parts;
      const auto joined = [sum](const auto& a, const auto& b) {
        return [=](double x) { return sum ? a(x) + b(x) : a(x) * b(x); };
      };
      return {sum ? DistanceFunction::sum(f.library, g.library) : DistanceFunction::product(f.library, g.library),
              joined(f.plain, g.plain), joined(f.bound, g.bound), std::max(f.tolerance, g.tolerance),
              "(" + f.what + (sum ? " + " : " x ") + g.what + ")"};
    }
  }
}

DrawnMask draw_tree_function(MaskDraw& d) {
  Draw& draw = d.draw;
  const DrawnForest trees = draw_forest(draw, 300);
  const auto kind = static_cast<Lengths>(draw.below("lengths", 3));
  const at::Tensor lengths = draw_lengths(draw, kind, trees.parent.size(0));
  const bool integers = kind != Lengths::real && draw.chance("on_integers", 30);
  DrawnFunction f = draw_function(draw);
  if (integers) f.library = DistanceFunction::on_integers(f.plain);
  const int64_t n = trees.parent.size(0);
  const TreeDistances tree = tree_distances(trees.parent, lengths);
  at::Tensor matrix = tree.distance.clone().contiguous();
  double* entry = matrix.mutable_data_ptr<double>();
  const double reach = n == 0 ? 0 : 2 * tree.distance.max().item<double>();  // f is read up to here
  double largest = 0;
  for (int step = 0; step <= 64; ++step) largest = std::max(largest, std::abs(f.bound(reach * step / 64)));
  for (int64_t e = 0; e < n * n; ++e) entry[e] = f.plain(entry[e]);
  matrix = matrix * tree.same_tree;
  const at::Tensor magnitude = tree.same_tree * largest;
  DrawnMask result = d.finish(
      "(" + trees.what + ", " + kLengths[static_cast<int>(kind)] + ", " + f.what + when(integers, "on integers") + ")",
      tree_mask(Forest(trees.parent, lengths.to(d.dtype)), f.library), [=](const auto&) {
        return MaskValue{matrix, magnitude};
      });
  result.accuracy = 4 * f.tolerance;
  return result;
}

/// Kruskal's algorithm on a list of edges with distinct weights; the forest hangs from the lowest node of each tree.
struct Spanning {
  at::Tensor parent, edge;  ///< int64 [N]; the edge to the parent, 0 at roots
};

Spanning spanning(int64_t n, const at::Tensor& from, const at::Tensor& to, const at::Tensor& weights) {
  std::vector<int64_t> label(n);
  std::iota(label.begin(), label.end(), 0);
  std::vector<std::vector<std::pair<int64_t, int64_t>>> joined(n);
  const at::Tensor order = weights.argsort();
  for (int64_t place = 0; place < order.size(0); ++place) {
    const auto e = order[place].item<int64_t>(), u = from[e].item<int64_t>(), v = to[e].item<int64_t>();
    if (label[u] == label[v]) continue;  // a loop, too
    std::replace(label.begin(), label.end(), int64_t{label[u]}, int64_t{label[v]});
    joined[u].emplace_back(v, e);
    joined[v].emplace_back(u, e);
  }
  Spanning result{at::full({n}, -1, at::kLong), at::zeros({n}, at::kLong)};
  std::vector<bool> seen(n, false);
  for (int64_t root = 0; root < n; ++root) {
    if (seen[root]) continue;
    std::vector<int64_t> queue{root};
    seen[root] = true;
    for (size_t next = 0; next < queue.size(); ++next) {
      for (const auto& [v, e] : joined[queue[next]]) {
        if (seen[v]) continue;
        seen[v] = true;
        result.parent[v] = queue[next];
        result.edge[v] = e;
        queue.push_back(v);
      }
    }
  }
  return result;
}

DrawnMask draw_spanning_forest(MaskDraw& d) {
  const DrawnGraph graph = draw_graph(d.draw, d.dtype, {.directed = false, .negative = false, .most_nodes = 131});
  const int64_t n = graph.nodes();
  const EdgeList list = edge_list(graph);
  const at::Tensor lengths = d.leaf("lengths", d.draw.uniform("edge_lengths", {list.from.size(0)}, 0.1, 1.0));
  const at::Tensor a = d.leaf("a", d.draw.uniform("a", d.per_head({}), -1.0, -0.1));
  const Graph weighted = graph.graph.with_weights(lengths.index_select(0, list.entry));
  const Spanning tree = spanning(n, list.from, list.to, lengths.detach());
  const auto reference = [tree](const auto& leaves) {
    const at::Tensor padded = at::cat({leaves[0], at::zeros({1}, at::kDouble)});
    const at::Tensor used = padded.index_select(0, tree.edge) * (tree.parent >= 0).to(at::kDouble);
    return exponential_of(tree_distances(tree.parent, used), leaves[1], at::zeros({}, at::kDouble));
  };
  DrawnMask result =
      d.finish("(" + graph.what + ")", tree_mask(minimum_spanning_forest(weighted), DistanceFunction::exponential(a)),
               reference);
  result.follows = false;  // the lengths are gathered once
  return result;
}

}  // namespace

std::vector<Family> forest_families() {
  return {{"forest exponential", draw_tree_exponential},
          {"forest table", draw_tree_table},
          {"forest function", draw_tree_function},
          {"spanning forest", draw_spanning_forest}};
}

}  // namespace topomask::torture
