#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/graph.h"
#include "topomask/sparse.h"
#include "topomask/walks.h"

namespace TOPOMASK_API topomask {

/// Which part of a graph owns each node. The part that owns a node owns its row: the query, the output, the walks.
struct Partition {
  at::Tensor owners;  ///< int32 [N], in [0, parts)
  int64_t parts = 0;

  int64_t num_nodes() const { return owners.size(0); }
  at::Tensor nodes(int64_t part) const;  ///< int64: the nodes of a part, ascending. O(N)
  /// A number that differs, up to chance, between partitions that differ in any node or in the number of parts.
  int64_t fingerprint() const;
};

enum class PartitionMethod {
  automatic,  ///< metis where the library was built with it, otherwise cuthill_mckee
  metis,      ///< multilevel k-way partitioning with few cut edges (Karypis and Kumar 1998); needs libmetis
  /// Ranges of as equal a number of nodes as possible after reverse Cuthill-McKee: no dependency, more cut edges.
  cuthill_mckee,
  ranges,  ///< ranges of the node numbers as they are, for graphs that are in a good order already
};

/// Whether the library was built with METIS.
bool has_metis();

/// Divides the nodes of a graph into 1 ≤ parts ≤ max(N, 1) parts, none of them empty where N > 0. Weights and
/// directions do not count. Deterministic. METIS: fewer than 2³¹ entries; where it leaves a part empty, which happens
/// on very small graphs, that part is given a node of the largest one. O(N + E).
Partition partition(const Graph& graph, int64_t parts, PartitionMethod method = PartitionMethod::automatic);

/// A partition that the user brings: owners int32 or int64 [nodes], every number in [0, parts), no part empty.
Partition given_partition(int64_t nodes, const at::Tensor& owners, int64_t parts);

/// What a partition costs, for attention over neighbours.
struct PartitionStatistics {
  at::Tensor rows;          ///< int64 [parts]: nodes that a part owns
  at::Tensor entries;       ///< int64 [parts]: entries of W in its rows
  at::Tensor halo;          ///< int64 [parts]: distinct columns in its rows that other parts own
  int64_t cut_entries = 0;  ///< entries (i, j) of W with i and j in different parts: twice the cut edges if undirected
};
PartitionStatistics partition_statistics(const Graph& graph, const Partition& partition);

/// The rows of sample_walks(graph, options) of these start nodes only: int64 [n], ascending and distinct. Bit for bit
/// those of the whole table, since random numbers are keyed by the start node; no walk depends on another row. The
/// pattern is [n, N]. On the CPU, for weights that do not require grad.
WalkTable::Arrays sample_walks_from(const Graph& graph, const at::Tensor& starts, const WalkOptions& options = {});

/// Walkers that travel: those that stand on nodes of this part, at one hop.
struct Travellers {
  at::Tensor starts;     ///< int64 [n]: the node that each started from, …
  at::Tensor numbers;    ///< … and its number, int64 [n]; both ascending together: by start, then by number
  at::Tensor positions;  ///< int64 [n]: where it stands
  at::Tensor loads;      ///< [n], of the dtype of W
};

/// One hop, `hop` → `hop` + 1, of walkers over the rows of a part: those that arrive, with their new positions. `rows`
/// has the rows of W that the part owns, in any numbering of the nodes that keeps their order (directed, empty rows
/// elsewhere); positions are in that numbering, starts in that of the whole graph. options.proposal_weights are those
/// of the entries of `rows`. Bit for bit the hop of sample_walks, since a walker needs no state of the random numbers,
/// and repelling walkers that stand on one node are all here.
Travellers travel(const Graph& rows, const WalkOptions& options, int64_t hop, const Travellers& walkers);

/// The rows of a part prepared for all hops: what `travel` makes again in each call, such as the alias tables of a
/// proposal that is not uniform, O(nodes + entries), is made once.
class TravelGround {
 public:
  TravelGround(const Graph& rows, const WalkOptions& options);
  Travellers travel(int64_t hop, const Travellers& walkers) const;

