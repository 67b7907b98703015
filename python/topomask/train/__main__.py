"""python -m topomask.train CONFIG [--out FOLDER] [--restart] [--stop-after STEPS] [--SECTION.KEY VALUE …]"""

from __future__ import annotations

import argparse
import json
import os
import sys

from ..dist import RankError
from .config import RunConfig, _places, read_config
from .run import start_ranks, train


def _parsed(arguments: list[str]) -> tuple[argparse.Namespace, RunConfig]:
    parser = argparse.ArgumentParser(prog="topomask.train", description="Trains a graph transformer over the ranks of torchrun.")
    parser.add_argument("config", nargs="?", help="JSON; the keys are those of `topomask train`")
    parser.add_argument("--out", help="folder of the run, runs/NAME where left out; goes on where it stopped")
    parser.add_argument("--restart", action="store_true", help="start over in a folder that has a checkpoint")
    parser.add_argument(
        "--stop-after", type=int, default=0, metavar="STEPS", help="stop after this many steps; call again to continue"
    )
    parser.add_argument("--quiet", action="store_true", help="no metrics on stderr")
    parser.add_argument("--keys", action="store_true", help="list the keys")
    given, rest = parser.parse_known_args(arguments)
    if given.keys:
        for key, (owner, place) in _places(RunConfig()):
            print(f"{key} = {json.dumps(getattr(owner, place.name))}: {place.metadata['help']}")
        sys.exit(0)
    config = read_config(given.config) if given.config else RunConfig()
    while rest:
        flag, *rest = rest
        name, equals, value = flag[2:].partition("=")
        if not flag.startswith("--"):
            raise ValueError(f"train: unexpected argument '{flag}'")
        if not equals:
            if not rest:
                raise ValueError(f"train: --{name} must have a value")
            value, *rest = rest
        config.override(name, value)
    given.out = given.out or os.path.join("runs", config.name)
    config.check()
    return given, config


def main(arguments: list[str]) -> int:
    """0: trained; 1: it failed; 2: it was called in the wrong way."""
    try:
        given, config = _parsed(arguments)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    try:
        start_ranks(config)
        summary = train(config, given.out, restart=given.restart, stop_after=given.stop_after, quiet=given.quiet)
    except (RankError, ValueError, OSError, FloatingPointError) as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps(summary), flush=True)
    return 0


def _let_waiting_threads_sleep() -> None:
    """Starts this process again so that OpenMP threads that wait for work sleep, where the environment does not say how they
    wait: by default they spin, and slow down everything else on a busy machine. libgomp reads the setting when it is loaded,
    which importing the package has done. Nothing waits on one thread, which is what torchrun gives each of several ranks."""
    if os.environ.get("OMP_NUM_THREADS") == "1" or {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & set(os.environ):
        return
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.execv(sys.executable, sys.orig_argv)


if __name__ == "__main__":
    _let_waiting_threads_sleep()
    status = main(sys.argv[1:])
    sys.stdout.flush()
    # Without taking the process group down: where a rank is gone, that would wait for it.
    os._exit(status)
