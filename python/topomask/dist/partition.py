"""Partitions of graphs: which part owns each node."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .. import _ops
from ..graph import Graph
from .group import Group


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Which part owns each node, and so its row: the query, the output, the walks.

    owners: int32 [N], every number in [0, parts), no part without a node. Made by `partition`, or of any vector.
    """

    owners: Tensor
    parts: int

    def __post_init__(self) -> None:
        nodes = self.owners.shape[0] if self.owners.dim() else 0
        object.__setattr__(self, "owners", _ops.static("Dist", "given_partition", nodes, self.owners, self.parts))

    @property
    def num_nodes(self) -> int:
        return self.owners.shape[0]

    def nodes(self, part: int) -> Tensor:
        """int64: the nodes of a part, ascending; the order of the rows of its rank."""
        if not 0 <= part < self.parts:
            raise ValueError(f"Partition.nodes: part must be in [0, {self.parts}), got {part}")
        return torch.nonzero(self.owners == part).squeeze(1)

    @property
    def fingerprint(self) -> int:
        """A number that differs, up to chance, between partitions that differ in any node."""
        return int(_ops.static("Dist", "partition_fingerprint", self.owners, self.parts))

    def statistics(self, graph: Graph) -> PartitionStatistics:
        """What the partition costs, for attention over the neighbours in the graph. O(N + E)."""
        if graph.num_nodes != self.num_nodes:
            raise ValueError(f"Partition.statistics: graph must have {self.num_nodes} nodes, got {graph.num_nodes}")
        return PartitionStatistics(*_ops.static("Dist", "statistics", graph._object, self.owners, self.parts))

    def __repr__(self) -> str:
        return f"Partition({self.num_nodes} nodes, {self.parts} parts)"


@dataclass(frozen=True, eq=False)
class PartitionStatistics:
    """rows, entries, halo: int64 [parts], the nodes of each part, the entries of W in their rows, and the distinct columns of these
    that other parts own. cut_entries: entries of W between parts, twice the number of cut edges where undirected."""

    rows: Tensor
    entries: Tensor
    halo: Tensor
    cut_entries: int


def has_metis() -> bool:
    """Whether the library was built with METIS."""
    return bool(_ops.static("Dist", "has_metis"))


def partition(graph: Graph, parts: int, method: str | Tensor = "automatic", *, group: Group | None = None) -> Partition:
    """Divides the nodes of a graph into parts; the same on every rank that calls it.

    method: "metis" (few cut edges; needs a library built with it), "cuthill_mckee" (ranges after reverse Cuthill–McKee), "ranges"
    (ranges of the node numbers), "automatic" (the first of these that there is), or a vector of owners, int64 or int32 [N]. group:
    makes it a collective call: what one rank refuses, such as a vector of another length, all refuse. Without it only that rank
    stops, and the others wait for it in their next collective call.
    """

    def made() -> Partition:
        if isinstance(method, Tensor):
            return Partition(_ops.static("Dist", "given_partition", graph.num_nodes, method, parts), parts)
        return Partition(_ops.static("Dist", "partition", graph._object, parts, method), parts)

    return made() if group is None else group.together("partition", made)
