"""The ranks that share one graph: torch.distributed underneath, with messages cut to size, checks that all ranks agree, and errors
that name the rank that is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as c10d
from torch import Tensor

from .. import _ops
from .heartbeat import Heartbeat

T = TypeVar("T")

DEFAULT_MESSAGE_BYTES = 1 << 28
"""256 MiB: the most bytes that one rank sends another in one message."""


class RankError(ConnectionError):
    """Another rank died, stalled or could not be reached; the message names it."""


class Group:
    """The ranks that one graph is divided over.

    process_group: of torch.distributed, whose timeout holds; the default group where left out, and a group of this process alone
    where torch.distributed is not initialised. For a device mesh: `Group(mesh.get_group("graph"))`. message_bytes: larger messages
    are sent in pieces, since Gloo fails on those of several gigabytes; the same on every rank.

    bytes_sent, messages: what this rank has sent to others so far, in all-reduces and all-gathers as rings send it, in a broadcast the
    source to every other rank; seconds_waited: for exchanges that were not over when their result was needed. Making one is a
    collective call.
    """

    def __init__(self, process_group: Any = None, *, message_bytes: int = DEFAULT_MESSAGE_BYTES) -> None:
        self.message_bytes = message_bytes
        self.bytes_sent = 0
        self.messages = 0
        self.seconds_waited = 0.0
        self.exchanges: list[tuple[float, float, float]] | None = None
        """Where a list, every all-to-all adds when it began, when its result was asked for and when that was there, by
        time.perf_counter: the ranks of one machine share its clock."""
        self._alone = process_group is None and not c10d.is_initialized()
        world: Any = None if self._alone else c10d.group.WORLD
        self._group: Any = world if process_group is None else process_group
        self.rank: int = 0 if self._alone else c10d.get_rank(self._group)
        self.size: int = 1 if self._alone else c10d.get_world_size(self._group)
        if self.rank < 0:
            raise ValueError("Group: this rank must be a member of process_group")
        self.ranks: list[int] = [0] if self._alone else [c10d.get_global_rank(self._group, r) for r in range(self.size)]
        """The ranks of the world, by their place in the group; errors name these."""
        self.name: str = "" if self._alone else self._group.group_name
        self._backends: dict[str, str] = {"cpu": "none"} if self._alone else backends_of(c10d.get_backend_config(self._group))
        self._heartbeat = None if self.size == 1 else Heartbeat(self.name, self.ranks[self.rank], self.ranks)
        # Messages are cut into as many pieces on every rank.
        self.agree("Group", message_bytes=message_bytes)
        if message_bytes < 1:
            raise ValueError(f"Group: message_bytes must be positive, got {message_bytes}")

    @property
    def device(self) -> torch.device:
        """Where tensors that are made for a collective call should be: on the CPU if the process group has a backend for it."""
        return self.travels_on(torch.device("cpu"))

    def travels_on(self, device: torch.device) -> torch.device:
        """The device from which collective calls send tensors of `device`: that device where the process group has a backend for it
        ("cpu:gloo,cuda:nccl"), otherwise the other one. Tensors of a GPU that only Gloo could send travel from the CPU."""
        kind = travelling_kind(self._backends, device.type)
        return torch.device("cuda", torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)

    # Collectives. Every rank calls each, in the same order.

    def _guarded(self, what: str, function: Callable[[], T]) -> T:
        """Any failure of a collective call, with the rank that caused it."""
        if self._heartbeat is not None:
            self._heartbeat.sequence += 1
        try:
            return function()
        except RuntimeError as error:
            who = "a rank is gone" if self._heartbeat is None else self._heartbeat.diagnosis()
            line = str(error).split("\n")[0]
            raise RankError(f"topomask.dist: {what} on rank {self.ranks[self.rank]}: {who} ({line})") from error

    def _count(self, sent: int) -> None:
        self.bytes_sent += sent
        self.messages += 1

    def all_reduce(self, x: Tensor, op: str = "sum") -> Tensor:
        """x summed over the ranks ("sum", "max" or "min"), in place."""
        if self.size == 1 or x.numel() == 0:
            return x
        if x.device != self.travels_on(x.device):
            return x.copy_(self.all_reduce(x.to(self.travels_on(x.device)), op))
        kinds = {"sum": c10d.ReduceOp.SUM, "max": c10d.ReduceOp.MAX, "min": c10d.ReduceOp.MIN}
        flat = x.view(-1)
        step = max(self.message_bytes // x.element_size(), 1)
        for begin in range(0, flat.numel(), step):
            piece = flat[begin : begin + step]
            self._guarded("all_reduce", lambda piece=piece: c10d.all_reduce(piece, kinds[op], group=self._group))  # type: ignore[misc]
        self._count(2 * (self.size - 1) * x.numel() * x.element_size() // self.size)
        return x

    def broadcast(self, x: Tensor, source: int = 0) -> Tensor:
        """x of the rank in place `source` of the group, on every rank, in place."""
        if self.size > 1 and x.numel():
            if x.device != self.travels_on(x.device):
                return x.copy_(self.broadcast(x.to(self.travels_on(x.device)), source))
            self._guarded("broadcast", lambda: c10d.broadcast(x, self.ranks[source], group=self._group))
            if source == self.rank:
                self._count((self.size - 1) * x.numel() * x.element_size())
        return x

    def all_gather(self, numbers: Sequence[int]) -> list[list[int]]:
        """The numbers of every rank; as many on each."""
        mine = torch.tensor(list(numbers), dtype=torch.int64, device=self.device)
        if self.size == 1:
            return [mine.tolist()]
        out = mine.new_empty(self.size * len(mine))
        self._guarded("all_gather", lambda: c10d.all_gather_into_tensor(out, mine, group=self._group))
        self._count((self.size - 1) * mine.numel() * mine.element_size())
        rows: list[list[int]] = out.view(self.size, -1).tolist()
        return rows

    def all_to_all(self, x: Tensor, send_splits: Sequence[int], recv_splits: Sequence[int], largest: int | None = None) -> Pending:
        """Starts to send send_splits[r] rows of x [rows, ...] to each rank r, in their order; `wait` gives recv_splits[r] rows from
        each. largest: the most rows in one message of any two ranks, where all ranks know it; asked for where left out."""
        if largest is None and self.size > 1:
            largest = int(self.all_reduce(torch.tensor([max(send_splits)], device=self.device), "max"))
        return Pending(self, x.contiguous(), list(send_splits), list(recv_splits), largest or 0)

    # Agreement.

    def together(self, op: str, function: Callable[[], T]) -> T:
        """function(), or on every rank the ValueError of the first rank on which it is refused: nobody waits for a rank that has
        stopped."""
        refusal, made = "", None
        try:
            made = function()
        except (ValueError, TypeError, OSError, IndexError) as error:
            if self.size == 1:
                raise
            refusal = f"{op}: rank {self.ranks[self.rank]}: {error}"
        if self.size > 1:
            lengths = self.all_gather([len(refusal.encode())])
            bad = next((rank for rank, length in enumerate(lengths) if length[0]), None)
            if bad is not None:
                text = torch.zeros(lengths[bad][0], dtype=torch.uint8, device=self.device)
                if bad == self.rank:
                    text.copy_(torch.tensor(list(refusal.encode()), dtype=torch.uint8))
                self.broadcast(text, bad)
                raise ValueError(bytes(text.tolist()).decode())
        return made  # type: ignore[return-value]

    def agree(self, op: str, **values: int) -> None:
        """Refuses, on every rank, values that are not the same on all."""
        rows = self.all_gather([_signed(value) for value in values.values()])
        for place, name in enumerate(values):
            for rank, row in enumerate(rows):
                if row[place] != rows[0][place]:
                    raise ValueError(
                        f"{op}: {name} must be the same on all ranks, got {rows[0][place]} on rank {self.ranks[0]} and "
                        f"{row[place]} on rank {self.ranks[rank]}"
                    )

    def agree_on(self, op: str, **tensors: Tensor) -> None:
        """The same of tensors, by shape, dtype and content."""
        self.agree(op, **{name: _checksum(tensor) for name, tensor in tensors.items()})

    def __repr__(self) -> str:
        return f"Group(rank {self.rank} of {self.size})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Group:
        return self  # masks that are copied talk to the same ranks


class Pending:
    """An all-to-all under way. It keeps what is sent and received alive; bytes travel as bytes, whatever their dtype, and from the
    device that the process group has a backend for, wherever they are."""

    def __init__(self, group: Group, x: Tensor, send_splits: list[int], recv_splits: list[int], largest: int) -> None:
        self._group, self._splits = group, (send_splits, recv_splits)
        self._began = time.perf_counter()
        self._shape, self._dtype = x.shape[1:], x.dtype
        row_bytes = x.element_size() * _product(x.shape[1:])
        self._row_bytes = row_bytes
        self._home = x.device
        self._sent = x.view(-1).view(torch.uint8).view(x.shape[0], row_bytes)
        if group.size > 1:
            self._sent = self._sent.to(group.travels_on(x.device))
        self._rounds: list[tuple[Any, Tensor, list[int]]] = []
        self._kept: list[Tensor] = []
        if group.size == 1:
            return
        group.bytes_sent += (sum(send_splits) - send_splits[group.rank]) * row_bytes
        group.messages += sum(1 for rank, rows in enumerate(send_splits) if rows and rank != group.rank)
        step = max(group.message_bytes // max(row_bytes, 1), 1)
        count = max(-(-largest // step), 1)  # the same on every rank
        for k in range(count):
            self._start(k * step, step if count > 1 else None)

    def _start(self, begin: int, step: int | None) -> None:
        group, (send_splits, recv_splits) = self._group, self._splits
        if step is None:
            send, sizes, recv = self._sent, send_splits, recv_splits
        else:
            pieces = [segment[begin : begin + step] for segment in self._sent.split(send_splits)]
            send, sizes = torch.cat(pieces), [len(piece) for piece in pieces]
            recv = [min(max(rows - begin, 0), step) for rows in recv_splits]
        out = send.new_empty(sum(recv), self._row_bytes)
        work = group._guarded(
            "all_to_all",
            lambda: c10d.all_to_all_single(out, send, recv, sizes, group=group._group, async_op=True),
        )
        self._rounds.append((work, out, recv))
        self._kept.append(send)

    def wait(self) -> Tensor:
        """The rows received, [Σ recv_splits, ...], by rank."""
        if self._group.size == 1:
            received = self._sent
        else:
            began = time.perf_counter()
            for work, _, _ in self._rounds:
                self._group._guarded("all_to_all", work.wait)
            ended = time.perf_counter()
            self._group.seconds_waited += ended - began
            if self._group.exchanges is not None:
                self._group.exchanges.append((self._began, began, ended))
            received = (self._rounds[0][1] if len(self._rounds) == 1 else self._joined()).to(self._home)
        rows = received.shape[0]
        return received.view(-1).view(self._dtype).view(rows, *self._shape)

    def _joined(self) -> Tensor:
        parts = [out.split(sizes) for _, out, sizes in self._rounds]
        return torch.cat([piece for rank in range(self._group.size) for piece in (part[rank] for part in parts)])


def backends_of(config: str) -> dict[str, str]:
    """The backend for each kind of device, of a configuration as torch.distributed writes it: "cpu:gloo,cuda:nccl"."""
    pairs = [part.strip().lower().partition(":") for part in config.split(",")]
    return {device: backend for device, _, backend in pairs}


def travelling_kind(backends: Mapping[str, str], kind: str) -> str:
    """The kind of device, "cpu" or "cuda", from which tensors of the kind `kind` are sent."""
    usable = [each for each in ("cpu", "cuda") if each in backends and (each, backends[each]) != ("cuda", "gloo")]
    return kind if kind in usable or not usable else usable[0]


def _product(sizes: Sequence[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def _signed(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _checksum(tensor: Tensor) -> int:
    """A number that differs, up to chance, between tensors that differ in dtype, shape or any byte."""
    return int(_ops.static("Dist", "checksum", tensor))
