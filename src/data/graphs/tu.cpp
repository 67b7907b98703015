#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

#include "data/graphs/features.h"
#include "data/graphs/readers.h"
#include "data/graphs/splits.h"
#include "io/zip_archive.h"

namespace topomask {
namespace {

constexpr const char* kAdjacency = "A";
constexpr std::string_view kAdjacencyEnd = "_A.txt";
constexpr int64_t kMostNodeLabels = 4096;

std::unique_ptr<io::LineReader> required_part(const io::Origin& origin, const TuParts& parts, const char* part) {
  auto reader = parts(part);
  if (!reader) io::fail(origin, "a TU set needs a file NAME_", part, ".txt, which is missing");
  return reader;
}

/// visit() for each line. Lines without content are an error, but at the end of the file.
template <class Visit>
void for_each_line(io::LineReader& reader, const Visit& visit) {
  bool ended = false;
  while (reader.next()) {
    if (reader.line().find_first_not_of(" \t") == std::string_view::npos) {
      ended = true;
      continue;
    }
    if (ended) reader.fail_here("an empty line must not stand before others");
    visit();
  }
}

/// One integer on each line.
std::vector<int64_t> read_integers(io::LineReader& reader, const char* what) {
  std::vector<int64_t> values;
  for_each_line(reader, [&] {
    io::LineNumbers line(reader);
    values.push_back(line.integer(what));
    line.end();
  });
  return values;
}

/// Several node labels on each line, as many as on the first: those of each column.
std::vector<std::vector<int64_t>> read_label_columns(io::LineReader& reader) {
  std::vector<std::vector<int64_t>> columns;
  bool first = true;
  for_each_line(reader, [&] {
    io::LineNumbers line(reader);
    size_t got = 0;
    for (; !line.done(); ++got) {
      const int64_t label = line.integer("a node label");
      if (first) columns.emplace_back();
      if (got < columns.size()) columns[got].push_back(label);
    }
    first = false;
    if (got != columns.size()) {
      reader.fail_here("expected ", columns.size(), " node labels, as on the first line, got ", got);
    }
  });
  return columns;
}

void check_count(const io::LineReader& reader, size_t got, int64_t nodes) {
  if (static_cast<int64_t>(got) == nodes) return;
  io::fail(reader.origin(), "must have a line for each of the ", nodes, " nodes of graph_indicator, got ", got);
}

/// Whatever integers stand for classes, by their places in ascending order.
struct Renumbered {
  std::vector<int64_t> places, values;
};

Renumbered renumber(const std::vector<int64_t>& labels) {
  Renumbered result{.values = labels};
  std::sort(result.values.begin(), result.values.end());
  result.values.erase(std::unique(result.values.begin(), result.values.end()), result.values.end());
  for (const int64_t label : labels) {
    result.places.push_back(std::lower_bound(result.values.begin(), result.values.end(), label) -
                            result.values.begin());
  }
  return result;
}

struct Indicator {
  std::vector<int64_t> offsets{0};
  std::vector<int32_t> graph_of;  ///< each node
};

Indicator read_indicator(io::LineReader& reader, int64_t graphs) {
  Indicator indicator;
  int64_t graph = 0;  // 1-based, as in the file
  for_each_line(reader, [&] {
    io::LineNumbers line(reader);
    const int64_t next = line.integer("the number of a graph");
    line.end();
    if (next < 1 || next > graphs) {
      reader.fail_here("a graph must be from 1 to ", graphs, ", the lines of graph_labels, got ", next);
    }
    if (next < graph) reader.fail_here("graphs must ascend, got ", next, " after ", graph);
    if (next > graph + 1) reader.fail_here("graph ", graph + 1, " has no node: got ", next, " after ", graph);
    if (next > graph && graph > 0) indicator.offsets.push_back(static_cast<int64_t>(indicator.graph_of.size()));
    graph = next;
    if (indicator.graph_of.size() >= size_t{std::numeric_limits<int32_t>::max()}) {
      reader.fail_here("there must be fewer than 2^31 nodes");
    }
    indicator.graph_of.push_back(static_cast<int32_t>(next));
  });
  if (graph < graphs) io::fail(reader.origin(), "graph ", graph + 1, " of ", graphs, " has no node");
  indicator.offsets.push_back(static_cast<int64_t>(indicator.graph_of.size()));
  return indicator;
}

Graph read_adjacency(io::LineReader& reader, const Indicator& indicator) {
  const auto nodes = static_cast<int64_t>(indicator.graph_of.size());
  std::vector<int32_t> source, target;
  for_each_line(reader, [&] {
    io::LineNumbers line(reader);
    const int64_t from = line.integer("a node id"), to = line.integer("a second node id");
    line.end();
    for (const int64_t id : {from, to}) {
      if (id < 1 || id > nodes) {
        reader.fail_here("a node id must be from 1 to ", nodes, ", the lines of graph_indicator, got ", id);
      }
    }
    const int32_t from_graph = indicator.graph_of[static_cast<size_t>(from - 1)];
    const int32_t to_graph = indicator.graph_of[static_cast<size_t>(to - 1)];
    if (from_graph != to_graph) {
      reader.fail_here("nodes ", from, " and ", to, " belong to graphs ", from_graph, " and ", to_graph,
                       ", an edge must be inside one");
    }
    source.push_back(static_cast<int32_t>(from - 1));
    target.push_back(static_cast<int32_t>(to - 1));
  });
  const auto count = static_cast<int64_t>(source.size());
  if (count == 0) return Graph::from_edges(nodes, at::empty({0}, at::kInt), at::empty({0}, at::kInt));
  return Graph::from_edges(nodes, at::from_blob(source.data(), {count}, at::kInt),
                           at::from_blob(target.data(), {count}, at::kInt));
}

/// float32 [nodes, A], A the numbers on the first line.
at::Tensor read_attributes(io::LineReader& reader, int64_t nodes) {
  std::vector<float> values;
  size_t width = 0, rows = 0;
  for_each_line(reader, [&] {
    io::LineNumbers line(reader);
    const size_t before = values.size();
    while (!line.done()) values.push_back(line.number("a node attribute"));
    const size_t got = values.size() - before;
    if (rows++ == 0) width = got;
    if (got != width) reader.fail_here("expected ", width, " attributes, as on the first line, got ", got);
  });
  check_count(reader, rows, nodes);
  return at::from_blob(values.data(), {nodes, static_cast<int64_t>(width)}, at::kFloat).clone();
}

/// float32 [nodes, Σ different labels of a column]: a unit vector for each column.
at::Tensor read_node_labels(io::LineReader& reader, int64_t nodes) {
  const std::vector<std::vector<int64_t>> columns = read_label_columns(reader);
  check_count(reader, columns.empty() ? 0 : columns[0].size(), nodes);
  std::vector<at::Tensor> places;  // of the ones, [nodes] each
  int64_t width = 0;
  for (const std::vector<int64_t>& labels : columns) {
    const Renumbered renumbered = renumber(labels);
    places.push_back(int64_tensor(renumbered.places) + width);
    width += static_cast<int64_t>(renumbered.values.size());
  }
  // A feature for each: a file that numbers its nodes would ask for the square of its length.
  if (width > kMostNodeLabels) {
    io::fail(reader.origin(), "node labels must be at most ", kMostNodeLabels, " different integers, got ", width,
             "; data.features = degree, one_hot_degree or constant leaves them out");
  }
  check_feature_size(reader.origin(), nodes, width);
  return at::zeros({nodes, width}).scatter_(1, at::stack(places, 1), 1.0);
}

/// Node labels as unit vectors, then attributes.
at::Tensor given_features(const io::Origin& origin, const TuParts& parts, int64_t nodes) {
  std::vector<at::Tensor> features;
  if (const auto reader = parts("node_labels")) features.push_back(read_node_labels(*reader, nodes));
  if (const auto reader = parts("node_attributes")) features.push_back(read_attributes(*reader, nodes));
  if (features.empty()) {
    io::fail(origin, "the set has neither node labels nor node attributes: data.features must be degree, ",
             "one_hot_degree or constant, got given");
  }
  return at::cat(features, 1);
}

/// The prefix of the files of a folder, or of the members of a zip archive: NAME where one file ends in NAME_A.txt.
std::string tu_prefix(const io::Origin& origin, const std::vector<std::string>& files) {
  std::string prefix;
  for (const std::string& file : files) {
    const bool hidden = std::filesystem::path(file).filename().string().starts_with(".");
    if (hidden || !file.ends_with(kAdjacencyEnd)) continue;
    if (!prefix.empty()) io::fail(origin, "two TU sets, ", prefix, kAdjacencyEnd, " and ", file);
    prefix = file.substr(0, file.size() - kAdjacencyEnd.size());
  }
  if (prefix.empty()) io::fail(origin, "no file NAME_A.txt, which every TU set has");
  return prefix;
}

struct TuFiles {
  std::string name;
  TuParts parts;
};

TuFiles tu_folder(const io::Origin& origin) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(origin.path)) files.push_back(entry.path().string());
  const std::string prefix = tu_prefix(origin, files);
  return {std::filesystem::path(prefix).filename().string(),
          [op = origin.op, prefix](const std::string& part) -> std::unique_ptr<io::LineReader> {
            const std::string path = c10::str(prefix, "_", part, ".txt");
            if (!std::filesystem::exists(path)) return nullptr;
            return std::make_unique<io::LineReader>(io::Origin{op, path});
          }};
}

