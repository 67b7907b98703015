"""Training of a graph transformer over ranks, from the configuration files of the command line tool.

    torchrun --nproc-per-node 4 -m topomask.train examples/roads.json --out runs/roads
    python -m topomask.train examples/roads.json --out runs/roads     # one process

docs/scale.md explains; `python -m topomask.train --keys` lists the keys.
"""

from __future__ import annotations

from .config import RunConfig, parse_config, read_config
from .run import start_ranks, train
from .trainer import Trainer

__all__ = ["RunConfig", "Trainer", "parse_config", "read_config", "start_ranks", "train"]
