"""The folder of a run: config.json, metrics.jsonl, checkpoint.safetensors, summary.json, as `topomask train` has them."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from .checkpoint import Checkpoint, load_checkpoint, save_checkpoint, write_whole
from .config import RunConfig, parse_config

_FREE = (
    "name", "data.kind", "data.path",
    "train.device", "train.chunk", "train.log_every", "train.evaluate_every", "train.checkpoint_every",
)  # fmt: skip
"""Keys, in addition to those of ranks, that do not change what is computed: a run may continue with other values. Where the best of
the evaluations counts, train.evaluate_every does."""


class RunFolder:
    """Only the first rank has one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.checkpoint = os.path.join(path, "checkpoint.safetensors")
        self._metrics = os.path.join(path, "metrics.jsonl")

    def resume(self, config: RunConfig) -> Checkpoint | None:
        """The last checkpoint, which must be of this configuration."""
        if not os.path.exists(self.checkpoint):
            return None
        found = load_checkpoint(self.checkpoint)
        now = config.values()
        for key, value in parse_config(found.config, f"{self.checkpoint}: ").values().items():
            free = key in _FREE and not (key == "train.evaluate_every" and now["train.select"] == "best")
            if free or key.startswith("ranks.") or now[key] == value:
                continue
            raise ValueError(
                f"train: {self.checkpoint}: it is of a run with {key} = {value}, and this one has {now[key]}; train it in another "
                "folder, or start over in this one with --restart"
            )
        return found

    def open(self, config: RunConfig, step: int) -> None:
        """The configuration has been accepted; metrics after `step` are dropped, for they are written again."""
        os.makedirs(self.path, exist_ok=True)
        for name in os.listdir(self.path):
            if re.search(r"\.tmp\.\d+(\.\d+)?$", name):  # was being written when the run was killed
                os.unlink(os.path.join(self.path, name))
        if step == 0:
            for name in ("checkpoint.safetensors", "summary.json"):
                if os.path.exists(os.path.join(self.path, name)):
                    os.unlink(os.path.join(self.path, name))
        kept = []
        if step and os.path.exists(self._metrics):
            with open(self._metrics) as file:
                # A last line without an end was being written when the run was killed.
                lines = [line for line in file if line.endswith("\n")]
            kept = [line for line in lines if json.loads(line)["step"] <= step]
        write_whole(self._metrics, "".join(kept).encode())
        write_whole(os.path.join(self.path, "config.json"), (config.json() + "\n").encode())

    def log(self, line: dict[str, Any]) -> None:
        with open(self._metrics, "a") as file:
            file.write(json.dumps(line) + "\n")

    def save(self, checkpoint: Checkpoint) -> None:
        save_checkpoint(self.checkpoint, checkpoint)

    def finish(self, summary: dict[str, Any]) -> None:
        write_whole(os.path.join(self.path, "summary.json"), (json.dumps(summary, indent=2) + "\n").encode())
