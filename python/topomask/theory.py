"""Coefficients, bounds, the measured error of an estimate, and what to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from . import _errors, _ops
from .graph import Graph
from .mask import Mask
from .walks import WalkOptions, WalkTable, _options


def _function(name: str, *arguments: Any) -> Any:
    return _ops.static("Functions", name, *arguments)


def diffusion_coefficients(terms: int, b: float = 1.0) -> Tensor:
    """f for κ(x) = exp(bx): f_k = b^k/(2^k k!). float64 [terms]. Cost: O(terms). Gradient: none."""
    f: Tensor = _function("diffusion_coefficients", terms, float(b))
    return f


def regularised_laplacian_coefficients(terms: int, d: float = 2.0) -> Tensor:
    """f for κ(x) = (1 − x)^−d: f_k = C(d/2 + k − 1, k). float64 [terms]. Cost: O(terms). Gradient: none."""
    f: Tensor = _function("regularised_laplacian_coefficients", terms, float(d))
    return f


def random_walk_coefficients(terms: int, p: float = 2.0) -> Tensor:
    """f for κ(x) = (1 + x)^p: f_k = C(p/2, k). float64 [terms]. Cost: O(terms). Gradient: none."""
    f: Tensor = _function("random_walk_coefficients", terms, float(p))
    return f


def cosine_coefficients(terms: int) -> Tensor:
    """f for κ(x) = cos x + sin x: f∗f = its Taylor coefficients. float64 [terms]. Cost: O(terms²). Gradient: none."""
    f: Tensor = _function("cosine_coefficients", terms)
    return f


def convolve(f: Tensor, factors: int = 2, terms: int | None = None) -> Tensor:
    """α = f∗…∗f with `factors` copies, so that Σ α_k W^k = Φ^factors. f [K] or [H, K]; terms: of α, K where
    left out.

    Cost: O(H·K·terms) per factor. Gradient: in f, any number of times.
    """
    alpha: Tensor = _function("convolve", f, factors, terms)
    return alpha


def deconvolve(alpha: Tensor, factors: int = 2) -> Tensor:
    """f with f∗…∗f = α to α's length, f₀ > 0. alpha [K] or [H, K] with α₀ > 0.

    Cost: O(H·K²). Gradient: in alpha, any number of times.
    """
    f: Tensor = _function("deconvolve", alpha, factors)
    return f


def walk_constant(graph: Graph, f: Tensor, halting_probability: float) -> float:
    """c of Theorem 3.1: Σ_k |f_k| (max_ij |W_ij| d_i/(1 − p))^k; f [K], or [H, K] for the largest over heads. Cost: O(entries + H·K).
    Gradient: none."""
    return float(_ops.method(graph._object, "walk_constant", f, float(halting_probability)))


def telescoping_walk_constant(graph: Graph, f: Tensor, halting_probability: float, scale: float = 1.0) -> float:
    """The same where W_ij = scale/√(d_i d_j), whose loads telescope: √(d_max/d_min) Σ_k |f_k| (|scale|/(1 − p))^k; f [K] or [H, K].
    Cost: O(N + H·K). Gradient: none."""
    return float(_ops.method(graph._object, "telescoping_walk_constant", f, float(halting_probability), float(scale)))


def concentration_bound(walkers: int, deviation: float, constant: float) -> float:
    """Theorem 3.1: Pr(|M̂_ij − M_ij| > deviation) ≤ 2 exp(−t²n³/(2(2n − 1)²c⁴)), i ≠ j. Cost: O(1).
    Gradient: none."""
    return float(_function("concentration_bound", walkers, float(deviation), float(constant)))


def walkers_for(deviation: float, probability: float, constant: float) -> int:
    """The least n for which the bound is at most `probability`, for n and every larger number of walkers. Cost: O(1).
    Gradient: none."""
    return int(_function("walkers_for", float(deviation), float(probability), float(constant)))


def feature_entries_bound(walkers: int, halting_probability: float, delta: float) -> int:
    """Lemma 3.2: nonzeros of a row of Φ̂ with probability ≥ 1 − delta. Cost: O(1). Gradient: none."""
    return int(_function("feature_entries_bound", walkers, float(halting_probability), float(delta)))


class AttentionFlops(NamedTuple):
    """Floating-point operations of one attention, one head, as Figure 3 of Reid et al. counts them."""

    softmax: float
    linear: float
    grf: float


def attention_flops(walks: WalkTable, features: int, value_dim: int) -> AttentionFlops:
    """4N²d for softmax, 4Nmd for linear attention, 4·nnz(Φ̂)·m·d for Algorithm 1 with these walks; m features,
    d value_dim. Cost: O(1). Gradient: none."""
    return AttentionFlops(*_ops.method(walks._object, "attention_flops", features, value_dim))


class MaskError(NamedTuple):
    """The spread of independent estimates of one mask. rows: int64 [r], the nodes sampled; mean: rows of the mean, [r, N] or
    [H, r, N]; standard_error: of an entry of one mask; relative: relative Frobenius error of one mask on those rows."""

    rows: Tensor
    mean: Tensor
    standard_error: Tensor
    relative: float


def mask_error(
    estimates: Sequence[Mask] | Graph,
    rows: Tensor | None = None,
    *,
    f: Tensor | None = None,
    walks: WalkOptions | None = None,
    diagonal: str = "shared",
    batches: int = 8,
    nodes: int = 32,
    **changes: Any,
) -> MaskError:
    """The error of masks over independent walks, `mask_error([mask, …], rows)`; or of grf_mask(sample_walks(graph, …), f):
    `mask_error(graph, f=f, walkers=4)`, from `batches` tables on `nodes` rows. rows int64 [r]; f [K] or [H, K].

    Cost: M·X with r columns for each mask, after sampling, and O(H·r·N) memory. Gradient: none.
    """
    if isinstance(estimates, Graph):
        if f is None:
            raise ValueError("mask_error: f must be given with a graph")
        options = _options(walks, changes)._object
        return MaskError(*_function("mask_error", estimates._object, options, f, diagonal, batches, nodes))
    if rows is None:
        raise ValueError("mask_error: rows must be given with masks")
    return MaskError(*_function("mask_error_of", [mask._object for mask in estimates], rows))


class Choice(NamedTuple):
    """error: relative Frobenius error, measured on a sample of rows; seconds: of one attention, as the planner estimates it."""

    error: float
    seconds: float


@dataclass(frozen=True, repr=False)
class Suggestion:
    """How to get Σ(f∗f)_k W^k to a relative error; prints as a table. terms: of the exact series that are enough. walks: the walks
    found to be enough, if any; estimator: "symmetric" (grf_mask) or "one_sided" (asymmetric_grf_mask)."""

    tolerance: float
    terms: int
    exact: Choice
    walks: WalkOptions | None
    estimator: str
    sampled: Choice
    use_exact: bool
    reason: str
    table: str

    def __str__(self) -> str:
        return self.table

    __repr__ = __str__


def suggest(
    graph: Graph,
    f: Tensor,
    tolerance: float,
    *,
    diagonal: str = "debiased",
    one_sided: bool = True,
    max_walkers: int = 512,
    nodes: int = 32,
    features: int = 64,
    value_dim: int = 64,
    seed: int = 0,
) -> Suggestion:
    """Tries estimators, couplings, halting probabilities and exact heads on the graph itself and weighs the fastest that is within
    the tolerance against the exact series. f [K]: diffusion_coefficients(10) for a kernel.

    Cost: a few dozen tables of walks, and the exact series on `nodes` columns. Gradient: none; `auto_mask` has one.
    """
    options = (diagonal, one_sided, max_walkers, nodes, features, value_dim, _ops.signed(seed))
    made = _function("suggest", graph._object, f, float(tolerance), *options)
    numbers, terms, walks, symmetric, use_exact, reason, table = made
    tolerance, exact_error, exact_seconds, error, seconds = numbers
    return Suggestion(
        tolerance,
        terms,
        Choice(exact_error, exact_seconds),
        None if walks is None else WalkOptions._of(walks),
        "symmetric" if symmetric else "one_sided",
        Choice(error, seconds),
        use_exact,
        reason,
        table,
    )


class FourierFactors(NamedTuple):
    """A_ij ≈ u_i·v_j; u, v [N, 2·features]."""

    u: Tensor
    v: Tensor


def random_fourier_factors(
    points: Tensor, *, radius: float = 1.0, features: int = 64, kernel: str = "gaussian", seed: int = 0
) -> FourierFactors:
    """Random Fourier features of points [N, dims] for a kernel that is near 1 for neighbours and near 0 for others: "gaussian" or
    "box". Unbiased, with an error of O(1/√features).

    Cost: O(N·dims·features). Gradient: in the points.
    """
    return FourierFactors(*_function("random_fourier_factors", points, float(radius), features, kernel, _ops.signed(seed)))


def shortest_paths(graph: Graph, *, max_entries: int = 1 << 26) -> Tensor:
    """Distances in hops between all pairs of nodes: int32 [N, N], −1 where there is no path. Graphs of more than max_entries pairs
    are refused.

    Cost: O(N·(N + E)) time on all threads, 4·N² bytes. Gradient: none; weights play no part.
    """
    distances: Tensor = _ops.method(graph._object, "shortest_paths", max_entries)
    return distances


def degree_embedding(graph: Graph, table: Tensor, in_table: Tensor | None = None) -> Tensor:
    """Row deg of `table` [max_degree + 1, C] for each node, higher degrees sharing the last row; [N, C]. Of a directed
    graph `table` is for out-degrees; in_table [·, C] is added for in-degrees.

    Cost: N·C reads. Gradient: in table and in_table.
    """
    rows: Tensor = _ops.method(graph._object, "degree_embedding", table, in_table)
    return rows


def set_kept_memory_limit(bytes: int) -> None:
    """The most bytes of freed results that are kept for the next ones; 0 keeps nothing. Cost: O(1) per tensor that is
    released. Gradient: none."""
    _function("set_kept_memory_limit", bytes)


def kept_memory_limit() -> int:
    """The limit that set_kept_memory_limit sets, in bytes. Cost: O(1). Gradient: none."""
    return int(_function("kept_memory_limit"))


def kept_memory() -> int:
    """Bytes kept now, in no tensor. Cost: O(1). Gradient: none."""
    return int(_function("kept_memory"))


def release_kept_memory() -> None:
    """Hands all memory that is kept back to the system. Cost: O(1) per block. Gradient: none."""
    _function("release_kept_memory")


_errors.explain_arguments(__name__)