 private:
  struct Prepared;
  std::shared_ptr<const Prepared> prepared_;
};

/// The rows of a walk table from what its walkers visited, in any order: visit v was by walker numbers[v] of the node
/// starts[v], at hop hops[v], of the node positions[v], with the load loads[v] (int64 [V], and [V] of the dtype of W).
/// rows: int64 [n], ascending: the start nodes, every one of which has its visits at hop 0. Bit for bit the rows of
/// sample_walks, if the visits are.
WalkTable::Arrays table_of_visits(const at::Tensor& rows, int64_t nodes, const WalkOptions& options,
                                  const Travellers& visits, const at::Tensor& hops);

/// What one part of a graph is on disk: the rows of W that it owns, with columns as they are in the whole graph.
struct Shard {
  int64_t nodes = 0;  ///< N, of the whole graph
  int64_t parts = 0;
  int64_t part = 0;
  bool directed = false;
  int64_t partition_fingerprint = 0;
  at::Tensor rows;     ///< int64 [n]: the nodes that this part owns, ascending
  at::Tensor offsets;  ///< int64 [n + 1]
  at::Tensor columns;  ///< int32 [entries], ascending in each row
  at::Tensor weights;  ///< float32 or float64 [entries]

  /// A sum over the entries (i, j, W_ij), so that the fingerprint of a graph is the sum of those of its shards, however
  /// it is divided. Summed modulo 2⁶⁴.
  int64_t fingerprint() const;
};

/// The rows of one part of a graph in memory, whose weights do not require grad.
Shard shard_of(const Graph& graph, const Partition& partition, int64_t part);

/// What a folder of shards has in common: the partition, and what each shard must be.
struct ShardIndex {
  Partition partition;
  bool directed = false;
  at::Tensor fingerprints;  ///< int64 [parts]: Shard::fingerprint
};

/// Writes `index.tmshards` and `shard-PPPPP-of-QQQQQ.tmshard` for every part into a folder, which is made where there
/// is none. Each file has a version and a checksum and appears when it is whole; the index is written last. Weights
/// that require grad are written with their present values.
void write_shards(const Graph& graph, const Partition& partition, const std::string& folder);

/// Shards of a text file of edges, one "source target [weight]" a line, # comments, plain or gzip, of which only a part
/// is ever in memory: the owners, one megabyte per part, and then the entries of one part after the other. The file is
/// read once; its edges go through one temporary file per part in the folder. Nodes are partition.num_nodes(); ids are
/// taken as they are. directed = false stores each edge in both rows. An edge given twice keeps the weight given first,
/// as in Graph::from_edges; self-loops are kept.
void shard_edge_list(const std::string& path, const Partition& partition, const std::string& folder, bool directed,
                     at::ScalarType weight_dtype = at::kFloat);

/// Refuses files that are damaged in any byte, that are of another version, or a shard that is not the one that the
/// index lists.
ShardIndex read_shard_index(const std::string& folder);
Shard read_shard(const std::string& folder, const ShardIndex& index, int64_t part);

/// The rows of other ranks that this rank needs, as `tm.dist.HaloPlan` has them.
struct HaloRows {
  at::Tensor send_index;             ///< int64 [s]: the rows of this rank that it sends, rank by rank
  std::vector<int64_t> send_splits;  ///< [ranks]: how many to each
  std::vector<int64_t> recv_splits;  ///< [ranks]: how many come from each
  /// The most rows that one rank sends another, the same number on every rank: it decides into how many messages they
  /// are cut. Where it is negative, each exchange finds it by an all-reduce, which waits for every rank.
  int64_t largest = -1;
};

/// The most bytes that one rank sends another in one message; Gloo fails on those of several gigabytes.
constexpr int64_t kMessageBytes = int64_t{1} << 28;

/// A halo exchange under way: rows travel while the caller computes what needs none of them.
class HaloExchange {
 public:
  struct Travel;

  ~HaloExchange();
  HaloExchange(HaloExchange&&) noexcept;
  HaloExchange& operator=(HaloExchange&&) noexcept;

  /// x, to compute with meanwhile in its place: gradients of the halo are then added to those of the local work once
  /// that is over, backward too, so that their communication overlaps with it.
  const at::Tensor& own() const { return own_; }

  /// The halo [..., h, C], once it is there; the same tensor each time.
  at::Tensor wait();

 private:
  friend HaloExchange start_halo_exchange(const at::Tensor& x, const HaloRows& rows, const std::string& group,
                                          int64_t message_bytes);
  HaloExchange(const at::Tensor& x, HaloRows rows, const std::string& group, int64_t message_bytes);

