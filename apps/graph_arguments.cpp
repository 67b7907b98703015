#include "graph_arguments.h"

#include <ATen/ATen.h>

#include <charconv>
#include <cmath>
#include <iostream>
#include <map>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "core/out_of_memory.h"

namespace topomask::apps {
namespace {

using Parts = std::vector<std::string>;  // what stands between colons, the builder's name first

Parts split_at(const std::string& text, char at) {
  Parts parts;
  size_t start = 0;
  for (size_t end = 0; (end = text.find(at, start)) != std::string::npos; start = end + 1) {
    parts.push_back(text.substr(start, end - start));
  }
  parts.push_back(text.substr(start));
  return parts;
}

[[noreturn]] void refuse_graph(const std::string& source, const std::string& why) {
  throw UsageError("the graph '" + source + "': " + why);
}

template <class Number>
Number parse(const std::string& text, const std::string& source) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) refuse_graph(source, "'" + text + "' is too large a number");
  if (error != std::errc{} || end != text.data() + text.size()) {
    refuse_graph(source, "'" + text + "' is not a " + (std::is_integral_v<Number> ? "whole " : "") + "number");
  }
  return number;
}

int64_t parse_size(const std::string& text, const std::string& source, int64_t most) {
  const auto size = parse<int64_t>(text, source);
  if (size < 1 || size > most) {
    refuse_graph(source, "a size must be from 1 to " + std::to_string(most) + ", got " + text);
  }
  return size;
}

/// The text of a graph, and how large it may be.
struct Wanted {
  const Parts& parts;
  const std::string& source;
  const GraphLimits& limits;

  int64_t size(int64_t most) const { return parse_size(parts[1], source, most); }
  int64_t nodes() const { return size(limits.nodes); }
};

Graph binary_tree(int64_t nodes) {
  at::Tensor parent = at::arange(-1, nodes - 1).div(2, "floor").to(at::kLong);
  return Graph::forest(parent);  // the root's −1/2 rounds to −1
}

NamedGraph make_grid(const Wanted& wanted) {
  std::vector<int64_t> dims;
  double nodes = 1;
  for (const std::string& size : split_at(wanted.parts[1], 'x')) {
    dims.push_back(parse_size(size, wanted.source, wanted.limits.nodes));
    nodes *= static_cast<double>(dims.back());
  }
  if (nodes > static_cast<double>(wanted.limits.nodes)) {
    refuse_graph(wanted.source, "there may be at most " + std::to_string(wanted.limits.nodes) + " nodes");
  }
  return {Graph::grid(dims, wanted.parts[0] == "torus"), dims};
}

NamedGraph make_random(const Wanted& wanted) {
  const auto& [parts, source, limits] = wanted;
  const int64_t nodes = wanted.nodes();
  const auto probability = parse<double>(parts[2], source);
  if (!(probability >= 0 && probability <= 1)) {
    refuse_graph(source, "the probability of an edge must be in [0, 1], got " + parts[2]);
  }
  const double entries = probability * static_cast<double>(nodes) * static_cast<double>(nodes - 1);
  if (entries > static_cast<double>(limits.random_entries)) {
    refuse_graph(source, "there may be at most " + std::to_string(limits.random_entries) +
                             " expected entries, which is twice the number of edges");
  }
  return {Graph::erdos_renyi(nodes, probability, parts.size() > 3 ? parse<uint64_t>(parts[3], source) : 0), {}};
}

/// A family of graphs that are built on the spot.
struct Builder {
  const char* usage;
  size_t least, most;  ///< parts, its name included
  NamedGraph (*make)(const Wanted& wanted);
};

