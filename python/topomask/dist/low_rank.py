"""Masks that need no halo: unmasked attention and low rank, by all-reduce only; global tokens around any mask."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .. import _ops, _traced, functional
from ..mask import Mask
from ..pattern import Pattern
from .exchange import all_sum, from_first, tied
from .group import Group
from .layout import Layout
from .mask import DistributedMask, SparseDistributedMask
from .rows import LocalRows, bordered_pattern, operator_of


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _with_ones(v: Tensor) -> Tensor:
    return torch.cat([_wide(v), torch.ones_like(v[..., :1], dtype=_wide(v[..., :0]).dtype)], -1)


def _normalised(joint: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    return _traced.normalise(joint[..., :-1], joint[..., -1], eps).to(dtype)


def _column(factor: Tensor, a: int) -> Tensor:
    """Column a of a factor [1 or H, n, r], as [1 or H, n, 1]."""
    return factor[..., a : a + 1]


def _column_gradient(a: Tensor, b: Tensor, factor: Tensor) -> Tensor:
    """Σ a·b [B, H, n, m] over what a column of the factor is the same for, [1 or H, n]."""
    dots = (a * b).sum(-1).sum(0)
    return dots if factor.shape[0] > 1 else dots.sum(0, keepdim=True)


class _States(torch.autograd.Function):
    """(k ⊙ R_a)ᵀ v for every column a of R [1 or H, n, r]: [r, B, H, m, D]. Products with the columns are computed again in the
    backward pass, which keeps k and not r times as much."""

    @staticmethod
    def forward(ctx: Any, k: Tensor, v: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(k, v, right)
        return torch.stack([(k * _column(right, a)).mT @ v for a in range(right.shape[-1])])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, v, right = ctx.saved_tensors
        dk, dv, dright = torch.zeros_like(k), torch.zeros_like(v), torch.zeros_like(right)
        for a, g in enumerate(grad.unbind(0)):
            column = _column(right, a)
            dka = v @ g.mT
            dk.addcmul_(dka, column)
            dv += (k * column) @ g
            if ctx.needs_input_grad[2]:
                dright[..., a] = _column_gradient(dka, k, right)
        return dk, dv, dright


class _Applied(torch.autograd.Function):
    """Σ_a (q ⊙ L_a) S_a for the columns of L [1 or H, n, r] and states S [r, B, H, m, D]; like _States."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, left: Tensor, states: Tensor) -> Tensor:
        ctx.save_for_backward(q, left, states)
        out = q.new_zeros(*q.shape[:-1], states.shape[-1])
        for a, state in enumerate(states.unbind(0)):
            out += (q * _column(left, a)) @ state
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, left, states = ctx.saved_tensors
        dq, dleft, dstates = torch.zeros_like(q), torch.zeros_like(left), torch.empty_like(states)
        for a, state in enumerate(states.unbind(0)):
            column = _column(left, a)
            dqa = grad @ state.mT
            dq.addcmul_(dqa, column)
            dstates[a] = (q * column).mT @ grad
            if ctx.needs_input_grad[1]:
                dleft[..., a] = _column_gradient(dqa, q, left)
        return dq, dleft, dstates


