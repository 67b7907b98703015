#include "torture/graphs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace topomask::torture {
namespace {

/// Edges without weights; undirected ones are listed once.
struct Shape {
  int64_t nodes = 0;
  std::vector<std::pair<int64_t, int64_t>> edges;
  std::optional<Graph> built;  ///< by the library's own builder, where it has one
  std::string what;
};

Shape path(int64_t n) {
  Shape shape{n, {}, Graph::path(n), "path"};
  for (int64_t i = 0; i + 1 < n; ++i) shape.edges.emplace_back(i, i + 1);
  return shape;
}

Shape cycle(int64_t n) {
  Shape shape = path(n);
  if (n > 2) shape.edges.emplace_back(n - 1, 0);
  shape.built = Graph::cycle(n);
  shape.what = "cycle";
  return shape;
}

Shape star(int64_t n) {
  Shape shape{n, {}, Graph::star(n), "star"};
  for (int64_t i = 1; i < n; ++i) shape.edges.emplace_back(0, i);
  return shape;
}

Shape complete(int64_t n) {
  Shape shape{n, {}, Graph::complete(n), "complete"};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) shape.edges.emplace_back(i, j);
  }
  return shape;
}

Shape grid(Draw& draw, int64_t n) {
  const int64_t rows = 1 + draw.below("rows", std::min<int64_t>(n, 12)), columns = n / rows;
  const bool wrap = draw.chance("wrap", 30);
  Shape shape{rows * columns, {}, Graph::grid({rows, columns}, wrap)};
  shape.what = "grid " + std::to_string(rows) + "x" + std::to_string(columns) + (wrap ? " wrapped" : "");
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t here = r * columns + c;
      if (c + 1 < columns) shape.edges.emplace_back(here, here + 1);
      if (r + 1 < rows) shape.edges.emplace_back(here, here + columns);
      if (wrap && columns > 2 && c == 0) shape.edges.emplace_back(here, here + columns - 1);
      if (wrap && rows > 2 && r == 0) shape.edges.emplace_back(here, here + (rows - 1) * columns);
    }
  }
  return shape;
}

Shape trees(Draw& draw, int64_t n) {
  const DrawnForest forest = draw_forest(draw, n);
  const int64_t* parent = forest.parent.const_data_ptr<int64_t>();
  Shape shape{forest.parent.size(0), {}, Graph::forest(forest.parent), forest.what};
  for (int64_t v = 0; v < shape.nodes; ++v) {
    if (parent[v] >= 0) shape.edges.emplace_back(v, parent[v]);
  }
  return shape;
}

/// Nodes of degree about 3, some isolated, a hub that knows a third of them, self-loops.
Shape scattered(Draw& draw, int64_t n) {
  Shape shape{n, {}, std::nullopt, "random"};
  if (n == 0) return shape;
  const int64_t hubs = draw.below("hubs", 3);
  const bool loops = draw.chance("loops", 40);
  const at::Tensor chosen = (draw.uniform("edges", {3 * n / 2 + hubs * (n / 3), 2}, 0, 1) * static_cast<double>(n))
                                .to(at::kLong)
                                .clamp_max(n - 1)
                                .contiguous();
  const auto ends = chosen.accessor<int64_t, 2>();
  std::vector<std::pair<int64_t, int64_t>> seen;
  for (int64_t e = 0; e < ends.size(0); ++e) {
    const int64_t from = e < 3 * n / 2 ? ends[e][0] : e % hubs, to = ends[e][1];
    if (from == to && !loops) continue;
    seen.emplace_back(std::max(from, to), std::min(from, to));
  }
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  shape.edges = std::move(seen);
  shape.what += " (" + std::to_string(hubs) + " hubs" + (loops ? ", loops)" : ")");
  return shape;
}

Shape nearest(Draw& draw, int64_t n) {
  const int64_t k = std::min<int64_t>(1 + draw.below("k", 4), std::max<int64_t>(0, n - 1));
  const at::Tensor points = draw.normal("points", {n, 2});
  Shape shape{n, {}, Graph::knn(points, {.k = k}), "knn " + std::to_string(k)};
  const auto at = points.accessor<double, 2>();
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<std::pair<double, int64_t>> others;
    for (int64_t j = 0; j < n; ++j) {
      if (j != i) others.emplace_back(std::hypot(at[i][0] - at[j][0], at[i][1] - at[j][1]), j);
    }
    std::sort(others.begin(), others.end());
    for (int64_t c = 0; c < std::min<int64_t>(k, std::ssize(others)); ++c) {
      pairs.emplace_back(std::max(i, others[c].second), std::min(i, others[c].second));
    }
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  shape.edges = std::move(pairs);
  return shape;
}

Shape draw_shape(Draw& draw, int64_t n) {
  switch (draw.below("kind", 9)) {
    case 0:
      return path(n);
    case 1:
      return {n, {}, std::nullopt, "no edges"};
    case 2:
      return cycle(n);
    case 3:
      return star(n);
    case 4:
      return grid(draw, n);
    case 5:
      return trees(draw, n);
    case 6:
      return n <= 33 ? complete(n) : scattered(draw, n);
    case 7:
      return nearest(draw, n);
    default:
      return scattered(draw, n);
  }
}

