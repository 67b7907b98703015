"""Edges as columns of an edge_index, and their places among the entries of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import _values
from ._values import Values

if TYPE_CHECKING:
    from .graph import Graph


def pairs(what: str, value: Values) -> Tensor:
    """As numbers_of_nodes, [2, E]."""
    edges = _values.numbers_of_nodes(what, value)
    if edges.dim() != 2 or edges.shape[0] != 2:
        raise ValueError(f"{what} must be [2, E], got {list(edges.shape)}")
    return edges


def entries_of(graph: Graph, edge_index: Values) -> Tensor:
    """Graph.entries_of."""
    edges = _pairs_on(graph, "Graph.entries_of: edge_index", edge_index)
    wanted = _keys(edges, graph.num_nodes)
    places, found = _places(_keys(graph.edge_index(), graph.num_nodes), wanted)
    if not found.all():
        first = int((~found).nonzero()[0])
        edge = tuple(edges[:, first].tolist())
        raise ValueError(f"Graph.entries_of: edge_index must hold edges of the graph alone, got {edge} at {first}")
    return places


def edge_of_entry(graph: Graph, edge_index: Values) -> Tensor:
    """Graph.edge_of_entry."""
    edges, stored = _pairs_on(graph, "Graph.edge_of_entry: edge_index", edge_index), graph.edge_index()
    if not graph.directed:
        edges, stored = edges.sort(0).values, stored.sort(0).values
    given, order = torch.sort(_keys(edges, graph.num_nodes), stable=True)
    places, found = _places(given, _keys(stored, graph.num_nodes))
    if not found.all():
        entry = tuple(graph.edge_index()[:, int((~found).nonzero()[0])].tolist())
        raise ValueError(f"Graph.edge_of_entry: edge_index must hold every edge of the graph, got none for {entry}")
    return order[places]


def _pairs_on(graph: Graph, what: str, edge_index: Values) -> Tensor:
    """int64 [2, E], on the device of the graph."""
    edges = pairs(what, edge_index)
    if edges.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{what} must be int64 or int32 [2, E], got {edges.dtype} {list(edges.shape)}")
    if edges.device != graph.device:
        raise ValueError(f"{what} must be on {graph.device}, where the graph is, got {edges.device}")
    return edges.to(torch.int64)


def _keys(edges: Tensor, nodes: int) -> Tensor:
    """One number for each edge, in the order of rows and columns; −1 where an end is no node."""
    inside = ((edges >= 0) & (edges < nodes)).all(0)
    return torch.where(inside, edges[0] * nodes + edges[1], -1)


def _places(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each wanted key among the ascending keys, the first where it is there several times, and whether it is there."""
    places = torch.searchsorted(keys, wanted)
    if not len(keys):
        return places, torch.zeros_like(wanted, dtype=torch.bool)
    return places, (keys[places.clamp(max=len(keys) - 1)] == wanted) & (wanted >= 0)
