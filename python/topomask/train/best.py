"""The weights that did best on validation data so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

SCORE = "train/best"
"""In a checkpoint, float64 [3]: accuracy and loss of the best weights, and the evaluations since; the weights are best/NAME."""


class BestWeights:
    """A copy of the parameters that had the highest accuracy on validation data so far, the lower loss among equals. The same on every
    rank, since evaluations are."""

    def __init__(self, model: nn.Module) -> None:
        self._own = dict(model.named_parameters())
        self._copies: dict[str, Tensor] = {}
        self._score = torch.tensor([-1.0, 0.0, 0.0], dtype=torch.float64)

    def offer(self, found: Mapping[str, float]) -> None:
        """The parameters as they are, and how well they did."""
        accuracy, loss, since = self._score.tolist()
        if found["accuracy"] < accuracy or (found["accuracy"] == accuracy and found["loss"] >= loss):
            self._score[2] = since + 1
            return
        self._score = torch.tensor([found["accuracy"], found["loss"], 0.0], dtype=torch.float64)
        self.copy()

    def copy(self) -> None:
        self._copies = {name: parameter.detach().clone() for name, parameter in self._own.items()}

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps, sharing memory; empty before the first offer."""
        if not self._copies:
            return {}
        return {**{f"best/{name}": copy for name, copy in self._copies.items()}, SCORE: self._score}

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The best parameters are those of the model, where there are any."""
        with torch.no_grad():
            self._exchange()
            try:
                yield
            finally:
                self._exchange()

    def _exchange(self) -> None:
        for name, copy in self._copies.items():
            held = self._own[name].detach().clone()
            self._own[name].detach().copy_(copy)
            copy.copy_(held)