  c10::intrusive_ptr<Travel> travel_;
  at::Tensor sent_, own_, halo_;
};

/// Starts to send the rows of x [..., n, C] that other ranks need, by all-to-alls of torch.distributed over the process
/// group of that name (the operator `_c10d_functional::all_to_all_single`, so that no header of a backend is needed),
/// and returns at once; `wait` gives the halo. Rows whose bytes to one rank exceed message_bytes travel in several
/// messages. Differentiable in x: backward, gradients of the halo start to travel back when they are known, and are
/// awaited after those of what was computed between the two calls. Every rank starts and waits, and differentiates
/// something of its halo if one does. The operator `start_halo_exchange`.
HaloExchange start_halo_exchange(const at::Tensor& x, const HaloRows& rows, const std::string& group,
                                 int64_t message_bytes = kMessageBytes);

/// The halo [..., h, C] of x [..., n, C]: starts the exchange and waits for it. A collective call, also backward. The
/// operator `halo_exchange`.
at::Tensor halo_exchange(const at::Tensor& x, const HaloRows& rows, const std::string& group,
                         int64_t message_bytes = kMessageBytes);

/// What a rank needs of others and what others need of it, found from the nodes that it needs. Making one is a
/// collective call: every rank of the group gives the same partition and, as `part`, its place in the group. What one
/// rank refuses all refuse. A partition of one part needs no group. Indices are on the CPU, and the group must have a
/// backend for it.
struct HaloPlan {
  /// needed: int64 [h], ascending and distinct, nodes that other parts own.
  HaloPlan(const Partition& partition, int64_t part, const at::Tensor& needed, const std::string& group);

  at::Tensor halo;  ///< int64 [h]: the nodes needed, by owner and then number: the order of the rows that arrive
  HaloRows rows;    ///< with `largest`

 private:
  friend class LocalRows;
  HaloPlan(const char* op, const Partition& partition, int64_t part, const std::function<at::Tensor()>& needed,
           const std::string& group);
};

/// The rows of a sparse mask M that one rank owns, and attention of these rows over the ranks of a group. Rows whose
/// columns are all at home are computed while k and v of the halo travel; backward, while gradients of the halo travel.
/// Every row sees all its columns, so that no softmax and no denominator crosses ranks.
class LocalRows {
 public:
  /// rows: [n, N], the rows of M of the nodes partition.nodes(part), with columns as they are in the whole graph, on
  /// the CPU. A collective call, as HaloPlan is. Time and memory O(entries·log entries) and O(entries + N).
  LocalRows(const Partition& partition, int64_t part, const SparsePattern& rows, const std::string& group);

  const HaloPlan& plan() const { return plan_; }

  /// out_i = Σ_j A_ij v_j / D_i with A_ij = M_ij (q_i·k_j) and D_i = Σ_j A_ij, kept at least eps from zero with its
  /// sign: `attention` of this rank's rows, on features. q, k [..., n, m] and v [..., n, d] are those of the rank's
  /// nodes, in float64, float32 or bfloat16; values [entries], or [H, entries] with dimension −3 of q being H, in the
  /// order of `rows`, in float64 for float64 and in float32 otherwise. Returns [..., n, d]. Differentiable once, in q,
  /// k, v and values. A collective call, also backward: every rank differentiates, with respect to the same arguments.
  /// Cost: entries·(m + d) multiply-adds per slice; the halo travels, (m + d) numbers a row, and back in the backward
  /// pass.
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& values,
                       double eps = 1e-6) const;

  /// The same with A_ij = M_ij exp(scale·q_i·k_j): `softmax_attention` with SoftmaxMask::multiplicative. scale: 1/√m
  /// where it is empty.
  at::Tensor softmax_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& values,
                               std::optional<double> scale = {}, double eps = 1e-6) const;

 private:
  struct Rule;
  struct Piece {
    at::Tensor rows;     // undefined: all
    at::Tensor entries;  // the place of each value; undefined: as they are
    PatternPtr pattern;  // over [own rows `used_` | halo], or own rows
  };

  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& values,
                    const Rule& rule) const;

  int64_t nodes_, entries_;
  std::string group_;
  HaloPlan plan_;
  Piece inside_, border_;   // border_ has no pattern where no rank has a halo
  at::Tensor used_, back_;  // own rows that rows of the border see; the place of each row in [inside | border]
};

/// Σ over the ranks of x, on every rank, in messages of at most kMessageBytes; differentiable, backward the sum of the
/// gradients of all ranks. A collective call, also backward. The operator `sum_over_ranks`.
at::Tensor sum_over_ranks(const at::Tensor& x, const std::string& group);

}  // namespace topomask
