"""Shards: the rows of a graph that one rank owns, in memory and on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import _ops
from ..graph import Graph
from ..pattern import rows_of_entries
from .exchange import halo_of
from .group import Group
from .layout import HaloPlan, Layout, RowTable, unique_outside
from .partition import Partition
from .rows import local_columns


@dataclass(frozen=True, eq=False, repr=False)
class Shard:
    """The rows of W that this rank owns, with columns as they are numbered in the whole graph.

    layout: what each rank owns. offsets int64 [n + 1], columns int32 [entries], weights [entries], of the rows layout.nodes.
    """

    layout: Layout
    offsets: Tensor
    columns: Tensor
    weights: Tensor
    directed: bool

    @property
    def rows(self) -> RowTable:
        return RowTable(self.layout.nodes, self.offsets, self.columns, (self.weights,))

    def to(self, dtype: torch.dtype) -> Shard:
        """The same with weights of another dtype."""
        return replace(self, weights=self.weights.to(dtype))

    def normalised(self, scale: float = 1.0) -> Shard:
        """The shard of graph.normalised(scale), bit for bit: weights scale/√(d_i d_j), for which neighbours on other ranks send
        their degrees. A collective call."""
        reason = "they are replaced by scale/√(d_i d_j), which depends on the degrees alone"
        self.layout.group.together("normalised", lambda: check_constant_weights(self, reason))
        plan = HaloPlan(self.layout, unique_outside(self.layout, [self.columns]))
        own = self.offsets.diff().clamp(min=1).to(torch.float64)
        known = torch.cat([own, halo_of(plan, own.unsqueeze(1)).squeeze(1)])
        product = own[rows_of_entries(self.offsets)] * known[local_columns(plan, self.columns)]
        return replace(self, weights=(scale / product.sqrt()).to(self.weights.dtype))

    def __repr__(self) -> str:
        return f"Shard({self.layout!r}, {self.columns.shape[0]} entries)"


def check_constant_weights(shard: Shard, reason: str) -> None:
    """Refuses a shard whose weights require grad where their gradient would be lost; reason: the sentence that says why it would."""
    if shard.weights.requires_grad:
        raise ValueError(
            f"shard must have weights that do not require grad, got weights that do: {reason}; detach them with "
            "dataclasses.replace(shard, weights=shard.weights.detach())"
        )


def shard(graph: Graph, layout: Layout | Partition, group: Group | None = None) -> Shard:
    """The rows of this rank of a graph that every rank has in memory, whose weights do not require grad. A collective call: graphs
    that differ are refused."""
    placed = layout if isinstance(layout, Layout) else Layout(layout, group)
    ranks, cut = placed.group, placed.partition

    def rows() -> tuple[list[Tensor], int]:
        if graph.num_nodes != cut.num_nodes:
            raise ValueError(f"graph must have the {cut.num_nodes} nodes of the partition, got {graph.num_nodes}")
        return _ops.static("Dist", "shard", graph._object, cut.owners, cut.parts, ranks.rank)  # type: ignore[no-any-return]

    tensors, _ = ranks.together("shard", rows)
    ranks.agree("shard", entries=graph.num_entries, directed=int(graph.directed), dtype=graph.weights.element_size())
    ranks.agree_on("shard", offsets=graph.offsets, columns=graph.columns, weights=graph.weights)
    _, offsets, columns, weights = tensors
    return Shard(placed, offsets, columns, weights, graph.directed)


def write_shards(graph: Graph, partition: Partition, folder: str | os.PathLike[str]) -> None:
    """Writes a file for each part, and an index; `load_shard` reads them. See `docs/scale.md` for the format. One process. Weights
    that require grad are written with their present values."""
    if graph.num_nodes != partition.num_nodes:
        raise ValueError(f"write_shards: partition must have the graph's {graph.num_nodes} nodes, got {partition.num_nodes}")
    _ops.static("Dist", "write_shards", graph._object, partition.owners, partition.parts, os.fspath(folder))


def shard_edge_list(
    path: str | os.PathLike[str],
    partition: Partition,
    folder: str | os.PathLike[str],
    *,
    directed: bool = False,
    dtype: torch.dtype = torch.float32,
) -> None:
    """`write_shards` of a text file of edges ("source target [weight]" a line, plain or gzip) that need not fit into memory: at most
    the owners, a megabyte a part and the entries of one part, 32 bytes each, are there at once. An edge given twice keeps its first
    weight."""
    arguments = (os.fspath(path), partition.owners, partition.parts, os.fspath(folder), directed, dtype)
    _ops.static("Dist", "shard_edge_list", *arguments)


def load_partition(folder: str | os.PathLike[str]) -> Partition:
    """The partition that the shards of a folder were written for."""
    owners, parts, *_ = _ops.static("Dist", "read_index", os.fspath(folder))
    return Partition(owners, parts)


def load_shard(folder: str | os.PathLike[str], group: Group | None = None) -> Shard:
    """The shard of this rank. Shards that do not belong together, on this rank or across ranks, are refused on every rank."""
    ranks = Group() if group is None else group

    def read() -> tuple[Partition, bool, Tensor, list[Tensor]]:
        owners, parts, directed, fingerprints = _ops.static("Dist", "read_index", os.fspath(folder))
        if parts != ranks.size:
            raise ValueError(f"{os.fspath(folder)}: expected a shard for each of the {ranks.size} ranks, got {parts}")
        tensors = _ops.static("Dist", "read_shard", os.fspath(folder), owners, parts, directed, fingerprints, ranks.rank)
        return Partition(owners, parts), directed, fingerprints, tensors

    cut, directed, fingerprints, tensors = ranks.together("load_shard", read)
    ranks.agree_on("load_shard", graph=fingerprints)
    ranks.agree("load_shard", directed=int(directed), dtype=tensors[3].element_size())
    _, offsets, columns, weights = tensors
    return Shard(Layout(cut, ranks), offsets, columns, weights, directed)
