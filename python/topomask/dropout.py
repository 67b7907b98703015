"""Dropout that depends on the numbers of nodes and on nothing else of how they are computed: ranks, chunks, threads, devices."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_MASK = 2**64 - 1
_NODE, _FEATURE = -7046029254386353131, -3335678366873096957  # odd, of 64 bits: 2⁶⁴/φ, and a multiplier of the function below


def _mixed(x: Tensor) -> Tensor:
    """A bijection of 64 bits whose outputs look independent (the finaliser of SplitMix64). Products wrap."""
    x = (x ^ ((x >> 30) & (2**34 - 1))) * -4658895280553007687
    x = (x ^ ((x >> 27) & (2**37 - 1))) * -7723592293110705685
    return x ^ ((x >> 31) & (2**33 - 1))


def _key(*numbers: int) -> int:
    """One signed number of 64 bits for several."""
    state = torch.zeros((), dtype=torch.int64, device="cpu")
    for number in numbers:
        low = number & _MASK
        state = _mixed(state * _NODE + (low - 2**64 if low >= 2**63 else low))
    return int(state)


def uniform(key: int, nodes: Tensor, features: int) -> Tensor:
    """int64 [n, features] in [0, 2⁵³): numbers that look independent and uniform, of the key, the node and the feature."""
    rows = _mixed(nodes.reshape(-1, 1) * _NODE + key)
    columns = torch.arange(features, device=nodes.device) * _FEATURE
    return (_mixed(rows + columns) >> 11) & (2**53 - 1)


class NodeDropout(nn.Dropout):
    """torch's dropout; where the numbers of the nodes are given, int64 [n], a value x[..., i, c] is dropped by (seed, step, layer,
    nodes[i], c) alone, for all leading dimensions alike. `seed_dropout` sets the first three. x [..., n, features] → the same.

    Cost: O(size of x), and a few integer operations for each of n·features values. Gradient: in x.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
        self.key = 0

    def forward(self, input: Tensor, nodes: Tensor | None = None) -> Tensor:
        """[..., n, features] → the same; nodes int64 [n]."""
        if nodes is None or not self.training or self.p == 0:
            return super().forward(input)
        kept = uniform(self.key, nodes, input.shape[-1]) >= round(self.p * 2**53)
        return input * (kept.to(input.dtype) / ((1 - self.p) or 1.0))  # p = 1 keeps nothing


def seed_dropout(model: nn.Module, seed: int, step: int) -> None:
    """What the dropout layers of a model drop in the next step; each layer something else. Cost: O(number of modules). Gradient:
    none."""
    layers = [module for module in model.modules() if isinstance(module, NodeDropout)]
    for place, layer in enumerate(layers):
        layer.key = _key(seed, step, place)
