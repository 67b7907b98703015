"""Graphs from and to NetworkX, SciPy and PyG. Each library is imported only when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .graph import Graph

if TYPE_CHECKING:
    import networkx
    import scipy.sparse


def from_networkx(graph: networkx.Graph, *, weight: str | None = "weight", dtype: torch.dtype = torch.float32) -> Graph:
    if not hasattr(graph, "is_multigraph"):
        raise TypeError(f"Graph.from_networkx: graph must be a networkx graph, got {type(graph).__name__}")
    if graph.is_multigraph():
        raise ValueError("Graph.from_networkx: graph must not be a multigraph; networkx.Graph(graph) keeps one edge of each pair")
    place = {node: index for index, node in enumerate(graph.nodes)}
    edges = [(place[u], place[v]) for u, v in graph.edges]
    index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    weights = None
    if weight is not None and any(weight in data for _, _, data in graph.edges(data=True)):
        weights = torch.tensor([float(data.get(weight, 1.0)) for _, _, data in graph.edges(data=True)], dtype=dtype)
    made = Graph.from_edges(len(place), index[0], index[1], weights, directed=graph.is_directed())
    return made if made.dtype == dtype else made.to(dtype)


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
    csr = matrix.tocsr(copy=True)
    csr.sum_duplicates()
    csr.sort_indices()
    if csr.shape[0] != csr.shape[1]:
        raise ValueError(f"Graph.from_scipy: matrix must be square, got {list(csr.shape)}")
    if directed is None:
        directed = bool(abs(csr - csr.T).nnz)
    weights = torch.as_tensor(csr.data.copy())
    if weights.dtype != torch.float64:
        weights = weights.to(torch.float32)
    offsets = torch.as_tensor(csr.indptr).to(torch.int64)
    return Graph.from_csr(offsets, torch.as_tensor(csr.indices).to(torch.int32), weights, directed=directed)


def to_scipy(graph: Graph) -> scipy.sparse.csr_array:
    import scipy.sparse

    arrays = (tensor.detach().cpu().clone().numpy() for tensor in (graph.weights, graph.columns, graph.offsets))
    return scipy.sparse.csr_array(tuple(arrays), shape=(graph.num_nodes, graph.num_nodes))


def _symmetric(edge_index: Tensor, weights: Tensor | None, nodes: int) -> bool:
    def ordered(index: Tensor) -> Tensor:
        keys, order = torch.sort(index[0] * nodes + index[1])
        return keys if weights is None else torch.stack([keys.to(torch.float64), weights.to(torch.float64)[order]])

    return torch.equal(ordered(edge_index), ordered(edge_index.flip(0)))


def from_pyg(data: Any, *, directed: bool | None = None) -> Graph:
    if not hasattr(data, "edge_index"):
        raise TypeError(f"Graph.from_pyg: data must have an edge_index, as PyG's Data has, got {type(data).__name__}")
    edge_index, nodes = data.edge_index, int(data.num_nodes)
    weights = getattr(data, "edge_weight", None)
    if directed is None:
        directed = not _symmetric(edge_index, weights, max(nodes, 1))
    return Graph.from_edge_index(edge_index, weights, nodes, directed=directed)
