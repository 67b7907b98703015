"""Attention modulated by a mask, and the plan that chooses how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import _errors, _ops
from ._traced import How, attend
from .features import FeatureMap, feature_map
from .mask import DEFAULT_MEMORY_BUDGET, Mask

Features = str | FeatureMap | Callable[[Tensor], Tensor] | None


def _check_mask(op: str, mask: Any) -> None:
    if not isinstance(mask, Mask):
        raise TypeError(f"{op}: mask must be a topomask.Mask, got {type(mask).__name__}; none_mask(N) is unmasked attention")


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    *,
    features: Features = "relu",
    route: str = "automatic",
    eps: float = 1e-6,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
) -> Tensor:
    """Kernel attention with a multiplicative mask: out = D⁻¹(M ⊙ φ(Q)φ(K)ᵀ)V, D = diag((M ⊙ φ(Q)φ(K)ᵀ)1).

    q, k: [..., N, d_k]; v: [..., N, D]; the same leading dimensions; a mask with H > 1 heads needs dimension −3 to be H. float64,
    float32, bfloat16 with float32 accumulation, on a GPU also float16. Returns [..., N, D].

    features: φ, by name ("relu", "elu", "exp", "squared_relu", "identity"), a FeatureMap, a function, or None where q and k are
    features already. route: "automatic", "dense", "sparse", "features", "operator", "fused" or "strips"; the planner chooses for
    "automatic".
    eps: the denominator is kept at least this far from zero, with its sign. memory_budget: bytes beyond inputs and output.

    Cost per slice, of which the planner takes the least: dense, fused and strips N²·(m + D) multiply-adds, sparse nnz(M)·(m + D),
    features nnz(Φ₁, Φ₂)·m·(D + 1), operator m·(D + 1) products M·x; `explain` has the seconds and bytes. Gradient: once, in q, k,
    v and the mask's parameters.
    """
    _check_mask("attention", mask)
    fq, fk = q, k
    if features is not None:
        phi = feature_map(features)
        fq, fk = phi.queries(q), phi.keys(k)
    if torch.compiler.is_compiling():
        return attend(mask, fq, fk, v, How("attention", route, eps, None, memory_budget))
    return _ops.attention(mask._attention(), fq, fk, v, route, float(eps), memory_budget)


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    *,
    mode: str = "multiplicative",
    scale: float | None = None,
    route: str = "automatic",
    eps: float = 1e-6,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
) -> Tensor:
    """Softmax attention modulated by a mask: out_i = Σ_j w_ij v_j / Σ_j w_ij, S = scale·QKᵀ, scale = 1/√d_k by default.

    q, k: [..., N, d_k]; v: [..., N, D]; dtypes and heads as in `attention`. Returns [..., N, D]. mode "multiplicative": weights
    w_ij = M_ij·exp(s_ij), absent pairs excluded; sparse, fused, strips or dense route. mode "additive": w_ij = exp(s_ij + M_ij),
    an absent entry being 0, so that every pair attends; fused, strips or dense. eps, memory_budget as in `attention`.

    Cost per slice: sparse nnz(M)·(d_k + D) multiply-adds, the others N²·(d_k + D); fused takes O(N·D) memory, strips some rows of M
    more. Gradient: once, in q, k, v and the mask's parameters.
    """
    _check_mask("softmax_attention", mask)
    if mode not in ("multiplicative", "additive"):
        raise ValueError(f"softmax_attention: mode must be multiplicative or additive, got {mode}")
    if torch.compiler.is_compiling():
        return attend(mask, q, k, v, How(mode, route, eps, scale, memory_budget))
    factor = None if scale is None else float(scale)
    return _ops.softmax_attention(mask._softmax_attention(), q, k, v, mode, factor, route, float(eps), memory_budget)


@dataclass(frozen=True)
class RouteEstimate:
    """A route, its estimated seconds and bytes beyond inputs and output, whether the mask offers it, and the verdict."""

    route: str
    available: bool
    seconds: float
    bytes: float
    reason: str


@dataclass(frozen=True, repr=False)
class Plan:
    """The routes with their estimated cost, the choice and why; prints as a table."""

    route: str
    mask: str
    reason: str
    estimates: tuple[RouteEstimate, ...]
    table: str

    @staticmethod
    def _of(fields: Any) -> Plan:
        route, mask, reason, table, routes, seconds, sizes, reasons, available = fields
        estimates = (RouteEstimate(r, bool(a), s, b, why) for r, a, s, b, why in zip(routes, available, seconds, sizes, reasons))
        return Plan(route, mask, reason, tuple(estimates), table)

    @property
    def _chosen(self) -> RouteEstimate:
        return next(estimate for estimate in self.estimates if estimate.route == self.route)

    @property
    def seconds(self) -> float:
        """Estimated seconds of the route chosen."""
        return self._chosen.seconds

    @property
    def bytes(self) -> float:
        """Estimated bytes of the route chosen, beyond inputs and output."""
        return self._chosen.bytes

    def __str__(self) -> str:
        return self.table

    __repr__ = __str__


def explain(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, features: Features = "relu", memory_budget: int = DEFAULT_MEMORY_BUDGET
) -> Plan:
    """What `attention` would do with the same arguments: the routes with their estimated time and memory, the choice and why.
    q, k [..., N, d_k], v [..., N, D].

    Cost: that of φ on one row; forms of the mask that the planner counts are made on first use and kept. Gradient: none.
    """
    _check_mask("explain", mask)
    if isinstance(q, Tensor) and q.dim() < 2:
        raise ValueError(f"explain: q must be [..., N = {mask.size}, C], got {list(q.shape)}")
    row = feature_map(features)(q[..., :1, :])  # one row tells how many features the map makes
    fq = row.expand(*q.shape[:-1], row.shape[-1])
    fk = fq if k.shape == q.shape and k.dtype == q.dtype and k.device == q.device else k  # refused by the library
    return Plan._of(_ops.method(mask._object, "explain", fq, fk, v, memory_budget))


def _device(device: torch.device | str) -> torch.device:
    try:
        return torch.device(device)
    except RuntimeError:
        raise ValueError(f"device must be cpu or cuda, got {device}") from None


def _counts(mask: Mask, slices: int, features: int, value_dim: int) -> list[int]:
    return [slices, mask.heads, mask.size, features, value_dim, torch.get_num_threads()]


def plan_attention(
    mask: Mask,
    *,
    slices: int = 1,
    features: int = 64,
    value_dim: int = 64,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    training: bool = False,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
) -> Plan:
    """The plan for sizes that are not tensors yet: slices = batch × heads, m features, D value dimensions, on "cpu" or "cuda".

    Cost: microseconds; forms of the mask that the planner counts are made on first use and kept. Gradient: none.
    """
    counts = _counts(mask, slices, features, value_dim)
    return Plan._of(_ops.method(mask._object, "plan_attention", counts, dtype, _device(device), training, memory_budget))


def plan_softmax(
    mask: Mask,
    *,
    slices: int = 1,
    features: int = 64,
    value_dim: int = 64,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    training: bool = False,
    additive: bool = False,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
) -> Plan:
    """The same for softmax attention, which has the routes fused, sparse, strips and dense; an additive mask has no sparse one.
    Cost: as plan_attention. Gradient: none."""
    counts = _counts(mask, slices, features, value_dim)
    return Plan._of(_ops.method(mask._object, "plan_softmax", counts, dtype, _device(device), training, additive, memory_budget))


_errors.explain_arguments(__name__)
