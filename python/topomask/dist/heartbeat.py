"""Who is alive: every rank writes into the store of torch.distributed from time to time how far it has come."""

from __future__ import annotations

import os
import threading
import time
import weakref
from datetime import timedelta
from typing import Any

from torch.distributed import distributed_c10d

INTERVAL = 0.5
"""Seconds between the beats of a rank."""


_prefixed: Any = distributed_c10d.PrefixStore


class Heartbeat:
    """A thread that writes `beat:sequence` for this rank every half second; sequence counts the collective calls it has begun.

    A collective call that fails says that some connection broke, or that time was up, not which rank is to blame. The rank whose
    beats have stopped is dead or stopped as a whole; if all beat, the one that has begun the fewest calls is the one that the
    others wait for. A rank that has found out leaves a note, so that a slower one does not blame it for having gone since.
    """

    _made: dict[str, int] = {}

    def __init__(self, group: str, rank: int, ranks: list[int]) -> None:
        # The same on every rank of the process group, whatever other groups this rank is in.
        made = Heartbeat._made[group] = Heartbeat._made.get(group, 0) + 1
        self.sequence = 0
        self._rank, self._ranks = rank, ranks
        store: Any = distributed_c10d._get_default_store()
        self._host = _host_of(store)
        prefix = f"topomask/{group}/{made}"
        self._store: Any = _prefixed(prefix, store.clone())  # connections of its own: others may block on theirs
        self._asked: Any = _prefixed(prefix, store.clone())
        self._write(self._store, 0)
        self._stop = threading.Event()
        thread = threading.Thread(target=_beat, args=(weakref.ref(self), self._stop), daemon=True)
        thread.start()
        weakref.finalize(self, self._stop.set)

    def _write(self, store: Any, beat: int) -> None:
        store.set(str(self._rank), f"{beat}:{self.sequence}")

    def _read(self) -> dict[int, tuple[int, int]]:
        found = {}
        for rank in self._ranks:
            if self._asked.check([str(rank)]):
                beat, sequence = self._asked.get(str(rank)).decode().split(":")
                found[rank] = (int(beat), int(sequence))
        return found

    def _without_store(self) -> str:
        """A clause for a store that does not answer: the process that held it has stopped, and without the store this rank cannot
        find out which of the other ranks are alive."""
        where = f"the store of torch.distributed{self._host} does not answer"
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            return f"the launcher stopped: torchrun on the first host held the store, and {where}"
        if self._rank == 0:
            return f"{where}; it is held by this rank or by the launcher"
        return f"rank 0 stopped, or the launcher where it holds the store: {where}"

    def diagnosis(self) -> str:
        """A clause that names the ranks to blame, as far as this rank can find that out. Takes three beats."""
        try:
            self._asked.set_timeout(timedelta(seconds=4 * INTERVAL))
            before = self._read()
            time.sleep(3 * INTERVAL)
            after = self._read()
            noted = {rank: self._asked.check([f"noted {rank}"]) for rank in self._ranks}
            self._asked.set(f"noted {self._rank}", "")
        except RuntimeError:
            return self._without_store()
        others = [rank for rank in self._ranks if rank != self._rank]
        silent = [rank for rank in others if rank not in after or after[rank][0] == before.get(rank, (-1, 0))[0]]
        if silent:
            first = [rank for rank in silent if not noted[rank]]
            return f"{_listed(first or silent)} stopped: no sign of life for {3 * INTERVAL:g} seconds"
        behind = min(after[rank][1] for rank in others)
        late = [rank for rank in others if after[rank][1] == behind]
        if behind < self.sequence:
            return f"{_listed(late)} did not come to this call: at call {behind}, this rank at {self.sequence}"
        return "every rank is alive"


def _host_of(store: Any) -> str:
    """The text " at HOST:PORT" for a TCPStore, however it is wrapped."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host, port = getattr(store, "host", None), getattr(store, "port", None)
    return f" at {host}:{port}" if host and port else ""


def _beat(reference: weakref.ref[Heartbeat], stop: threading.Event) -> None:
    beat = 0
    while not stop.wait(INTERVAL):
        beat += 1
        heartbeat = reference()
        if heartbeat is None:
            return
        try:
            heartbeat._write(heartbeat._store, beat)
        except RuntimeError:  # the store is gone; collective calls will say so
            return
        del heartbeat


def _listed(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(map(str, ranks))
