"""Masks that need no halo: unmasked attention and low rank, by all-reduce only; global tokens around any mask."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import _traced
from .exchange import all_sum, from_first, tied
from .group import Group
from .layout import Layout
from .mask import DistributedMask, SparseDistributedMask
from .rows import LocalRows, operator_of


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _with_ones(v: Tensor) -> Tensor:
    return torch.cat([_wide(v), torch.ones_like(v[..., :1], dtype=_wide(v[..., :0]).dtype)], -1)


def _normalised(joint: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    return _traced.normalise(joint[..., :-1], joint[..., -1], eps).to(dtype)


class LowRankDistributedMask(DistributedMask):
    """M = LRᵀ: each rank has the rows of L and R of its nodes. What travels is Rᵀ[φ(k) ⊗ (v, 1)], whatever N is."""

    _routes = ("features",)

    def __init__(self, layout: Layout, left: Tensor | None, right: Tensor | None) -> None:
        super().__init__(layout, layout.num_rows, left.shape[0] if left is not None and left.dim() == 3 else 1)
        self._ones = left is None
        if left is not None and right is not None:
            self.keep("left", left)
            self.keep("right", right)

    def _factors(self) -> tuple[Tensor, Tensor] | None:
        """L and R; None: columns of ones."""
        return None if self._ones else (self.kept("left"), self.kept("right"))

    def _columns(self) -> list[tuple[Tensor | None, Tensor | None]]:
        """The columns of L and R, [1 or H, n, 1] each; None is a column of ones."""
        factors = self._factors()
        if factors is None:
            return [(None, None)]
        wide = (x.reshape(-1, x.shape[-2], x.shape[-1]) for x in factors)
        return list(zip(*(x.split(1, -1) for x in wide)))

    def joint(self, q: Tensor, k: Tensor, v1: Tensor) -> Tensor:
        """Numerators and denominator, [B, H, n, D + 1]."""
        columns = self._columns()
        states = torch.stack([(k if right is None else k * right).mT @ v1 for _, right in columns])
        states = all_sum(self.group, states)
        parts = [(q if left is None else q * left) @ state for (left, _), state in zip(columns, states.unbind(0))]
        return torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]

    def _run(self, q: Tensor, k: Tensor, v: Tensor, softmax: bool, scale: float, eps: float) -> Tensor:
        self._refuse(softmax)
        return _normalised(self.joint(_wide(q), _wide(k), _with_ones(v)), eps, v.dtype)

    def _refuse(self, softmax: bool) -> None:
        if softmax:
            raise ValueError(
                "softmax_attention: mask must have few nonzeros over ranks; without a sparse mask every pair of nodes attends, O(N²)"
            )

    def matmul(self, x: Tensor) -> Tensor:
        return self._product(x, self._factors())

    def matmul_transposed(self, x: Tensor) -> Tensor:
        factors = self._factors()
        return self._product(x, None if factors is None else factors[::-1])

    def _product(self, x: Tensor, factors: tuple[Tensor, ...] | None) -> Tensor:
        if factors is None:
            return all_sum(self.group, x.sum(-2, keepdim=True)).expand(x.shape)
        return factors[0] @ all_sum(self.group, factors[1].mT @ x)


def none_mask(layout: Layout) -> LowRankDistributedMask:
    """M = 1 over ranks: linear attention over all nodes. All-reduce of H·m·(D + 1) numbers."""
    return LowRankDistributedMask(layout, None, None)


def free_features_mask(layout: Layout, left: Tensor, right: Tensor | None = None) -> LowRankDistributedMask:
    """M = Φ₁Φ₂ᵀ over ranks: left [n, r] or [H, n, r], the rows of this rank; right like it, or left out: ΦΦᵀ. Parameters of the
    rank. All-reduce of H·r·m·(D + 1) numbers."""
    other = left if right is None else right

    def checked() -> None:
        if left.dim() not in (2, 3) or left.shape[-2] != layout.num_rows or left.shape != other.shape:
            raise ValueError(
                f"left and right must be [{layout.num_rows}, r] or [H, {layout.num_rows}, r], the rows of this rank, "
                f"got {list(left.shape)} and {list(other.shape)}"
            )

    layout.group.together("free_features_mask", checked)
    layout.group.agree("free_features_mask", rank=left.shape[-1], heads=left.shape[0] if left.dim() == 3 else 1)
    return LowRankDistributedMask(layout, left, other)


class GlobalTokensDistributedMask(DistributedMask):
    """Global tokens before the nodes of another distributed mask. The first rank has them, as the first of its rows."""

    def __init__(self, mask: SparseDistributedMask | LowRankDistributedMask, tokens: int) -> None:
        held = tokens if mask.group.rank == 0 else 0
        super().__init__(mask.layout, mask.size + held, mask.heads, reduce=mask.reduce)
        self.mask, self.tokens, self._held = mask, tokens, held
        self._routes = mask._routes
        if isinstance(mask, SparseDistributedMask):
            self._rows = LocalRows(mask.local.plan, mask.local.pattern, tokens)

    def _run(self, q: Tensor, k: Tensor, v: Tensor, softmax: bool, scale: float, eps: float) -> Tensor:
        held, group, features = self._held, self.group, q.shape[-1]
        if isinstance(self.mask, LowRankDistributedMask):
            self.mask._refuse(softmax)
        every = _first_rows(group, torch.cat([q, k, v], -1), self.tokens)
        token_q, token_k, token_v = every.split([features, features, v.shape[-1]], -1)
        node_q, node_k, node_v = (x[..., held:, :] for x in (q, k, v))
        if isinstance(self.mask, SparseDistributedMask):
            operator = operator_of(softmax, scale, eps)
            nodes = self._rows.attention(node_q, node_k, node_v, self.mask.values(), operator, (token_k, token_v))
        else:
            joint = self.mask.joint(_wide(node_q), _wide(node_k), _with_ones(node_v))
            joint = joint + (_wide(node_q) @ _wide(token_k).mT) @ _with_ones(token_v)
            nodes = _normalised(joint, eps, v.dtype)
        if held:  # the columns of the tokens count once
            node_k, node_v = torch.cat([token_k, node_k], -2), torch.cat([token_v, node_v], -2)
        joint = _token_rows(group, token_q, node_k, node_v, scale if softmax else None)
        if not held:
            return tied(nodes, joint)
        return torch.cat([_normalised(joint, eps, v.dtype), nodes], -2)

    def matmul(self, x: Tensor) -> Tensor:
        return self._bordered(x, self.mask.matmul(x[..., self._held :, :]))

    def matmul_transposed(self, x: Tensor) -> Tensor:
        return self._bordered(x, self.mask.matmul_transposed(x[..., self._held :, :]))

    def _bordered(self, x: Tensor, nodes: Tensor) -> Tensor:
        tokens = _first_rows(self.group, x, self.tokens)
        nodes = nodes + tokens.sum(-2, keepdim=True)
        total = all_sum(self.group, x.sum(-2, keepdim=True))
        if not self._held:
            return tied(nodes, total)
        return torch.cat([total.expand(*total.shape[:-2], self.tokens, -1), nodes], -2)


def _first_rows(group: Group, x: Tensor, rows: int) -> Tensor:
    """The first rows of x on the first rank, on every rank."""
    if group.rank == 0:
        return from_first(group, x[..., :rows, :])
    held = x.new_zeros(*x.shape[:-2], rows, x.shape[-1])
    return from_first(group, held.requires_grad_(x.requires_grad))  # so that this rank takes part in the backward pass


def _token_rows(group: Group, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
    """Numerators and denominators of the global tokens, over the columns of all ranks."""
    scores = _wide(q) @ _wide(k).mT
    if scale is not None:
        scores = scores * scale
        shape = scores.shape[:-1]
        top = scores.detach().amax(-1) if scores.shape[-1] else scores.new_full(shape, -torch.inf)
        scores = (scores - group.all_reduce(top.contiguous().clone(), "max").unsqueeze(-1)).exp()
    return all_sum(group, scores @ _with_ones(v))


def with_global_tokens(mask: DistributedMask, tokens: int = 1) -> GlobalTokensDistributedMask:
    """Global tokens (CLS) before the nodes of another distributed mask: their rows and columns are 1. The first rank has them, as the
    first rows of its q, k and v; the others see their keys and values, and take part in their queries."""

    def checked() -> SparseDistributedMask | LowRankDistributedMask:
        if tokens < 1:
            raise ValueError(f"tokens must be >= 1, got {tokens}")
        if not isinstance(mask, (SparseDistributedMask, LowRankDistributedMask)):
            raise TypeError(f"mask must be a distributed mask without global tokens, got {type(mask).__name__}")
        return mask

    inner = mask.group.together("with_global_tokens", checked) if isinstance(mask, DistributedMask) else checked()
    mask.group.agree("with_global_tokens", tokens=tokens)
    return GlobalTokensDistributedMask(inner, tokens)
