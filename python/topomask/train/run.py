"""A run in its folder: steps, and what is written after them."""

from __future__ import annotations

import datetime
import os
import resource
import sys
import time
from typing import Any

import torch
import torch.distributed as c10d

from .. import dist
from .checkpoint import Checkpoint
from .config import RunConfig
from .folder import RunFolder
from .trainer import Diverged, Trainer, learning_rate


def peak_memory_mb() -> float:
    """The peak memory of this process, or of its GPU."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def train(config: RunConfig, out: str, *, restart: bool = False, stop_after: int = 0, quiet: bool = False) -> dict[str, Any]:
    """Trains in the folder `out`, which only the first rank reads and writes: from its checkpoint where it has one, unless restart.
    stop_after: so many steps at the most. quiet: metrics go into the folder alone, not to stderr. Returns what summary.json holds.
    A collective call of all ranks of torch.distributed, which may be one, and then need not be initialised. A run that diverges stops
    with a FloatingPointError on every rank, and keeps its last checkpoint."""
    config.check()
    world = dist.Group()
    first = world.rank == 0
    folder = RunFolder(out)
    checkpoint = world.together("train", lambda: folder.resume(config) if first and not restart else None)
    trainer = Trainer(config, world)
    trainer.restore(checkpoint)
    world.together("train", lambda: folder.open(config, trainer.step) if first else None)
    run = _Run(config, trainer, folder, checkpoint, quiet)
    try:
        return run.go(stop_after)
    except Diverged as error:
        raise FloatingPointError(f"{error}. {run.kept()}") from None


class _Run:
    """What is done after the steps of a trainer."""

    def __init__(self, config: RunConfig, trainer: Trainer, folder: RunFolder, checkpoint: Checkpoint | None, quiet: bool) -> None:
        self.config, self.trainer, self.folder, self.quiet = config, trainer, folder, quiet
        self.first = trainer.world.rank == 0
        self.losses: list[float] = checkpoint.tensors["train/losses"].tolist() if checkpoint is not None else []
        self.seconds = 0.0 if checkpoint is None else checkpoint.seconds
        self.began = time.monotonic()
        self.timed = (trainer.step, self.began)
        self.resumed_from = self.saved = trainer.step

    def kept(self) -> str:
        """What may be done with a run that has diverged."""
        if self.saved == 0:
            return f"{self.folder.path} has no checkpoint yet: the same folder can be used with other settings"
        return (
            f"{self.folder.path} keeps its checkpoint of step {self.saved}: with other settings, train in another folder or start over "
            "with --restart"
        )

    def go(self, stop_after: int) -> dict[str, Any]:
        trainer, options = self.trainer, self.config.train
        until = min(trainer.steps, trainer.step + stop_after) if stop_after else trainer.steps
        while trainer.step < until:
            self.losses.append(trainer.advance())
            step, end = trainer.step, trainer.step == trainer.steps
            if end or (options.log_every and step % options.log_every == 0):
                self._log()
            every = options.evaluate_every
            due = trainer.best is not None if end else bool(every) and step % every == 0
            if due:
                self._evaluate(["validation"])
            if end or step == until or (options.checkpoint_every and step % options.checkpoint_every == 0):
                self._save()
        return self._finish()

    def _log(self) -> None:
        trainer, now = self.trainer, time.monotonic()
        steps = max(trainer.step - self.timed[0], 1)
        milliseconds = 1e3 * (now - self.timed[1]) / steps
        self.timed = (trainer.step, now)
        items = trainer.data.rows["train"].total
        line = {"kind": "train", "step": trainer.step, "epoch": float(trainer.step), "loss": sum(self.losses) / len(self.losses)}
        line["lr"] = learning_rate(self.config.train, trainer.step - 1, trainer.steps)
        line |= {"items_per_s": 1e3 * items / milliseconds, "step_ms": milliseconds, "memory_mb": peak_memory_mb()}
        self.losses = []
        self._write(line)

    def _write(self, line: dict[str, Any]) -> None:
        if self.first:
            self.folder.log(line)
        if self.first and not self.quiet:
            shown = " ".join(f"{key} {value:.6g}" if isinstance(value, float) else f"{value}" for key, value in line.items())
            print(shown, file=sys.stderr, flush=True)

    def _evaluate(self, splits: list[str], logged: bool = True, at_end: bool = False) -> dict[str, dict[str, float]]:
        found, evaluate = {}, self.trainer.evaluate_at_end if at_end else self.trainer.evaluate
        for split in splits:
            if self.trainer.data.rows[split].total:
                found[split] = evaluate(split)
                if logged:
                    self._write({"kind": "eval", "step": self.trainer.step, "split": split, **found[split]})
        return found

    def _save(self) -> None:
        self.trainer.check_finite()
        self.saved = self.trainer.step
        if self.first:
            trainer, seconds = self.trainer, self.seconds + time.monotonic() - self.began
            losses = torch.tensor(self.losses, dtype=torch.float64)
            tensors = {**trainer.state(), "train/losses": losses}
            self.folder.save(Checkpoint(trainer.step, seconds, self.config.json(), tensors))

    def _finish(self) -> dict[str, Any]:
        trainer = self.trainer
        done = trainer.step == trainer.steps
        new = trainer.step > self.resumed_from
        found = self._evaluate(["validation", "test"], logged=new, at_end=True) if done else {}
        memory = [row[0] / 1e6 for row in trainer.world.all_gather([int(1e6 * peak_memory_mb())])]
        config = self.config
        summary: dict[str, Any] = {"name": config.name, "task": config.task, "variant": f"{config.model.kind}+{config.model.mask}"}
        summary |= {"seed": config.train.seed, "accuracy": {name: each["accuracy"] for name, each in found.items()}}
        summary |= {"loss": {name: each["loss"] for name, each in found.items()}}
        summary |= {"parameters": sum(p.numel() for p in trainer.model.parameters()), "steps": trainer.step}
        summary |= {"seconds": self.seconds + time.monotonic() - self.began, "peak_memory_mb": max(memory)}
        summary |= {"ranks": trainer.world.size, "memory_mb": memory, "resumed_from": self.resumed_from}
        if done and self.first:
            self.folder.finish(summary)
        return summary


def start_ranks(config: RunConfig) -> None:
    """torch.distributed where torchrun, or an environment like its, says that there are ranks."""
    if config.train.device == "cuda" and torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if "RANK" in os.environ and not c10d.is_initialized():
        backend = "nccl" if config.train.device == "cuda" else "gloo"
        c10d.init_process_group(backend, timeout=datetime.timedelta(seconds=config.ranks.timeout))
