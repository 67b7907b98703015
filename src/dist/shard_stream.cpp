#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "dist/write_shard.h"
#include "io/append_file.h"
#include "io/input_file.h"
#include "io/text_reader.h"
#include "topomask/dist.h"

namespace topomask {
namespace {

struct StreamedEdge {
  int32_t row, column;
  double weight;
};
static_assert(sizeof(StreamedEdge) == 16);

/// The edges of each part, in the order of the input, in one temporary file a part that does not outlive this object.
class EdgeBuckets {
 public:
  EdgeBuckets(const std::string& folder, int64_t parts) : folder_(folder), buckets_(static_cast<size_t>(parts)) {}
  ~EdgeBuckets() {
    std::error_code ignored;
    for (size_t part = 0; part < buckets_.size(); ++part) std::filesystem::remove(path(part), ignored);
  }
  EdgeBuckets(const EdgeBuckets&) = delete;
  EdgeBuckets& operator=(const EdgeBuckets&) = delete;

  void add(int32_t part, StreamedEdge edge) {
    auto& buffer = buckets_[static_cast<size_t>(part)].buffer;
    if (buffer.capacity() == 0) buffer.reserve(kBuffered);
    buffer.push_back(edge);
    if (buffer.size() == kBuffered) flush(static_cast<size_t>(part));
  }

  /// All edges of a part; its file is removed.
  std::vector<StreamedEdge> take(int64_t part) {
    const auto place = static_cast<size_t>(part);
    flush(place);
    buckets_[place].buffer.shrink_to_fit();
    std::vector<StreamedEdge> edges(buckets_[place].written);
    if (!edges.empty()) {
      const size_t bytes = edges.size() * sizeof(StreamedEdge);
      io::InputFile file({"shard_edge_list", path(place)});
      const int64_t size = file.size().value_or(0);
      if (size != static_cast<int64_t>(bytes)) io::fail(file.origin(), "expected ", bytes, " bytes, got ", size);
      file.read_at(0, reinterpret_cast<char*>(edges.data()), bytes);
      std::filesystem::remove(path(place));
    }
    return edges;
  }

 private:
  static constexpr size_t kBuffered = (1 << 20) / sizeof(StreamedEdge);

  struct Bucket {
    std::vector<StreamedEdge> buffer;
    size_t written = 0;  ///< edges in the file
  };

  std::string path(size_t part) const { return c10::str(folder_, "/edges-", part, ".partial"); }

  void flush(size_t part) {
    auto& [buffer, written] = buckets_[part];
    if (buffer.empty()) return;
    // Opened for each megabyte, so that a thousand parts do not take a thousand descriptors. What a process that was
    // killed left behind under this name is dropped.
    using Start = io::AppendFile::Start;
    io::AppendFile file({"shard_edge_list", path(part)}, written == 0 ? Start::empty : Start::keep);
    file.append({reinterpret_cast<const char*>(buffer.data()), buffer.size() * sizeof(StreamedEdge)});
    written += buffer.size();
    buffer.clear();
  }

  std::string folder_;
  std::vector<Bucket> buckets_;
};

void read_edges(io::TextReader& reader, const Partition& partition, bool directed, at::ScalarType dtype,
                EdgeBuckets& buckets) {
  const int32_t* owner = partition.owners.const_data_ptr<int32_t>();
  const auto node = [&](const char* what) {
    const int64_t id = reader.integer(what);
    if (id >= partition.num_nodes()) {
      reader.fail_here("node id ", id, ": the partition has ", partition.num_nodes(), " nodes");
    }
    return static_cast<int32_t>(id);
  };
  std::optional<bool> weighted;  // the first edge decides whether all have a weight, as for read_snap
  while (reader.peek_content('#') == io::TextReader::Next::token) {
    const int32_t source = node("a node id"), target = node("a target node id");
    const bool has_weight = reader.peek() == io::TextReader::Next::token;
    if (!weighted) weighted = has_weight;
    const char* what = has_weight ? "a weight" : "a weight, as on the lines before";
    const double weight = *weighted ? reader.number(what, dtype) : 1.0;
    reader.end_line();
    buckets.add(owner[source], {source, target, weight});
    if (!directed && source != target) buckets.add(owner[target], {target, source, weight});
  }
}

/// Rows in order, an edge that was given twice with the weight given first.
Shard shard_of_edges(std::vector<StreamedEdge> edges, Shard shard, at::ScalarType dtype) {
  const auto before = [](const StreamedEdge& a, const StreamedEdge& b) {
    return std::pair(a.row, a.column) < std::pair(b.row, b.column);
  };
  std::stable_sort(edges.begin(), edges.end(), before);
  const auto same = [](const StreamedEdge& a, const StreamedEdge& b) { return a.row == b.row && a.column == b.column; };
  edges.erase(std::unique(edges.begin(), edges.end(), same), edges.end());
  const auto entries = static_cast<int64_t>(edges.size());
  const int64_t count = shard.rows.size(0);
  const int64_t* row = shard.rows.const_data_ptr<int64_t>();
  shard.offsets = at::empty({count + 1}, at::kLong);
  shard.columns = at::empty({entries}, at::kInt);
  const at::Tensor weights = at::empty({entries}, at::kDouble);
  int64_t* offset = shard.offsets.mutable_data_ptr<int64_t>();
  int64_t e = 0;
  for (int64_t r = 0; r < count; ++r) {
    offset[r] = e;
    while (e < entries && edges[static_cast<size_t>(e)].row == row[r]) ++e;
  }
  offset[count] = e;
  TORCH_INTERNAL_ASSERT(e == entries);
  for (int64_t k = 0; k < entries; ++k) {
    shard.columns.mutable_data_ptr<int32_t>()[k] = edges[static_cast<size_t>(k)].column;
    weights.mutable_data_ptr<double>()[k] = edges[static_cast<size_t>(k)].weight;
  }
  shard.weights = weights.to(dtype);
  return shard;
}

}  // namespace

void shard_edge_list(const std::string& path, const Partition& partition, const std::string& folder, bool directed,
                     at::ScalarType weight_dtype) {
  TORCH_CHECK(weight_dtype == at::kFloat || weight_dtype == at::kDouble,
              "shard_edge_list: weight_dtype must be Float or Double, got ", weight_dtype);
  std::filesystem::create_directories(folder);
  EdgeBuckets buckets(folder, partition.parts);
  io::TextReader reader({"shard_edge_list", path});
  read_edges(reader, partition, directed, weight_dtype, buckets);
  ShardIndex index{partition, directed, at::empty({partition.parts}, at::kLong)};
  int64_t* fingerprints = index.fingerprints.mutable_data_ptr<int64_t>();
  const int64_t fingerprint = partition.fingerprint();
  for (int64_t part = 0; part < partition.parts; ++part) {
    const Shard empty{.nodes = partition.num_nodes(),
                      .parts = partition.parts,
                      .part = part,
                      .directed = directed,
                      .partition_fingerprint = fingerprint,
                      .rows = partition.nodes(part)};
    fingerprints[part] =
        write_shard("shard_edge_list", shard_of_edges(buckets.take(part), empty, weight_dtype), folder);
  }
  write_index("shard_edge_list", index, folder);
}

}  // namespace topomask
