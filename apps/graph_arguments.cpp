#include "graph_arguments.h"

#include <ATen/ATen.h>

#include <charconv>
#include <functional>
#include <map>

#include "command.h"
#include "topomask/graph_io.h"

namespace topomask::apps {
namespace {

template <class Number>
Number parse(const std::string& text, const std::string& source) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw UsageError("'" + text + "' in the graph '" + source + "' is not a number");
  }
  return number;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t end = 0; (end = text.find(at, start)) != std::string::npos; start = end + 1) {
    parts.push_back(text.substr(start, end - start));
  }
  parts.push_back(text.substr(start));
  return parts;
}

using Parts = std::vector<std::string>;  // what stands between colons, the builder's name first

NamedGraph grid(const Parts& parts, const std::string& source, bool wrap) {
  std::vector<int64_t> dims;
  for (const std::string& size : split(parts.at(1), 'x')) dims.push_back(parse<int64_t>(size, source));
  return {Graph::grid(dims, wrap), dims};
}

Graph binary_tree(int64_t nodes) {
  at::Tensor parent = at::arange(-1, nodes - 1).div(2, "floor").to(at::kLong);
  return Graph::forest(parent);  // the root's −1/2 rounds to −1
}

NamedGraph build(const Parts& parts, const std::string& source) {
  const std::string& name = parts[0];
  const auto number = [&](size_t place) { return parse<int64_t>(parts.at(place), source); };
  if (name == "grid" || name == "torus") return grid(parts, source, name == "torus");
  if (name == "path") return {Graph::path(number(1)), {number(1)}};
  if (name == "cycle") return {Graph::cycle(number(1)), {number(1)}};
  if (name == "complete") return {Graph::complete(number(1)), {}};
  if (name == "star") return {Graph::star(number(1)), {}};
  if (name == "hypercube") return {Graph::hypercube(number(1)), {}};
  if (name == "tree") return {binary_tree(number(1)), {}};
  if (name == "random") {
    const auto seed = parts.size() > 3 ? parse<uint64_t>(parts[3], source) : 0;
    return {Graph::erdos_renyi(number(1), parse<double>(parts.at(2), source), seed), {}};
  }
  throw UsageError("unknown graph builder '" + name + "' in '" + source +
                   "'; there are grid, torus, path, cycle, complete, star, hypercube, tree and random");
}

}  // namespace

NamedGraph named_graph(const std::string& source, bool directed) {
  const bool builder = source.find(':') != std::string::npos && source.find('/') == std::string::npos;
  if (!builder) return {read_graph(source, {.directed = directed}), {}};
  const Parts parts = split(source, ':');
  try {
    return build(parts, source);
  } catch (const std::out_of_range&) {
    throw UsageError("the graph '" + source + "' lacks a size; one would be grid:28x28, path:100 or random:1000:0.01");
  }
}

void GraphArguments::add_to(CLI::App& command) {
  command
      .add_option("graph", source_,
                  "a file (.txt .edges .el .graph .metis .mtx .npz, text also .gz), or grid:28x28, torus:28x28, "
                  "path:100, cycle:100, complete:9, star:9, hypercube:10, tree:1023, random:NODES:PROBABILITY[:SEED]")
      ->required();
  command.add_option("--scale", scale_, "s of the edge weights s/sqrt(d_i d_j)")->capture_default_str();
  command.add_flag("--weights", own_weights_, "keep the weights of the file");
  command.add_flag("--directed", directed_, "the file's edges have a direction (SNAP, npz)");
}

NamedGraph GraphArguments::make() const {
  NamedGraph named = named_graph(source_, directed_);
  if (!own_weights_) named.graph = named.graph.normalised(scale_);
  return named;
}

}  // namespace topomask::apps
