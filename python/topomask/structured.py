"""Masks of grids, trees, diffusion and encodings, as modules that own their parameters."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from . import _errors, _ops, _values
from ._values import Values
from .families import Distances, Toeplitz
from .forest import DistanceFunction, Forest
from .graph import Graph
from .library_mask import LibraryMask
from .modules import CPU, _initial, _parameter, _per_head, _real_dtype, _shape_of


class ToeplitzMask(Toeplitz):
    """toeplitz_mask: M_ij = g(i − j), a learnable value for every offset on a grid, `offsets` [2n₁−1, …] or [heads, 2n₁−1, …],
    1 at first (0 where logarithmic).

    Cost: FFTs of about 2^d·N points per column; attention N²·(m + D) in tiles with O(N) memory up to some ten thousand nodes,
    M·x beyond. Gradient: in the offsets.
    """

    def __init__(
        self,
        dims: int | Sequence[int],
        offsets: Values | None = None,
        *,
        heads: int | None = None,
        logarithmic: bool = False,
        causality: str = "none",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        dims = _values.sizes("ToeplitzMask: dims", dims, 1)
        if offsets is None:
            shape = _shape_of(heads, *(2 * n - 1 for n in dims))
            offsets = torch.full(shape, 0.0 if logarithmic else 1.0, dtype=_real_dtype(dtype), device=CPU)
        arguments = {"dims": dims, "offsets": _initial("ToeplitzMask: offsets", offsets, heads, len(dims))}
        super().__init__("toeplitz_mask", {**arguments, "logarithmic": logarithmic, "causality": causality})
        self.prepare()


class ToeplitzDistanceMask(Toeplitz):
    """toeplitz_distance_mask: M_ij = f(‖i − j‖₁), a learnable value for every distance, `f` [K] or [heads, K], 1 at first (0
    where logarithmic).

    Cost: as ToeplitzMask, FFTs of about 2^d·N points per column. Gradient: in f.
    """

    def __init__(
        self,
        dims: int | Sequence[int],
        f: Values | None = None,
        *,
        heads: int | None = None,
        logarithmic: bool = False,
        causality: str = "none",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        dims = _values.sizes("ToeplitzDistanceMask: dims", dims, 1)
        if f is None:
            shape = _shape_of(heads, 1 + sum(n - 1 for n in dims))
            f = torch.full(shape, 0.0 if logarithmic else 1.0, dtype=_real_dtype(dtype), device=CPU)
        start = _initial("ToeplitzDistanceMask: f", f, heads, 1)
        arguments = {"dims": dims, "f": start, "logarithmic": logarithmic, "causality": causality}
        super().__init__("toeplitz_distance_mask", arguments)
        self.prepare()


class TreeMask(LibraryMask):
    """tree_mask: M_ij = f(dist(i, j)) in a forest of N nodes, 0 between trees; x [..., N, C]. f: a DistanceFunction, whose
    tensors become parameters; by default a learnable exponential exp(a·x) with a = −1 at first, [] or [heads].

    Cost per column: O(N) for exponentials, O(N log² N) for tables, O(N log N · rank) for others. Gradient: in the tensors of f.
    """

    _made_on_cpu = True

    def __init__(self, forest: Forest | Graph, f: DistanceFunction | None = None, *, heads: int | None = None) -> None:
        if isinstance(forest, Graph):
            forest = Forest.from_graph(forest)
        if f is None:
            f = DistanceFunction.exponential(torch.full(_shape_of(heads), -1.0, dtype=forest.dtype, device=forest.parent.device))
        learnt = {name: nn.Parameter(tensor.detach().clone()) for name, tensor in f._tensors().items()}
        super().__init__("tree_mask", {"forest": forest, "f": f._replaced(dict(learnt))})
        self.prepare()


class DiffusionMask(LibraryMask):
    """diffusion_mask: M = exp(−λT), T the Laplacian or another generator of the graph; `lambda_` [] or [heads] is learnable, 1
    at first.

    Cost: K·(|A| + 3N) multiply-adds per column, K = chebyshev_degree(mask). Gradient: in lambda_, ∂M/∂λ = −T·M.
    """

    def __init__(
        self,
        graph: Graph,
        lambda_: float | Values = 1.0,
        *,
        heads: int | None = None,
        generator: str = "laplacian",
        tolerance: float = 1e-6,
        method: str = "chebyshev",
    ) -> None:
        arguments = {"graph": graph, "lambda_": _per_head(lambda_, heads, graph.dtype, graph.device), "generator": generator}
        super().__init__("diffusion_mask", {**arguments, "tolerance": float(tolerance), "method": method})
        self.prepare()


class ProductDiffusionMask(LibraryMask):
    """product_diffusion_mask: M = exp(−λT) on a Cartesian product of graphs; `lambda_` [] or [heads] as in DiffusionMask.

    Cost: N·Σn_s multiply-adds per column, after one eigendecomposition of each factor. Gradient: in lambda_.
    """

    def __init__(
        self, factors: Sequence[Graph], lambda_: float | Values = 1.0, *, heads: int | None = None, generator: str = "laplacian"
    ) -> None:
        if isinstance(factors, Sequence) and not factors:
            raise ValueError("ProductDiffusionMask: factors must be at least one graph, got none")
        start = _per_head(lambda_, heads, factors[0].dtype, factors[0].device)
        super().__init__("product_diffusion_mask", {"factors": list(factors), "lambda_": start, "generator": generator})
        self.prepare()


class HypercubeDiffusionMask(LibraryMask):
    """hypercube_diffusion_mask: M_ij = ((1 + e^{−2λ})/2)^d · tanh(λ)^Hamming(i, j) on N = 2^d nodes; `lambda_` [] or [heads] as
    in DiffusionMask.

    Cost: O(N·d) per column. Gradient: in lambda_.
    """

    def __init__(
        self, dimensions: int, lambda_: float | Values = 1.0, *, heads: int | None = None, dtype: torch.dtype = torch.float32
    ) -> None:
        arguments = {"dimensions": dimensions, "lambda_": _per_head(lambda_, heads, _real_dtype(dtype), CPU)}
        super().__init__("hypercube_diffusion_mask", arguments)
        self.prepare()


class LowRankDiffusionMask(LibraryMask):
    """low_rank_diffusion_mask: M = exp(λ·U·Vᵀ); `u`, `v` [N, r] and `lambda_` [] or [heads] are learnable.

    Cost: 2N·r + r² multiply-adds per column, and O(r³) per call. Gradient: in u, v and lambda_.
    """

    def __init__(self, u: Values, v: Values, lambda_: float | Values = 1.0, *, heads: int | None = None) -> None:
        left = _parameter(u)
        rest = {"v": _parameter(v, left.dtype, left.device), "lambda_": _per_head(lambda_, heads, left.dtype, left.device)}
        arguments = {"u": left, **rest}
        super().__init__("low_rank_diffusion_mask", arguments)
        self.prepare()


class StochasticPositionalMask(LibraryMask):
    """stochastic_positional_mask: E[M_ij] = Σ_k a_k² cos(ω_k(i − j) + θ_k) by random features of rank r = realisations (0: the
    expectation itself); `frequencies`, `amplitudes` and, where given, `phases` [K] or [H, K] are learnable.

    Cost: 2N·r multiply-adds per column, after 4N·K·r for the features. Gradient: in frequencies, amplitudes and phases.
    """

    def __init__(
        self,
        nodes: int,
        frequencies: Values,
        amplitudes: Values,
        phases: Values | None = None,
        *,
        realisations: int = 64,
        seed: int = 0,
    ) -> None:
        names = ["frequencies", "amplitudes", "phases"]
        given = {n: None if t is None else _parameter(t) for n, t in zip(names, (frequencies, amplitudes, phases))}
        rest = {"realisations": realisations, "seed": _ops.signed(seed)}
        super().__init__("stochastic_positional_mask", {"nodes": nodes, **given, **rest})
        self.prepare()


class CentralityMask(LibraryMask):
    """centrality_mask: M_ij = sin(π/4·(z(deg_i) + z(deg_j))); `z` [K] or [heads, K], for the degrees 0 … K − 1, is learnable: ½
    at first (0 where logits).

    Cost: 4N multiply-adds per column. Gradient: in z.
    """

    def __init__(self, graph: Graph, z: Values | None = None, *, heads: int | None = None, logits: bool = False) -> None:
        if z is None:
            z = torch.full(_shape_of(heads, graph.max_degree + 1), 0.0 if logits else 0.5, dtype=graph.dtype, device=graph.device)
        start = _initial("CentralityMask: z", z, heads, 1, graph.device)
        super().__init__("centrality_mask", {"graph": graph, "z": start, "logits": logits})
        self.prepare()


class FreeFeaturesMask(LibraryMask):
    """free_features_mask: M = Φ₁Φ₂ᵀ; `left` and, where given, `right` [N, r] or [H, N, r] are learnable; ΦΦᵀ without right.

    Cost: 2N·r multiply-adds per column. Gradient: in left and right.
    """

    def __init__(self, left: Values, right: Values | None = None) -> None:
        other = None if right is None else _parameter(right)
        super().__init__("free_features_mask", {"left": _parameter(left), "right": other})
        self.prepare()


class ShortestPathMask(Distances):
    """shortest_path_mask: M_ij = b(hops from i to j); `bias` [K + 1] or [heads, K + 1] is learnable, 0 at first, with K =
    max_distance + 1 where it is not given. For softmax_attention, mode "additive".

    Cost: N² multiply-adds per column and 2 bytes per pair. Gradient: in the bias.
    """

    _made_on_cpu = True

    def __init__(
        self,
        graph: Graph,
        bias: Values | None = None,
        *,
        max_distance: int = 8,
        heads: int | None = None,
        max_entries: int = 1 << 26,
    ) -> None:
        if bias is None:
            distances = _errors.count("ShortestPathMask: max_distance", max_distance)
            bias = torch.zeros(_shape_of(heads, distances + 2), dtype=graph.dtype, device=graph.device)
        start = _initial("ShortestPathMask: bias", bias, heads, 1, graph.device)
        arguments = {"graph": graph, "bias": start, "max_entries": max_entries}
        super().__init__("shortest_path_mask", arguments)
        self.prepare()


_errors.explain_arguments(__name__)
