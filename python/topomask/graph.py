"""Graphs: weighted adjacency matrices in CSR, and their builders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import _edges, _errors, _ops, _values
from ._structure import Structure, device_and_dtype, register
from ._values import Values
from .pattern import Pattern

if TYPE_CHECKING:
    import networkx
    import scipy.sparse


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Structure):
    """An immutable weighted graph: its weighted adjacency matrix W in CSR, checked once, when it is made.

    offsets: int64 [N + 1]; columns: int32 [entries], ascending in each row; weights: float32 or float64 [entries].
    directed: False where W is symmetric. An undirected edge is stored in both rows, a self-loop once.

    Builders give weight 1 to every edge, in float32, on the CPU; isolated nodes are legal.

    Cost: O(N + entries) time and memory, unless a method says otherwise. Gradient: weights that require grad keep doing so in
    with_weights, from_csr and from_pattern, and have a gradient through `to`, `reversed`, `dense`, the functions of graphs and
    GraphBatch; from_edges and normalised refuse them, and nothing else here has a gradient.
    """

    offsets: Tensor
    columns: Tensor
    weights: Tensor
    directed: bool = False

    def __post_init__(self) -> None:
        self._object  # noqa: B018  (checks)

    def _make(self) -> Any:
        return _ops.static("Graph", "from_csr", self.offsets, self.columns, self.weights, self.directed)

    @classmethod
    def _of(cls, made: Any) -> Graph:
        offsets, columns, weights = _ops.method(made, "tensors")
        fields = {"offsets": offsets, "columns": columns, "weights": weights, "directed": _ops.method(made, "directed")}
        return cls._unchecked(fields)._with_object(made)

    @staticmethod
    def path(nodes: int) -> Graph:
        """0 – 1 – … – (nodes − 1)."""
        return Graph._of(_ops.static("Graph", "path", nodes))

    @staticmethod
    def cycle(nodes: int) -> Graph:
        """A ring. One node has no edge, two have one."""
        return Graph._of(_ops.static("Graph", "cycle", nodes))

    @staticmethod
    def grid(*dims: int | Sequence[int], wrap: bool = False) -> Graph:
        """A grid of any dimension, `grid(128, 128)` or `grid([128, 128])`: nodes in row-major order, an edge between nodes one
        step apart along one axis. wrap: every axis is a ring."""
        sizes = [size for dim in dims for size in _values.sizes("Graph.grid: dims", dim)]
        return Graph._of(_ops.static("Graph", "grid", sizes, wrap))

    @staticmethod
    def complete(nodes: int) -> Graph:
        """Every pair of nodes. Cost: O(N²)."""
        return Graph._of(_ops.static("Graph", "complete", nodes))

    @staticmethod
    def star(nodes: int) -> Graph:
        """Node 0 is the centre."""
        return Graph._of(_ops.static("Graph", "star", nodes))

    @staticmethod
    def hypercube(dimensions: int) -> Graph:
        """2^dimensions nodes; neighbours differ in one bit. Cost: O(2^dimensions·dimensions)."""
        return Graph._of(_ops.static("Graph", "hypercube", dimensions))

    @staticmethod
    def forest(parent: Tensor) -> Graph:
        """Trees, by the parent of each node: int64 or int32 [N], −1 at roots. A cycle is refused."""
        return Graph._of(_ops.static("Graph", "forest", parent))

    @staticmethod
    def tree(branching: int, height: int) -> Graph:
        """The complete tree in which every inner node has `branching` children; node 0 is the root, levels follow each other."""
        if branching < 1 or height < 0:
            raise ValueError(f"Graph.tree: branching must be >= 1 and height >= 0, got {branching} and {height}")
        nodes = sum(branching**level for level in range(height + 1))
        return Graph.forest(torch.div(torch.arange(nodes, device="cpu") - 1, branching, rounding_mode="floor"))

    @staticmethod
    def erdos_renyi(nodes: int, probability: float, seed: int = 0) -> Graph:
        """G(N, p): each pair independently with this probability; the same seed gives the same graph. Cost: O(N + E)."""
        return Graph._of(_ops.static("Graph", "erdos_renyi", nodes, probability, _ops.signed(seed)))

    @staticmethod
    def knn(points: Values, k: int = 3, *, directed: bool = False) -> Graph:
        """k nearest neighbours (Euclidean, exact) of points [N, dims]. directed: row i holds exactly its k nearest; otherwise
        there is an edge where either end chose the other. Points on a GPU give a graph there, for k and dims up to 32.

        Cost: on the CPU O(N·k·log N) in few dimensions, by a k-d tree; on a GPU all N² pairs are compared."""
        return Graph._of(_ops.static("Graph", "knn", _values.tensor("Graph.knn: points", points), k, directed))

    @staticmethod
    def icosphere(level: int) -> Graph:
        """The edges of an icosahedron subdivided `level` times: 10·4^level + 2 nodes. `topomask.icosphere` has the points.
        Cost: O(4^level)."""
        from .meshes import icosphere

        return icosphere(level)[1]

    @staticmethod
    def from_edges(
        nodes: int,
        source: Values,
        target: Values,
        weights: Values | None = None,
        *,
        directed: bool = False,
        duplicates: str = "first",
        self_loops: str = "keep",
    ) -> Graph:
        """source, target: int64 or int32 [E]; weights: float32 or float64 [E], 1 where left out.

        W[source, target] = weight: row u attends to column v, so that `source` is the node that attends. directed False: (u, v)
        also stores (v, u), and both spellings are the same edge. duplicates: "first" (keep the weight given first), "sum" or
        "refuse"; self_loops: "keep", "drop" or "refuse". Edges on a GPU give a graph there, made on the CPU. Cost: O(N + E).
        """
        given = {"source": source, "target": target}
        ends = [_values.numbers_of_nodes(f"Graph.from_edges: {name}", end) for name, end in given.items()]
        values = None if weights is None else _values.real("Graph.from_edges: weights", weights)
        device = ends[0].device
        for name, tensor in (("target", ends[1]), ("weights", values)):
            if tensor is not None and tensor.device != device:
                raise ValueError(f"Graph.from_edges: {name} must be on {device}, where source is, got {tensor.device}")
        if device.type == "cuda":
            ends, values = [end.cpu() for end in ends], None if values is None else values.cpu()
        made = Graph._of(_ops.static("Graph", "from_edges", nodes, *ends, values, directed, duplicates, self_loops))
        return made.to(device) if device.type == "cuda" else made

    @staticmethod
    def from_edge_index(edge_index: Values, weights: Values | None = None, num_nodes: int | None = None, **options: Any) -> Graph:
        """Edges [2, E], also PyG's EdgeIndex; options as in `from_edges`. num_nodes: the largest index + 1 where left out.

        Node edge_index[0, e] attends to edge_index[1, e]. In PyG, messages flow from edge_index[0] to edge_index[1], so that a node
        attends to the sources of its edges: `.reversed()` of a directed graph, or `from_pyg(data, flow="source_to_target")`.
        """
        edges = _edges.pairs("Graph.from_edge_index: edge_index", edge_index)
        nodes = num_nodes if num_nodes is not None else (int(edges.max()) + 1 if edges.numel() else 0)
        return Graph.from_edges(nodes, edges[0], edges[1], weights, **options)

    @staticmethod
    def from_csr(offsets: Values, columns: Values, weights: Values | None = None, *, directed: bool = False) -> Graph:
        """offsets int64 [N + 1], columns int32 [E] ascending in each row; symmetric unless directed, which is checked."""
        given = {"offsets": offsets, "columns": columns, "weights": weights}
        csr = [None if value is None else _values.tensor(f"Graph.from_csr: {name}", value) for name, value in given.items()]
        return Graph._of(_ops.static("Graph", "from_csr", *csr, directed))

    @staticmethod
    def from_pattern(pattern: Pattern, weights: Tensor, *, directed: bool = False) -> Graph:
        """The adjacency over a square pattern that exists already; weights [entries] in the order of the pattern."""
        return Graph._of(_ops.static("Graph", "from_pattern", pattern._object, pattern.arranged(weights), directed))

    @staticmethod
    def from_networkx(
        graph: networkx.Graph,
        *,
        weight: str | None = "weight",
        dtype: torch.dtype = torch.float32,
        duplicates: str = "refuse",
    ) -> Graph:
        """A NetworkX graph; nodes in the order of graph.nodes, the edge attribute `weight` (1 where absent). u → v makes u attend
        to v. duplicates: "sum" adds the weights of the parallel edges of a multigraph, "first" keeps one of them."""
        from .convert import from_networkx

        return from_networkx(graph, weight=weight, dtype=dtype, duplicates=duplicates)

    @staticmethod
    def from_scipy(matrix: scipy.sparse.sparray, *, directed: bool | None = None) -> Graph:
        """A SciPy sparse matrix, W itself; entries given twice are added up. A stored 0, and a sum that is 0, is no edge.

        directed, where left out: whether an entry differs from its mirror image by more than 10⁻⁵ of the larger. What differs by
        less, as affinities do by rounding, and is not called directed becomes the mean of the two.
        """
        from .convert import from_scipy

        return from_scipy(matrix, directed=directed)

    @staticmethod
    def from_pyg(
        data: Any,
        *,
        directed: bool | None = None,
        flow: str = "target_to_source",
        duplicates: str = "first",
        self_loops: str = "keep",
    ) -> Graph:
        """A PyG `Data`, on any device: its num_nodes and edge_index with edge_weight where there is one, otherwise its adj_t.

        directed, where left out: as in from_scipy. flow, which matters where edges are directed: "target_to_source" takes
        edge_index as it stands, so that the source of an edge attends to its target (W[source, target] = weight);
        "source_to_target", which is the flow of PyG's layers, gives that graph reversed: a node attends to those whose messages it
        would receive. GPSAttention and TransformerConv attend so.

        duplicates and self_loops: as in from_edges, but for an edge and its mirror image, which PyG gives both for one
        undirected edge: they are no duplicates of each other.
        """
        from .convert import from_pyg

        return from_pyg(data, directed=directed, flow=flow, duplicates=duplicates, self_loops=self_loops)

    @staticmethod
    def read(path: str | os.PathLike[str], **options: Any) -> Graph:
        """`topomask.read_graph`: a file by its extension."""
        from .io import read_graph

        return read_graph(path, **options)

    def write(self, path: str | os.PathLike[str]) -> None:
        """`topomask.write_graph`: a file by its extension."""
        from .io import write_graph

        write_graph(self, path)

    @property
    def num_nodes(self) -> int:
        return self.offsets.shape[0] - 1

    @property
    def num_entries(self) -> int:
        """Stored entries of W: two per undirected edge, one per loop."""
        return self.columns.shape[0]

    @property
    def num_edges(self) -> int:
        """Edges, each undirected one counted once."""
        return int(_ops.method(self._object, "num_edges"))

    @property
    def device(self) -> torch.device:
        return self.weights.device

    @property
    def dtype(self) -> torch.dtype:
        return self.weights.dtype

    @property
    def pattern(self) -> Pattern:
        """The positions of the entries of W."""
        return Pattern._of(_ops.method(self._object, "pattern"), self.num_nodes)

    @property
    def degrees(self) -> Tensor:
        """int64 [N]: stored neighbours of each row (out-degree where directed)."""
        degrees: Tensor = _ops.method(self._object, "degrees")
        return degrees

    @property
    def max_degree(self) -> int:
        return int(self.degrees.max()) if self.num_nodes else 0

    def neighbourhoods(self, hops: int, *, max_entries: int = 1 << 31) -> Pattern:
        """The pattern with an entry (i, j) where j is at most `hops` edges from i, i itself included: attention inside
        neighbourhoods by `sparse_mask(pattern, torch.ones(pattern.entries))`. Cost: O(entries·degree), a breadth-first search;
        refused beyond max_entries."""
        return Pattern._of(_ops.method(self._object, "neighbourhoods", hops, max_entries), self.num_nodes)

    def edge_index(self) -> Tensor:
        """int64 [2, entries]: every stored entry (row, column)."""
        return self.pattern.edge_index()

    def entries_of(self, edge_index: Values) -> Tensor:
        """int64 [E]: the place of each edge (row, column) of edge_index [2, E] among the stored entries, so that
        `graph.weights[graph.entries_of(edge_index)]` are the weights of these edges.

        An edge that is not in the graph is refused; the error names the first. Of a graph that was reversed, as
        `from_pyg(data, flow="source_to_target")` is, the entries are those of `edge_index.flip(0)`.

        Cost: O((entries + E) log entries).
        """
        return _edges.entries_of(self, edge_index)

    def edge_of_entry(self, edge_index: Values) -> Tensor:
        """int64 [entries]: the place in edge_index [2, E] of the edge of each stored entry. A learned value per edge becomes
        the weights of the graph by

            edge = graph.edge_of_entry(edge_index)  # once
            weighted = graph.with_weights(values.index_select(0, edge))  # in every step; values [E] learn

        Both entries of an undirected edge have the value of one place: where edge_index has the edge several times, in
        either direction, it is the first. Every entry must have an edge; the error names the first entry without. Values of
        edges that are not in the graph, such as self-loops that were dropped, are not used. For a graph that was reversed,
        edge_index is flipped as in entries_of. Cost: O((entries + E) log E).
        """
        return _edges.edge_of_entry(self, edge_index)

    def dense(self) -> Tensor:
        """W, [N, N], differentiable in the weights. Cost: O(N²), for tests and pictures."""
        matrix: Tensor = _ops.method(_ops.method(self._object, "pattern"), "dense", self.weights)
        return matrix

    def normalised(self, scale: float = 1.0) -> Graph:
        """W_ij = scale/√(d_i d_j) on the edges, d the (out-)degree, 1 in place of 0. Replaces the weights, and depends on none of
        them, so that weights that require grad are refused: normalise first, then `with_weights`."""
        return Graph._of(_ops.method(self._object, "normalised", scale))

    def with_weights(self, weights: Tensor) -> Graph:
        """The same edges with other weights [num_entries], in the order of the entries; `edge_of_entry` has the order of an
        edge_index. Weights that require grad keep doing so. A contiguous tensor is shared, not copied. Cost: O(entries) on the CPU,
        where values and symmetry are checked."""
        return Graph._of(_ops.method(self._object, "with_weights", weights))

    def reversed(self) -> Graph:
        """Wᵀ; the graph itself where undirected."""
        return Graph._of(_ops.method(self._object, "reversed"))

    def to(self, *args: Any, **kwargs: Any) -> Graph:
        """Weights as float32 or float64; everything on another device."""
        device, dtype = device_and_dtype(args, kwargs)
        return Graph._of(_ops.method(self._object, "to", device, dtype))

    def to_networkx(self) -> networkx.Graph:
        """As a NetworkX graph with `weight` on the edges."""
        from .convert import to_networkx

        return to_networkx(self)

    def to_scipy(self) -> scipy.sparse.csr_array:
        """W as a SciPy matrix; shares no memory."""
        from .convert import to_scipy

        return to_scipy(self)

    def plot(self, positions: Values | None = None, *, values: Values | None = None, ax: Any = None) -> Any:
        """Draws the graph with matplotlib and returns the axes. positions [N, 2] or [N, 3]; where left out, a grid lies as a grid,
        and others up to 2 000 nodes by their distances in hops. values [N]: the colours of the nodes. Cost: O(N + entries), and
        O(N³) where a layout is computed."""
        from .plotting import plot_graph

        return plot_graph(self, positions, values, ax)

    def __repr__(self) -> str:
        kind = "directed, " if self.directed else ""
        where = "" if self.device.type == "cpu" else f", {self.device}"
        return f"Graph({kind}{self.num_nodes} nodes, {self.num_edges} edges, {str(self.dtype)[6:]}{where})"


register(Graph)


_errors.explain_arguments(__name__)
