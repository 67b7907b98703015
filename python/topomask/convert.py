"""Graphs from and to NetworkX, SciPy and PyG. Each library is imported only when it is asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._values import numbers_of_nodes, plain
from .graph import Graph

if TYPE_CHECKING:
    import networkx
    import scipy.sparse


_ROUNDING = 1e-5  # of the larger of two mirrored weights; more than what float32 loses in an affinity


def from_networkx(
    graph: networkx.Graph, *, weight: str | None = "weight", dtype: torch.dtype = torch.float32, duplicates: str = "refuse"
) -> Graph:
    if not hasattr(graph, "is_multigraph"):
        raise TypeError(f"Graph.from_networkx: graph must be a networkx graph, got {type(graph).__name__}")
    if graph.is_multigraph() and duplicates == "refuse":
        raise ValueError(
            'Graph.from_networkx: duplicates must be "sum", which adds the weights of parallel edges, or "first" for a multigraph, '
            "got refuse"
        )
    place = {node: index for index, node in enumerate(graph.nodes)}
    edges = list(graph.edges(data=True))
    index = torch.tensor([(place[u], place[v]) for u, v, _ in edges], dtype=torch.int64, device="cpu").reshape(-1, 2).T
    weights = None
    if weight is not None and any(weight in data for _, _, data in edges):
        weights = torch.tensor([_number(weight, edge) for edge in edges], dtype=dtype, device="cpu")
    made = Graph.from_edges(len(place), index[0], index[1], weights, directed=graph.is_directed(), duplicates=duplicates)
    return made if made.dtype == dtype else made.to(dtype)


def _number(weight: str, edge: tuple[Any, Any, dict[str, Any]]) -> float:
    u, v, data = edge
    try:
        return float(data.get(weight, 1.0))
    except (TypeError, ValueError):
        raise TypeError(
            f"Graph.from_networkx: {weight} of edge ({u!r}, {v!r}) must be a number, got {data[weight]!r}; weight= names another "
            "attribute, weight=None takes 1"
        ) from None


def to_networkx(graph: Graph) -> networkx.Graph:
    import networkx

    made = networkx.DiGraph() if graph.directed else networkx.Graph()
    made.add_nodes_from(range(graph.num_nodes))
    rows, columns = graph.edge_index().tolist()
    weights = graph.weights.detach().tolist()
    made.add_weighted_edges_from((u, v, w) for u, v, w in zip(rows, columns, weights) if graph.directed or u <= v)
    return made


def from_scipy(matrix: scipy.sparse.sparray, *, directed: bool | None = None) -> Graph:
    if not hasattr(matrix, "tocsr"):
        raise TypeError(f"Graph.from_scipy: matrix must be a SciPy sparse matrix, got {type(matrix).__name__}")
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"Graph.from_scipy: matrix must be square, got {list(matrix.shape)}")
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"Graph.from_scipy: matrix must have real entries, got {matrix.dtype}")
    csr = matrix.astype("float64").tocsr()  # before duplicates are added up, which a narrow type could not hold; a copy
    csr.sum_duplicates()
    csr.sort_indices()
    csr = csr.astype("float64" if matrix.dtype.kind == "f" and matrix.dtype.itemsize == 8 else "float32")
    csr.eliminate_zeros()
    if not directed:
        mirrored = csr.T.tocsr()
        mirrored.sort_indices()
        apart = _apart(csr, mirrored)
        if directed is None:
            directed = apart > _ROUNDING
        if 0 < apart <= _ROUNDING:
            csr.data = (csr.data + mirrored.data) / 2
    weights = torch.as_tensor(csr.data, device="cpu")
    offsets = torch.as_tensor(csr.indptr, device="cpu").to(torch.int64)
    columns = torch.as_tensor(csr.indices, device="cpu").to(torch.int32)
    return Graph.from_csr(offsets, columns, weights, directed=directed)


def _apart(a: Any, b: Any) -> float:
    """The largest difference of two CSR matrices, relative to the larger of the two entries; infinite where patterns differ."""
    if a.nnz != b.nnz or (a.indptr != b.indptr).any() or (a.indices != b.indices).any():
        return math.inf
    return _relative(torch.as_tensor(a.data, device="cpu"), torch.as_tensor(b.data, device="cpu"))


def _relative(a: Tensor, b: Tensor) -> float:
    """max |a − b| / max(|a|, |b|), 0 where the two are equal."""
    ratios = torch.where(a == b, 0.0, (a - b).abs() / torch.maximum(a.abs(), b.abs()))
    return float(ratios.max()) if len(ratios) else 0.0


def to_scipy(graph: Graph) -> scipy.sparse.csr_array:
    import scipy.sparse

    arrays = (tensor.detach().cpu().clone().numpy() for tensor in (graph.weights, graph.columns, graph.offsets))
    return scipy.sparse.csr_array(tuple(arrays), shape=(graph.num_nodes, graph.num_nodes))


def _symmetric(edge_index: Tensor, weights: Tensor | None, nodes: int) -> bool:
    """Whether every edge has its mirror image, of the same weight but for rounding; how often an edge is given does not count."""
    edge_index = edge_index.to(torch.int64)  # products of two int32 numbers of nodes overflow

    def ordered(index: Tensor) -> tuple[Tensor, Tensor | None]:
        keys = index[0] * nodes + index[1]
        order = torch.arange(len(keys), device=keys.device)
        if weights is not None:  # edges given several times in one order
            order = torch.argsort(weights.detach(), stable=True)
        order = order[torch.argsort(keys[order], stable=True)]
        keys, values = keys[order], None if weights is None else weights.detach()[order]
        new = torch.ones_like(keys, dtype=torch.bool)
        new[1:] = keys.diff() != 0 if values is None else (keys.diff() != 0) | (values.diff() != 0)
        return keys[new], None if values is None else values[new]

    (keys, values), (mirrored, others) = ordered(edge_index), ordered(edge_index.flip(0))
    if not torch.equal(keys, mirrored):
        return False
    return values is None or others is None or _relative(values.double(), others.double()) <= _ROUNDING


FLOWS = ("target_to_source", "source_to_target")


def from_pyg(
    data: Any,
    *,
    directed: bool | None = None,
    flow: str = "target_to_source",
    duplicates: str = "first",
    self_loops: str = "keep",
) -> Graph:
    if flow not in FLOWS:
        raise ValueError(f"Graph.from_pyg: flow must be one of {', '.join(FLOWS)}, got {flow}")
    edge_index, weights = getattr(data, "edge_index", None), getattr(data, "edge_weight", None)
    adjacency = getattr(data, "adj_t", None)
    if edge_index is None and adjacency is not None:
        edge_index, weights = _entries(adjacency)
    if not isinstance(edge_index, Tensor):
        raise TypeError(
            "Graph.from_pyg: data must have an edge_index or an adj_t, as PyG's Data has, got "
            + (type(data).__name__ if edge_index is None else f"an edge_index of type {type(edge_index).__name__}")
        )
    edge_index = numbers_of_nodes("Graph.from_pyg: edge_index", plain(edge_index).as_subclass(Tensor))
    nodes = int(data.num_nodes)
    if weights is not None:
        weights = weights.reshape(-1) if weights.dim() == 2 and weights.shape[-1] == 1 else weights
        weights = weights if weights.is_floating_point() else weights.to(torch.float32)
    if duplicates != "first":  # an undirected graph would take the two directions of an edge for duplicates
        options = {"duplicates": duplicates, "self_loops": self_loops}
        once = Graph.from_edge_index(edge_index, weights, nodes, directed=True, **options)
        edge_index, weights = once.edge_index(), once.weights
    if directed is None:
        directed = not _symmetric(edge_index, weights, max(nodes, 1))
    graph = Graph.from_edge_index(edge_index, weights, nodes, directed=directed, self_loops=self_loops)
    return graph.reversed() if flow == "source_to_target" else graph


def _entries(adjacency: Any) -> tuple[Tensor, Tensor | None]:
    """Edges [2, E] and weights of an adj_t, whose rows are targets: a sparse tensor of torch or of torch_sparse."""
    if not isinstance(adjacency, Tensor):
        target, source, weights = adjacency.coo()
        return torch.stack([source, target]), weights
    matrix = (adjacency if adjacency.layout == torch.sparse_coo else adjacency.to_sparse_coo()).coalesce()
    return matrix.indices().flip(0), matrix.values()


def rows_and_columns(op: str, edge_index: Tensor) -> tuple[Tensor, Tensor]:
    """Sources and targets of edges [2, E], also PyG's EdgeIndex, or of a sparse matrix whose rows are targets."""
    if edge_index.layout == torch.strided:
        edge_index = numbers_of_nodes(f"{op}: edge_index", edge_index)
        if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
            raise ValueError(
                f"{op}: edge_index must be int64 [2, E] or a sparse [targets, sources] tensor, "
                f"got {edge_index.dtype} {list(edge_index.shape)}"
            )
        return edge_index[0], edge_index[1]
    if edge_index.layout == torch.sparse_csr:
        target = torch.repeat_interleave(edge_index.crow_indices().diff())
        return edge_index.col_indices(), target
    if edge_index.layout == torch.sparse_csc:
        return torch.repeat_interleave(edge_index.ccol_indices().diff()), edge_index.row_indices()
    indices = edge_index.coalesce().indices()
    return indices[1], indices[0]
