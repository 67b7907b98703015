"""Attention as torch.compile sees it: tensors and registered operators, by a route that was planned beforehand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import _ops

if TYPE_CHECKING:
    from .library_mask import LibraryMask
    from .mask import Mask


@dataclass(frozen=True)
class How:
    """what: "attention", "multiplicative" or "additive" (softmax), "matmul", "matmul_transposed"; the rest as in attention."""

    what: str
    route: str = "automatic"
    eps: float = 1e-6
    scale: float | None = None
    memory_budget: int = 1 << 32


def fold(x: Tensor, heads: int) -> Tensor:
    """[..., H, N, C] → [B, H, N, C] for the H of the mask."""
    return x.reshape(-1, heads, x.shape[-2], x.shape[-1])


def normalise(numerator: Tensor, denominator: Tensor, eps: float) -> Tensor:
    """numerator / denominator, which is kept at least eps from zero, with its sign (0 counts as +)."""
    away = torch.where(denominator < 0, denominator.clamp(max=-eps), denominator.clamp(min=eps))
    return numerator / away.unsqueeze(-1)


class Form:
    """A mask as tensors and operators."""

    def serves(self, how: How) -> bool:
        return how.what == "attention" and how.route in ("automatic", self.route)

    route = "features"

    def attention(self, mask: LibraryMask, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
        raise NotImplementedError


class Linear(Form):
    """M = 1: linear attention."""

    def attention(self, mask: LibraryMask, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        fq, fk, fv = q.to(wide), k.to(wide), v.to(wide)
        numerator = fq @ (fk.mT @ fv)
        denominator = (fq @ fk.sum(-2).unsqueeze(-1)).squeeze(-1)
        return normalise(numerator, denominator, how.eps).to(v.dtype)


class Sparse(Form):
    """Values over a pattern. A subclass says how the values follow from the parameters."""

    route = "sparse"

    def __init__(self, pattern: list[Tensor]) -> None:
        self.pattern = pattern

    def values(self, mask: Any) -> Tensor:
        """[1 or H, entries]"""
        raise NotImplementedError

    def serves(self, how: How) -> bool:
        return how.what in ("attention", "multiplicative") and how.route in ("automatic", "sparse")

    def attention(self, mask: LibraryMask, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
        heads = mask._traced_heads
        values = self.values(mask).reshape(heads, -1)
        folded = fold(q, heads), fold(k, heads), fold(v, heads)
        if how.what == "attention":
            return _ops.sparse_attention(*folded, values, self.pattern, how.eps).reshape(v.shape)
        scale = how.scale if how.scale is not None else 1.0 / math.sqrt(max(q.shape[-1], 1))
        return _ops.sparse_softmax_attention(*folded, values, self.pattern, scale, how.eps).reshape(v.shape)


class GivenValues(Sparse):
    """The values are the parameter, in the order the user gave them in."""

    def __init__(self, pattern: list[Tensor], order: Tensor | None) -> None:
        super().__init__(pattern)
        self.order = order

    def values(self, mask: Any) -> Tensor:
        values: Tensor = mask.values
        return values if self.order is None else values.index_select(-1, self.order)


class Constant(Sparse):
    """Values without parameters."""

    def __init__(self, pattern: list[Tensor], constant: Tensor) -> None:
        super().__init__(pattern)
        self.constant = constant

    def values(self, mask: Any) -> Tensor:
        return self.constant


class Series(Sparse):
    """Σ_k α_k W^k from the powers of W, [K, entries]."""

    def __init__(self, pattern: list[Tensor], powers: Tensor) -> None:
        super().__init__(pattern)
        self.powers = powers

    def values(self, mask: Any) -> Tensor:
        alpha: Tensor = mask.alpha
        return alpha.reshape(-1, alpha.shape[-1]) @ self.powers


class Walked(Sparse):
    """Φ̂, or Φ̂Φ̂ᵀ where `product` is given, from visits."""

    def __init__(
        self, visits: tuple[Tensor, Tensor, Tensor], walkers: int, pattern: list[Tensor], product: list[Tensor] | None
    ) -> None:
        super().__init__(pattern if product is None else product)
        self.hops, self.loads, self.feature_offsets = visits
        self.scale = 1.0 / walkers
        self.features, self.product = pattern, product

    def phi(self, mask: Any) -> Tensor:
        f: Tensor = mask.f
        return _ops.walk_features(f.reshape(-1, f.shape[-1]), self.hops, self.loads, self.feature_offsets, self.scale)

    def values(self, mask: Any) -> Tensor:
        phi = self.phi(mask)
        return phi if self.product is None else _ops.sparse_gram(phi, self.features, self.product)


class WalkedFeatures(Form):
    """Φ̂Φ̂ᵀ without forming it: two sparse products per feature."""

    def __init__(self, walked: Walked) -> None:
        self.walked = walked

    def attention(self, mask: LibraryMask, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
        heads, phi, pattern = mask._traced_heads, self.walked.phi(mask), self.walked.features
        folded = fold(q, heads), fold(k, heads), fold(v, heads)
        numerator, denominator = _ops.factored_product(*folded, phi, pattern, phi, pattern)
        return normalise(numerator, denominator, how.eps).to(v.dtype).reshape(v.shape)


def operator_attention(q: Tensor, k: Tensor, v: Tensor, mask: Mask, how: How) -> Tensor:
    """Attention through `mask.matmul`, for masks written in Python."""
    if how.what != "attention":
        raise ValueError(f"softmax_attention: a compiled mask must be one of the library, got {type(mask).__name__}")
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    fq, fk = q.to(wide), k.to(wide)
    fv = torch.cat([v.to(wide), torch.ones_like(v[..., :1], dtype=wide)], -1)
    columns = (fk.unsqueeze(-1) * fv.unsqueeze(-2)).flatten(-2)
    product = mask.matmul(columns).unflatten(-1, (fk.shape[-1], fv.shape[-1]))
    joint = (fq.unsqueeze(-1) * product).sum(-2)
    return normalise(joint[..., :-1], joint[..., -1], how.eps).to(v.dtype)