at::Tensor places(const std::vector<std::pair<int64_t, int64_t>>& edges, bool second) {
  at::Tensor result = at::empty({static_cast<int64_t>(edges.size())}, at::kLong);
  for (size_t e = 0; e < edges.size(); ++e) {
    result.mutable_data_ptr<int64_t>()[e] = second ? edges[e].second : edges[e].first;
  }
  return result;
}

}  // namespace

at::Tensor DrawnGraph::degrees() const {
  return edges.to(at::kDouble).sum(1);
}

int64_t draw_nodes(Draw& draw, int64_t most) {
  constexpr int64_t kSizes[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 13,  16,  17,  19,
                                23, 31, 32, 33, 37, 47, 53, 63, 64, 65, 97, 127, 131, 257, 300};
  // Small cases are quick and find most mistakes.
  const int64_t size = draw.chance("larger", 40) ? 16 + draw.below("size", 14) : draw.below("size", 20);
  return std::min(most, kSizes[size]);
}

DrawnForest draw_forest(Draw& draw, int64_t most_nodes) {
  const int64_t n = most_nodes == 300 ? draw_nodes(draw) : std::min<int64_t>(most_nodes, 300);
  const int64_t kind = draw.below("tree", 5);
  const at::Tensor luck = draw.uniform("parents", {std::max<int64_t>(n, 1), 2}, 0, 1);
  const auto lucky = luck.accessor<double, 2>();
  at::Tensor parent = at::full({n}, -1, at::kLong);
  int64_t* p = parent.mutable_data_ptr<int64_t>();
  for (int64_t v = 1; v < n; ++v) {
    const auto any = std::min(v - 1, static_cast<int64_t>(lucky[v][0] * static_cast<double>(v)));
    if (kind == 0) p[v] = any;                            // a recursive tree
    if (kind == 1) p[v] = v - 1;                          // a path
    if (kind == 2) p[v] = 0;                              // a star
    if (kind == 3) p[v] = lucky[v][1] < 0.3 ? -1 : any;   // several trees
    if (kind == 4) p[v] = std::max<int64_t>(v - 3, any);  // a caterpillar of sorts
  }
  constexpr const char* kNames[] = {"tree", "path tree", "star tree", "forest", "deep tree"};
  if (!draw.chance("relabelled", 30)) return {parent, kNames[kind]};
  // Roots anywhere, parents after their children.
  const at::Tensor order = draw.uniform("order", {n}, 0, 1).argsort();
  const at::Tensor place = order.argsort();
  at::Tensor renamed = at::full({n}, -1, at::kLong);
  for (int64_t v = 0; v < n; ++v) {
    if (p[v] >= 0) renamed[place[v].item<int64_t>()] = place[p[v]];
  }
  return {renamed, std::string(kNames[kind]) + " relabelled"};
}

DrawnGraph draw_graph(Draw& draw, at::ScalarType dtype, const GraphLimits& limits) {
  const Draw::Scope scope(draw, "graph");
  const Shape shape = draw_shape(draw, draw_nodes(draw, limits.most_nodes));
  const int64_t n = shape.nodes, count = std::ssize(shape.edges);
  const bool directed = limits.directed && draw.chance("directed", 25);
  const int64_t weighting = draw.below("weights", limits.negative ? 4 : 3);
  const at::Tensor from = places(shape.edges, false), to = places(shape.edges, true);
  // Rounded to float32, to be the same in every precision.
  at::Tensor values = at::ones({count}, at::kDouble);
  if (weighting == 2) values = draw.uniform("values", {count}, 0.2, 1.0).to(at::kFloat).to(at::kDouble);
  if (weighting == 3) values = draw.uniform("values", {count}, -0.7, 0.7).to(at::kFloat).to(at::kDouble);

  at::Tensor edges = at::zeros({n, n}, at::kBool), weights = at::zeros({n, n}, at::kDouble);
  const at::Tensor yes = at::ones({}, at::kBool);
  edges.index_put_({from, to}, yes);
  weights.index_put_({from, to}, values);
  if (!directed) {
    edges.index_put_({to, from}, yes);
    weights.index_put_({to, from}, values);
  }
  const bool plain = weighting < 2;
  Graph graph = !directed && plain && shape.built
                    ? shape.built->to(dtype)
                    : Graph::from_edges(n, from, to, plain ? at::Tensor{} : values.to(dtype), {.directed = directed});
  graph = graph.to(dtype);
  std::string what = shape.what + (directed ? ", directed" : "");
  if (weighting == 1) {
    const double scale = draw.pick("scale", {0.9, 0.5});
    graph = graph.normalised(scale);
    const at::Tensor root = edges.to(at::kDouble).sum(1).clamp_min(1).sqrt();
    weights = edges.to(at::kDouble) * scale / (root.unsqueeze(0) * root.unsqueeze(1));
    what += ", normalised";
  } else if (weighting > 1) {
    what += weighting == 2 ? ", weighted" : ", weights of both signs";
    // Powers of W stay bounded.
    const double largest = n == 0 ? 1 : std::max(1.0, weights.abs().sum(1).max().item<double>());
    if (largest > 1 && draw.chance("bounded", 80)) {
      const double factor = std::exp2(-std::ceil(std::log2(largest)));
      weights = weights * factor;
      graph = graph.with_weights(graph.weights() * factor);
    }
  }
  return {graph, edges, weights, what};
}

}  // namespace topomask::torture
