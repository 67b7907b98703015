"""What a rank owns, and the rows of others that it needs."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import _library
from .group import Group
from .partition import Partition


class Layout:
    """The nodes that this rank owns: row i of its q, k, v and outputs is node `nodes[i]` of the graph.

    partition: as many parts as the group has ranks, and the same on every rank, which is checked. A collective call.
    """

    def __init__(self, partition: Partition, group: Group | None = None) -> None:
        self.group = Group() if group is None else group
        self.partition = self.group.together("Layout", lambda: _with_parts(partition, self.group.size))
        agree_on_version("Layout", self.group)
        self.group.agree("Layout", nodes=partition.num_nodes, partition=partition.fingerprint)
        self.nodes = partition.nodes(self.group.rank)

    @property
    def num_nodes(self) -> int:
        """N, of the whole graph."""
        return self.partition.num_nodes

    @property
    def num_rows(self) -> int:
        """Nodes that this rank owns."""
        return self.nodes.shape[0]

    def rows_of(self, x: Tensor) -> Tensor:
        """The rows of this rank of x [..., N, C]."""
        return x.index_select(-2, self.nodes.to(x.device))

    def gather(self, x: Tensor) -> Tensor:
        """x [..., n, C] of every rank as [..., N, C], on every rank: for tests and small results. A collective call; no gradient."""
        group = self.group
        rows = x.detach().movedim(-2, 0).contiguous()
        counts = torch.bincount(self.partition.owners, minlength=group.size).tolist()
        sent = rows.repeat((group.size,) + (1,) * (rows.dim() - 1))
        parts = group.all_to_all(sent, [rows.shape[0]] * group.size, counts).wait()
        order = torch.argsort(self.partition.owners, stable=True).to(x.device)
        whole = parts.new_empty(parts.shape)
        whole[order] = parts
        return whole.movedim(0, -2)

    def __deepcopy__(self, memo: object) -> Layout:
        return self

    def __repr__(self) -> str:
        return f"Layout({self.num_rows} of {self.num_nodes} nodes, rank {self.group.rank} of {self.group.size})"


def agree_on_version(op: str, group: Group) -> None:
    """Refuses, on every rank, versions of the library or of torch that are not the same on all. Ranks with other CUDA versions of one
    torch may work together."""
    built = _library.build_of(_library.library_path())
    for name, version in (("version", built.get("version", "unknown")), ("torch", torch.__version__.split("+")[0])):
        text = version.encode()
        rows = group.all_gather([zlib.crc32(text), *text[:64].ljust(64)])  # the whole text, and what an error shows of it
        for rank, row in enumerate(rows):
            if row != rows[0]:
                shown = (f"{bytes(rows[r][1:]).decode(errors='replace').strip()} on rank {group.ranks[r]}" for r in (0, rank))
                raise ValueError(f"{op}: {name} must be the same on all ranks, got {' and '.join(shown)}")


def _with_parts(partition: Partition, size: int) -> Partition:
    if partition.parts != size:
        raise ValueError(f"partition must have a part for each of the {size} ranks, got {partition.parts} parts")
    return partition


@dataclass(frozen=True, eq=False)
class RowTable:
    """Rows of a sparse structure, by node: nodes int64 [n], ascending; offsets int64 [n + 1]; columns and further values, one for each
    entry."""

    nodes: Tensor
    offsets: Tensor
    columns: Tensor
    values: tuple[Tensor, ...] = ()

    def fetch(self, layout: Layout, wanted: Tensor) -> RowTable:
        """The rows of the nodes `wanted`, which other ranks own, in that order. A collective call."""
        plan = HaloPlan(layout, wanted)
        group = layout.group
        lengths = self.offsets.diff().index_select(0, plan.send_index)
        received = group.all_to_all(lengths, plan.send_splits, plan.recv_splits, plan.largest).wait()
        send = [int(part.sum()) for part in lengths.split(plan.send_splits)]
        recv = [int(part.sum()) for part in received.split(plan.recv_splits)]
        entries = entries_of(self.offsets, plan.send_index)
        parts = [group.all_to_all(values.index_select(0, entries), send, recv).wait() for values in (self.columns, *self.values)]
        # From the order of the owners back to that of `wanted`.
        back = torch.argsort(plan.order)
        offsets = offsets_of(received)
        place = entries_of(offsets, back)
        columns, *values = (part.index_select(0, place) for part in parts)
        return RowTable(wanted, offsets_of(received.index_select(0, back)), columns, tuple(values))

    def joined(self, other: RowTable) -> RowTable:
        """The rows of both, by node."""
        nodes = torch.cat([self.nodes, other.nodes])
        order = torch.argsort(nodes)
        lengths = torch.cat([self.offsets.diff(), other.offsets.diff()])
        place = entries_of(offsets_of(lengths), order)
        pairs = zip((self.columns, *self.values), (other.columns, *other.values))
        columns, *values = (torch.cat(pair).index_select(0, place) for pair in pairs)
        return RowTable(nodes[order], offsets_of(lengths[order]), columns, tuple(values))


def offsets_of(lengths: Tensor) -> Tensor:
    """[n] → [n + 1], from 0."""
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def entries_of(offsets: Tensor, rows: Tensor) -> Tensor:
    """The entries of these rows, one after the other."""
    begin = offsets[rows]
    return ranges(begin, offsets[rows + 1] - begin)


def ranges(begin: Tensor, lengths: Tensor) -> Tensor:
    """begin_i, begin_i + 1, …, lengths_i of them, for every i, one after the other."""
    return torch.repeat_interleave(begin - (lengths.cumsum(0) - lengths), lengths) + torch.arange(int(lengths.sum()))


class HaloPlan:
    """The rows of other ranks that this rank needs, and those of its own that others need.

    halo: int64 [h], the nodes needed, by owner and then number. send_index: int64 [s], the rows of this rank that it sends, rank by
    rank; send_splits, recv_splits: how many to and from each. largest: the most rows between two ranks. A collective call.
    """

    def __init__(self, layout: Layout, needed: Tensor) -> None:
        self.layout, group = layout, layout.group
        owners = layout.partition.owners.index_select(0, needed)
        self.order = torch.argsort(owners.to(torch.int64) * layout.num_nodes + needed)
        """The place in `needed` of each node of `halo`."""
        self.halo = needed[self.order]
        self.recv_splits: list[int] = torch.bincount(owners, minlength=group.size).tolist()
        table = group.all_gather(self.recv_splits)
        self.send_splits = [table[rank][group.rank] for rank in range(group.size)]
        between = [table[a][b] for a in range(group.size) for b in range(group.size) if a != b]
        self.largest = max(between, default=0)
        self.total = sum(between)
        """Halo rows of all ranks together."""
        asked = group.all_to_all(self.halo, self.recv_splits, self.send_splits, self.largest).wait()
        self.send_index = torch.searchsorted(layout.nodes, asked)
        self._sent_on: dict[torch.device, Tensor] = {}

    def send_on(self, device: torch.device) -> Tensor:
        """send_index on a device, copied there once."""
        if device not in self._sent_on:
            self._sent_on[device] = self.send_index.to(device)
        return self._sent_on[device]

    def __deepcopy__(self, memo: object) -> HaloPlan:
        return self

    @property
    def num_halo(self) -> int:
        return self.halo.shape[0]


def unique_outside(layout: Layout, columns: Sequence[Tensor]) -> Tensor:
    """The distinct nodes among these that other ranks own, ascending."""
    found = torch.unique(torch.cat([c.to(torch.int64) for c in columns])) if columns else torch.empty(0, dtype=torch.int64)
    mine = layout.partition.owners.index_select(0, found) == layout.group.rank
    return found[~mine]