const std::map<std::string, Builder>& builders() {
  static const std::map<std::string, Builder> builders{
      {"grid", {"grid:28x28", 2, 2, make_grid}},
      {"torus", {"torus:28x28", 2, 2, make_grid}},
      {"path",
       {"path:100", 2, 2,
        [](const Wanted& wanted) {
          const int64_t size = wanted.nodes();
          return NamedGraph{Graph::path(size), {size}};
        }}},
      {"cycle",
       {"cycle:100", 2, 2,
        [](const Wanted& wanted) {
          const int64_t size = wanted.nodes();
          return NamedGraph{Graph::cycle(size), {size}};
        }}},
      {"complete",
       {"complete:9", 2, 2,
        [](const Wanted& wanted) {
          return NamedGraph{Graph::complete(wanted.size(wanted.limits.complete_nodes)), {}};
        }}},
      {"star",
       {"star:9", 2, 2,
        [](const Wanted& wanted) {
          return NamedGraph{Graph::star(wanted.nodes()), {}};
        }}},
      {"hypercube",
       {"hypercube:10", 2, 2,
        [](const Wanted& wanted) {
          return NamedGraph{Graph::hypercube(wanted.size(wanted.limits.hypercube_dimensions)), {}};
        }}},
      {"tree",
       {"tree:1023", 2, 2,
        [](const Wanted& wanted) {
          return NamedGraph{binary_tree(wanted.nodes()), {}};
        }}},
      {"random", {"random:1000:0.01 or random:1000:0.01:SEED", 3, 4, make_random}},
  };
  return builders;
}

NamedGraph build_graph(const Parts& parts, const std::string& source, const GraphLimits& limits) {
  const auto found = builders().find(parts[0]);
  if (found == builders().end()) {
    std::vector<std::string> names;
    for (const auto& [name, builder] : builders()) names.push_back(name);
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    refuse_graph(source,
                 "unknown graph builder '" + parts[0] + "'" + hint(parts[0], names) + " (there are " + all + ")");
  }
  const Builder& builder = found->second;
  if (parts.size() < builder.least) refuse_graph(source, std::string("it lacks a size; one would be ") + builder.usage);
  if (parts.size() > builder.most) {
    refuse_graph(source, "nothing may follow '" + parts[builder.most - 1] + "'; one would be " + builder.usage);
  }
  try {
    return builder.make({parts, source, limits});
  } catch (const c10::Error& error) {  // a size that the builder itself refuses
    if (is_out_of_memory(error)) throw;
    refuse_graph(source, error.what_without_backtrace());
  }
}

bool is_builder(const std::string& source) {
  const bool parts = source.find(':') != std::string::npos && source.find('/') == std::string::npos;
  return parts || builders().contains(source);
}

/// A reader's notice with the names of the command line in place of the library's.
std::string with_option_names(std::string notice) {
  constexpr std::string_view kOption = "the option one_based";
  const size_t at = notice.rfind(kOption);
  return at == std::string::npos ? notice : notice.replace(at, kOption.size(), "--one-based");
}

}  // namespace

NamedGraph named_graph(const std::string& source, const ReadOptions& options, const GraphLimits& limits) {
  if (is_builder(source)) return build_graph(split_at(source, ':'), source, limits);
  return {read_graph(source, options), {}};
}

void GraphArguments::add_to(CLI::App& command) {
  command
      .add_option("graph", source_,
                  "a file (.txt .edges .el .graph .metis .mtx .npz, text also .gz), or grid:28x28, torus:28x28, "
                  "path:100, cycle:100, complete:9, star:9, hypercube:10, tree:1023, random:NODES:PROBABILITY[:SEED]")
      ->required();
  command.add_option("--scale", scale_, "s of the edge weights s/sqrt(d_i d_j)")
      ->capture_default_str()
      ->check(finite_number("in the range of float32",
                            [](double scale) { return std::isfinite(static_cast<float>(scale)); }));
  command.add_flag("--weights", own_weights_, "keep the weights of the file");
  command.add_flag("--directed", directed_, "the file's edges have a direction (SNAP, npz)");
  command.add_flag("--one-based", one_based_, "the file's node ids count from 1 (SNAP, npz)");
}

NamedGraph GraphArguments::make(const GraphLimits& limits,
                                const std::function<void(const std::string&)>& notice) const {
  const auto warn = [&](const std::string& text) { notice(with_option_names(text)); };
  NamedGraph named = named_graph(source_, {.directed = directed_, .one_based = one_based_, .warn = warn}, limits);
  if (!own_weights_) named.graph = named.graph.normalised(scale_);
  return named;
}

NamedGraph GraphArguments::make(const GraphLimits& limits) const {
  return make(limits, [](const std::string& notice) { std::cerr << notice << '\n'; });
}

NamedGraph GraphArguments::make(Activity& activity) const {
  activity.stage((is_builder(source_) ? "building the graph " : "reading ") + source_);
  return make({}, [&](const std::string& notice) { activity.announce(notice); });
}

}  // namespace topomask::apps