class LowRankDistributedMask(DistributedMask):
    """M = LRᵀ: each rank has the rows of L and R of its nodes. What travels is Rᵀ[φ(k) ⊗ (v, 1)], whatever N is. One rank alone runs
    the mask of one process."""

    _routes = ("features",)
    row_parameters = ("left", "right")

    def __init__(self, layout: Layout, left: Tensor | None, right: Tensor | None) -> None:
        super().__init__(layout, layout.num_rows, left.shape[0] if left is not None and left.dim() == 3 else 1)
        self._ones = left is None
        self._plain: tuple[tuple[Tensor, Tensor] | None, Mask] | None = None
        if left is not None and right is not None:
            self.keep("left", left)
            self.keep("right", right)

    def _factors(self) -> tuple[Tensor, Tensor] | None:
        """L and R; None: columns of ones."""
        return None if self._ones else (self.kept("left"), self.kept("right"))

    def alone(self) -> Mask:
        """The mask of one process over the rows of this rank."""
        factors = self._factors()
        known = self._plain
        if known is None or (factors is not None and any(a is not b for a, b in zip(known[0] or (), factors))):
            made = functional.none_mask(self.size) if factors is None else functional.free_features_mask(*factors)
            known = factors, made
            self._plain = known  # in a tuple it is no module of this one: its parameters are those here
        return known[1]

    def _attention(self) -> Any:
        return _attention_alone(self, self.alone()) if self.group.size == 1 else super()._attention()

    def joint(self, q: Tensor, k: Tensor, v1: Tensor) -> Tensor:
        """Numerators and denominator, [B, H, n, D + 1]."""
        factors = self._factors()
        if factors is None:
            return q @ all_sum(self.group, k.mT @ v1)
        left, right = (x.reshape(-1, x.shape[-2], x.shape[-1]).to(q.dtype) for x in factors)
        states: Tensor = _States.apply(k, v1, right)  # type: ignore[no-untyped-call]
        out: Tensor = _Applied.apply(q, left, all_sum(self.group, states))  # type: ignore[no-untyped-call]
        return out

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
        with torch.autocast(x.device.type, enabled=False):
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
        self._plain: tuple[Mask, Mask] | None = None
        self._whole: tuple[Pattern, Tensor] | None = None
        if isinstance(mask, SparseDistributedMask) and self.group.size > 1:
            self._rows = LocalRows(mask.local.plan, mask.local.pattern, tokens)

    def _attention(self) -> Any:
        if self.group.size > 1 or isinstance(self.mask, SparseDistributedMask):
            return super()._attention()
        inner, known = self.mask.alone(), self._plain
        if known is None or known[0] is not inner:
            known = (inner, functional.with_global_tokens(inner, self.tokens))
            self._plain = known
        return _attention_alone(self, known[1])

    def _bordered_rows(self, mask: SparseDistributedMask, values: Tensor) -> tuple[Pattern, Tensor]:
        """The whole of [1 1; 1 M] on one rank: its pattern, and its values from those of M."""
        pattern = mask.local.pattern
        if self._whole is None or self._whole[0].columns.device != pattern.columns.device:
            self._whole = bordered_pattern(pattern, self.tokens)
        whole, places = self._whole
        spread: Tensor = _Spread.apply(values, places, whole.entries)  # type: ignore[no-untyped-call]
        return whole, spread

    def _run(self, q: Tensor, k: Tensor, v: Tensor, softmax: bool, scale: float, eps: float) -> Tensor:
        held, group, features = self._held, self.group, q.shape[-1]
        if isinstance(self.mask, LowRankDistributedMask):
            self.mask._refuse(softmax)
        elif group.size == 1:
            whole, values = self._bordered_rows(self.mask, self.mask.values())
            return operator_of(softmax, scale, eps)(q, k, v, values, whole._operands())
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


def _attention_alone(mask: LowRankDistributedMask | GlobalTokensDistributedMask, plain: Mask) -> Any:
    """Attention on one rank by the mask of one process, after the checks of the mask over ranks."""

    def kernel(q: Tensor, k: Tensor, v: Tensor, route: str, eps: float, memory_budget: int) -> Tensor:
        mask._checked("attention", q, k, v, route, ("automatic", *mask._routes))
        return _ops.attention(plain._attention(), q, k, v, route, eps, memory_budget)

    return kernel


class _Spread(torch.autograd.Function):
    """Values [1 or H, e] at distinct places among `entries`, all others 1."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, places: Tensor, entries: int) -> Tensor:
        ctx.save_for_backward(places)
        return values.new_ones(values.shape[0], entries).index_copy_(1, places, values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad.index_select(1, *ctx.saved_tensors), None, None


def _first_rows(group: Group, x: Tensor, rows: int) -> Tensor:
    """The first rows of x on the first rank, on every rank."""
    if group.rank == 0:
        return from_first(group, x[..., :rows, :])
    # Zeros, made from no row of x, so that this rank takes part in every backward pass to x.
    held = x[..., :0, :].sum(-2, keepdim=True).expand(*x.shape[:-2], rows, x.shape[-1])
    return from_first(group, held)


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
