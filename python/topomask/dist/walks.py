"""Walks over ranks: each rank walks from the nodes that it owns."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import _ops
from ..graph import Graph
from ..pattern import rows_of_entries
from ..walks import WalkOptions, _options
from .group import Group, _checksum
from .layout import Layout, RowTable, offsets_of
from .partition import Partition
from .shard import Shard, check_constant_weights


@dataclass(frozen=True, eq=False, repr=False)
class WalkRows:
    """The rows of a walk table that this rank owns: those of `sample_walks` in one process, bit for bit.

    layout: what each rank owns. offsets int64 [n + 1], columns int32, hops int16, loads, counts int32 [visits], as in WalkTable,
    columns numbered as in the whole graph.
    """

    layout: Layout
    offsets: Tensor
    columns: Tensor
    hops: Tensor
    loads: Tensor
    counts: Tensor
    options: WalkOptions

    @property
    def rows(self) -> RowTable:
        return RowTable(self.layout.nodes, self.offsets, self.columns, (self.hops, self.loads))

    def __repr__(self) -> str:
        return f"WalkRows({self.layout!r}, {self.options.walkers} walkers, {self.columns.shape[0]} visits)"


def options_checksum(options: WalkOptions) -> int:
    """A number that differs where options differ, up to chance."""
    fields = options._fields()
    plain = {name: value for name, value in fields.items() if not isinstance(value, Tensor)}
    total = zlib.crc32(repr(sorted(plain.items())).encode())
    return total + sum(_checksum(value) for value in fields.values() if isinstance(value, Tensor))


def agree_on_options(group: Group, op: str, options: WalkOptions) -> None:
    group.agree(op, seed=options.seed, walkers=options.walkers)
    group.agree(op, options=options_checksum(options))


def sample_walks(graph: Graph, layout: Layout | Partition, options: WalkOptions | None = None, **changes: Any) -> WalkRows:
    """n walks from every node that this rank owns, over a graph whose structure every rank has; nothing is sent but the checks that
    the ranks have one graph, one seed and one set of options. Every sampler; no group products."""
    placed = layout if isinstance(layout, Layout) else Layout(layout)
    group, chosen = placed.group, _options(options, changes)

    def checked() -> None:
        if graph.num_nodes != placed.num_nodes:
            raise ValueError(f"graph must have the {placed.num_nodes} nodes of the partition, got {graph.num_nodes}")
        if chosen.group_products:
            raise ValueError("group_products must be False over ranks")
        _ops.static("Dist", "sample_walks_from", graph._object, torch.empty(0, dtype=torch.int64), chosen._object)

    group.together("sample_walks", checked)
    agree_on_options(group, "sample_walks", chosen)
    group.agree_on("sample_walks", offsets=graph.offsets, columns=graph.columns, weights=graph.weights)
    tensors = _ops.static("Dist", "sample_walks_from", graph._object, placed.nodes, chosen._object)
    offsets, columns, hops, loads, counts = tensors[:5]
    return WalkRows(placed, offsets, columns, hops, loads, counts, chosen)


def travelling_walks(shard: Shard, options: WalkOptions | None = None, **changes: Any) -> WalkRows:
    """The same walks where no rank has more of the graph than its shard: a walker goes to the rank that owns the node it stands on.

    A walker is its start, its number, where it stands and its load, since its random numbers need no state. One exchange for every hop
    of the longest walk, and one that brings the visits home. proposal_weights, with proposal "given": [entries of this rank's rows].
    """
    layout, group, chosen = shard.layout, shard.layout.group, _options(options, changes)
    op = "travelling_walks"
    group.together(op, lambda: check_constant_weights(shard, "walks over ranks have no gradient in them"))
    own = _Ground(shard)

    def checked() -> Any:
        if chosen.group_products:
            raise ValueError("group_products must be False over ranks")
        return _ops.static("Dist", "travel_ground", own.graph._object, chosen._object)

    ground = group.together(op, checked)
    longest = int(chosen.fixed_hops if chosen.fixed_hops is not None else chosen.max_hops)
    if chosen.survival is not None:
        longest = min(longest, chosen.survival.shape[0] - 1)
    shared = {name: value for name, value in chosen._fields().items() if name != "proposal_weights"}
    agree_on_options(group, op, WalkOptions(**shared))

    numbers = torch.arange(chosen.first_walker, chosen.first_walker + chosen.walkers)
    starts = layout.nodes.repeat_interleave(chosen.walkers)
    walkers = [starts, numbers.repeat(layout.num_rows), starts, torch.ones(starts.shape[0], dtype=shard.weights.dtype)]
    visits = [[*walkers, torch.zeros_like(starts)]]
    for hop in range(longest):
        alive = torch.tensor([walkers[0].shape[0]], device=group.device)
        if int(group.all_reduce(alive)) == 0:
            break
        here = [walkers[0], walkers[1], own.numbered(walkers[2]), walkers[3]]
        moved = _ops.method(ground, "travel", hop, here)
        moved[2] = own.nodes[moved[2]]
        walkers = routed(layout, moved, moved[2])
        order = torch.argsort(walkers[0] * 2**32 + walkers[1])
        walkers = [x[order] for x in walkers]
        visits.append([*walkers, torch.full_like(walkers[0], hop + 1)])
    together = [torch.cat(column) for column in zip(*visits)]
    *home, hops = routed(layout, together, together[0])
    tensors = _ops.static("Dist", "table_of_visits", layout.nodes, layout.num_nodes, chosen._object, home, hops)
    offsets, columns, visited, loads, counts = tensors
    return WalkRows(layout, offsets, columns, visited, loads, counts, chosen)


class _Ground:
    """The rows of a shard as a graph over the nodes that it knows, numbered in their order, which decides where walkers turn."""

    def __init__(self, shard: Shard) -> None:
        known = torch.unique(torch.cat([shard.layout.nodes, shard.columns.to(torch.int64)]))
        self.nodes: Tensor = known
        lengths = torch.zeros(known.shape[0], dtype=torch.int64)
        lengths[self.numbered(shard.layout.nodes)] = shard.offsets.diff()
        columns = self.numbered(shard.columns.to(torch.int64)).to(torch.int32)
        self.graph = Graph.from_csr(offsets_of(lengths), columns, shard.weights, directed=True)

    def numbered(self, nodes: Tensor) -> Tensor:
        return torch.searchsorted(self.nodes, nodes)


def routed(layout: Layout, columns: list[Tensor], destination: Tensor) -> list[Tensor]:
    """Records, a row of each tensor, to the owners of the nodes `destination`."""
    owners = layout.partition.owners.index_select(0, destination)
    order = torch.argsort(owners, stable=True)
    splits = torch.bincount(owners, minlength=layout.group.size).tolist()
    counts = [row[layout.group.rank] for row in layout.group.all_gather(splits)]
    # 32 bits hold a node, a number or a hop: a walker takes 16 bytes, or 20 with a load of float64.
    narrow = [x if x.is_floating_point() else x.to(torch.int32) for x in columns]
    packed = torch.cat([x[order].unsqueeze(1).view(torch.uint8) for x in narrow], 1)
    received = layout.group.all_to_all(packed, splits, counts).wait()
    parts = received.split([x.element_size() for x in narrow], 1)
    made = [part.contiguous().view(x.dtype).squeeze(1) for part, x in zip(parts, narrow)]
    return [x if x.is_floating_point() else x.to(torch.int64) & 0xFFFFFFFF for x in made]


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Rows of Φ̂: its pattern (offsets, columns), and the visits of each entry."""

    offsets: Tensor
    columns: Tensor
    feature_offsets: Tensor
    hops: Tensor
    loads: Tensor

    @staticmethod
    def of(table: RowTable) -> FeatureRows:
        """Visits in the order (row, column, hop) grouped into entries (row, column)."""
        rows = rows_of_entries(table.offsets)
        columns = table.columns.to(torch.int64)
        first = torch.ones(columns.shape[0], dtype=torch.bool)
        first[1:] = (columns[1:] != columns[:-1]) | (rows[1:] != rows[:-1])
        starts = torch.nonzero(first).squeeze(1)
        lengths = torch.bincount(rows[starts], minlength=table.offsets.shape[0] - 1)
        ends = torch.cat([starts, torch.tensor([columns.shape[0]])])
        return FeatureRows(offsets_of(lengths), columns[starts], ends, *table.values)
