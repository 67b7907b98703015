"""The graph of a run as a rank has it: the whole of it, or a shard alone. What is computed from either is the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import dist, read_graph
from ..dist.layout import entries_of
from ..dist.walks import routed
from ..graph import Graph
from .config import RunConfig

Reached = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Source:
    """layout: the nodes that this rank owns. Making one, and every method but `degrees`, is a collective call."""

    layout: dist.Layout

    def degrees(self) -> Tensor:
        """int64 [n], of the nodes of this rank."""
        raise NotImplementedError

    def regions(self, count: int, seed: int) -> Tensor:
        """int64 [N]: which of `count` nodes, drawn by seed, is nearest in hops; the first of them among equals; −1 where none leads
        there."""
        raise NotImplementedError

    def shard(self, scale: float | None = None) -> dist.Shard:
        """The rows of this rank; of normalised weights where a scale is given."""
        raise NotImplementedError

    def walks(self, scale: float, **options: Any) -> dist.WalkRows:
        """Walks over normalised weights from the nodes of this rank."""
        raise NotImplementedError


class WholeGraph(Source):
    """Every rank has the graph; walks need no exchange."""

    def __init__(self, graph: Graph, layout: dist.Layout) -> None:
        self.graph, self.layout = graph, layout
        self._normalised = functools.cache(graph.normalised)

    def degrees(self) -> Tensor:
        return self.graph.offsets.diff()[self.layout.nodes]

    def regions(self, count: int, seed: int) -> Tensor:
        return regions(self.graph, count, seed)

    def shard(self, scale: float | None = None) -> dist.Shard:
        return dist.shard(self.graph if scale is None else self._normalised(scale), self.layout)

    def walks(self, scale: float, **options: Any) -> dist.WalkRows:
        return dist.sample_walks(self._normalised(scale), self.layout, **options)


class OwnShard(Source):
    """A rank has its rows alone; walkers travel, and so do the regions, hop by hop."""

    def __init__(self, shard: dist.Shard) -> None:
        self._shard, self.layout = shard, shard.layout
        self._normalised = functools.cache(shard.normalised)

    def degrees(self) -> Tensor:
        return self._shard.offsets.diff()

    def regions(self, count: int, seed: int) -> Tensor:
        layout, group = self.layout, self.layout.group

        def to_owners(nodes: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
            pairs = torch.unique(nodes * count + labels)
            nodes = torch.div(pairs, count, rounding_mode="floor")
            nodes, labels = routed(layout, [nodes, pairs - nodes * count], nodes)
            return torch.searchsorted(layout.nodes, nodes), labels

        def anywhere(rows: Tensor) -> bool:
            return int(group.all_reduce(torch.tensor([rows.shape[0]], device=group.device))) > 0

        chosen, labels = _seeds(layout.num_nodes, count, seed)
        mine = layout.partition.owners[chosen] == group.rank
        rows = torch.searchsorted(layout.nodes, chosen[mine])
        own = _spread(self._shard.offsets, self._shard.columns, rows, labels[mine], count, to_owners, anywhere)
        return layout.gather(own.unsqueeze(1)).squeeze(1)

    def shard(self, scale: float | None = None) -> dist.Shard:
        return self._shard if scale is None else self._normalised(scale)

    def walks(self, scale: float, **options: Any) -> dist.WalkRows:
        return dist.travelling_walks(self._normalised(scale), **options)


def open_source(config: RunConfig, world: dist.Group, group: dist.Group) -> Source:
    """What data.kind and data.path name, divided over `group`. A collective call of `world`."""
    dtype, data = getattr(torch, config.train.precision), config.data
    if data.kind == "shards":
        return OwnShard(dist.load_shard(data.path, group).to(dtype))
    graph = world.together("train", lambda: read_graph(data.path).to(dtype))
    return WholeGraph(graph, dist.Layout(dist.partition(graph, group.size, config.ranks.partition), group))


def regions(graph: Graph, count: int, seed: int) -> Tensor:
    """Source.regions of a graph in memory. Breadth first, from all of the nodes drawn at once. O(N + E)."""
    chosen, labels = _seeds(graph.num_nodes, count, seed)

    def here(nodes: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return nodes, labels

    return _spread(graph.offsets, graph.columns, chosen, labels, count, here, lambda rows: rows.numel() > 0)


def _seeds(nodes: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    chosen = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))[:count]
    return chosen, torch.arange(chosen.shape[0])


def _spread(
    offsets: Tensor,
    columns: Tensor,
    rows: Tensor,
    labels: Tensor,
    count: int,
    reach: Reached,
    anywhere: Callable[[Tensor], bool],
) -> Tensor:
    """int64 [n]: the least label among those that reach a row first, from `labels` at `rows`. reach: nodes and labels → the rows
    here that they are, with labels; anywhere: whether a row is left to go on from."""
    label = torch.full((offsets.shape[0] - 1,), -1)
    least = torch.full_like(label, count)
    label[rows] = labels
    while anywhere(rows):
        lengths = offsets[rows + 1] - offsets[rows]
        nodes = columns[entries_of(offsets, rows)].to(torch.int64)
        reached, labels_there = reach(nodes, torch.repeat_interleave(label[rows], lengths))
        new = label[reached] < 0
        least.scatter_reduce_(0, reached[new], labels_there[new], "amin")
        rows = torch.unique(reached[new])
        label[rows] = least[rows]
    return label