TuFiles tu_archive(const io::Origin& origin) {
  const auto file = std::make_shared<io::InputFile>(origin);
  const auto members = io::read_zip_directory(*file);
  std::vector<std::string> names;
  for (const auto& [name, member] : members) names.push_back(name);
  const std::string prefix = tu_prefix(origin, names);
  return {std::filesystem::path(prefix).filename().string(),
          [file, members, prefix](const std::string& part) -> std::unique_ptr<io::LineReader> {
            const auto member = members.find(c10::str(prefix, "_", part, ".txt"));
            if (member == members.end()) return nullptr;
            const auto reader = std::make_shared<io::ZipMemberReader>(*file, member->second);
            const io::Origin inside{file->origin().op, c10::str(file->origin().path, ": ", member->first)};
            return std::make_unique<io::LineReader>(inside, [file, reader](char* out, size_t bytes) {
              const auto count =
                  static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(bytes), reader->remaining()));
              reader->read(out, count);
              return count;
            });
          }};
}

}  // namespace

GraphSet read_tu(const io::Origin& origin, const TuParts& parts, const GraphDataOptions& options) {
  const Renumbered labels = renumber(read_integers(*required_part(origin, parts, "graph_labels"), "a graph label"));
  const auto graphs = static_cast<int64_t>(labels.places.size());
  if (graphs == 0) io::fail(origin, "the set has no graph: graph_labels is empty");
  const Indicator indicator = read_indicator(*required_part(origin, parts, "graph_indicator"), graphs);
  GraphSet set{.graph = read_adjacency(*required_part(origin, parts, kAdjacency), indicator),
               .offsets = int64_tensor(indicator.offsets),
               .labels = int64_tensor(labels.places)};
  if (options.features == "given") set.features = given_features(origin, parts, set.num_nodes());
  for (const int64_t value : labels.values) set.classes.push_back(std::to_string(value));
  return set;
}

LoadedGraphs open_tu(const GraphDataOptions& options) {
  const io::Origin origin{kOpenGraphs, options.path};
  refuse_packed(origin);
  const TuFiles files = std::filesystem::is_directory(options.path) ? tu_folder(origin) : tu_archive(origin);
  GraphSet set = read_tu(origin, files.parts, options);
  set.name = files.name;
  GraphSplit split = options.splits.empty() ? split_by_fraction(set.labels, options)
                                            : read_folds(options.splits, set.size(), options.fold, options.inner_split);
  return {std::move(set), std::move(split)};
}

}  // namespace topomask
