"""Runs a function on several ranks: processes that are connected by Gloo over the loopback address."""

import datetime
import multiprocessing
import os
import pathlib
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[3]
if not os.environ.get("TOPOMASK_INSTALLED"):
    sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ["OMP_NUM_THREADS"] = "1"  # several processes on few cores

import topomask as tm  # noqa: E402, F401  (loads the library once, in the process that the others are forked from)
import torch  # noqa: E402
import torch.distributed as c10d  # noqa: E402

# The server does not take sys.path over (Python 3.11): without this it would import nothing beforehand, and every rank all of torch.
os.environ["PYTHONPATH"] = os.pathsep.join([path for path in sys.path if path])
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["ranks"])


def _main(rank, size, port, seconds, function, arguments, answer):
    torch.set_num_threads(1)
    try:
        store = c10d.TCPStore("127.0.0.1", port, is_master=False, timeout=datetime.timedelta(seconds=60))
        c10d.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=seconds))
        answer.send(("result", function(*arguments)))
    except BaseException as error:  # all of it goes to the test
        answer.send(("error", type(error).__name__, str(error), traceback.format_exc()))
    os._exit(0)  # a group that has lost a rank cannot be taken down in order


class Failed(AssertionError):
    pass


def start(size, function, *arguments, timeout=60, stopped=()):
    """The outcome on each rank: ("result", value), ("error", type, text, trace), None where a rank died without a word, ("late",) where
    it did not end. stopped: ranks that are not waited for."""
    # The store is in this process: its port is free, and no rank that dies takes it along.
    store = c10d.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pipes = [_context.Pipe(False) for _ in range(size)]
    processes = [
        _context.Process(target=_main, args=(rank, size, store.port, timeout, function, arguments, pipes[rank][1]), daemon=True)
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    for _, end in pipes:
        end.close()
    outcomes, until = [], time.monotonic() + 240
    try:
        for rank, (end, _) in enumerate(pipes):
            try:
                outcomes.append(end.recv() if end.poll(0 if rank in stopped else max(until - time.monotonic(), 0)) else ("late",))
            except EOFError:
                outcomes.append(None)
    finally:
        for process in processes:
            process.kill()
            process.join()
    return outcomes


def run(size, function, *arguments, timeout=60):
    """The result of function(*arguments) on each rank; a failure of one is a failure here."""
    outcomes = start(size, function, *arguments, timeout=timeout)
    for rank, outcome in enumerate(outcomes):
        if outcome is None or outcome[0] != "result":
            raise Failed(f"rank {rank} of {size}: {outcome[-1] if outcome else 'died'}")
    return [outcome[1] for outcome in outcomes]
