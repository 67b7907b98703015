"""Masks of grids, trees, diffusion and encodings, as modules that own their parameters."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from . import _ops, _values
from ._values import Values
from .forest import DistanceFunction, Forest
from .graph import Graph
from .library_mask import LibraryMask
from .modules import _parameter, _per_head


class ToeplitzMask(LibraryMask):
    """toeplitz_mask: a learnable value for every offset on a grid, `offsets` [2n₁−1, …] or [heads, 2n₁−1, …], 1 at first (0 where
    logarithmic)."""

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
        dims = _values.sizes("ToeplitzMask: dims", dims)
        if offsets is None:
            shape = [2 * n - 1 for n in dims] if heads is None else [heads, *(2 * n - 1 for n in dims)]
            offsets = torch.zeros(shape, dtype=dtype) if logarithmic else torch.ones(shape, dtype=dtype)
        arguments = {"dims": dims, "offsets": _parameter(offsets)}
        super().__init__("toeplitz_mask", {**arguments, "logarithmic": logarithmic, "causality": causality})
        self.prepare()


class ToeplitzDistanceMask(LibraryMask):
    """toeplitz_distance_mask: a learnable value for every distance ‖i − j‖₁, `f` [K] or [heads, K], 1 at first (0 where
    logarithmic)."""

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
        dims = _values.sizes("ToeplitzDistanceMask: dims", dims)
        if f is None:
            terms = 1 + sum(n - 1 for n in dims)
            shape = [terms] if heads is None else [heads, terms]
            f = torch.zeros(shape, dtype=dtype) if logarithmic else torch.ones(shape, dtype=dtype)
        arguments = {"dims": dims, "f": _parameter(f), "logarithmic": logarithmic, "causality": causality}
        super().__init__("toeplitz_distance_mask", arguments)
        self.prepare()


class TreeMask(LibraryMask):
    """tree_mask: M_ij = f(dist(i, j)) in a forest. f: a DistanceFunction, whose tensors become parameters; by default a learnable
    exponential exp(a·x) with a = −1 at first."""

    _made_on_cpu = True

    def __init__(self, forest: Forest | Graph, f: DistanceFunction | None = None, *, heads: int | None = None) -> None:
        if isinstance(forest, Graph):
            forest = Forest.from_graph(forest)
        if f is None:
            f = DistanceFunction.exponential(torch.full(() if heads is None else (heads,), -1.0, dtype=forest.dtype))
        learnt = {name: nn.Parameter(tensor.detach().clone()) for name, tensor in f._tensors().items()}
        super().__init__("tree_mask", {"forest": forest, "f": f._replaced(dict(learnt))})
        self.prepare()


class DiffusionMask(LibraryMask):
    """diffusion_mask: M = exp(−λT); `lambda_` [] or [heads] is learnable, 1 at first."""

    def __init__(
        self,
        graph: Graph,
        lambda_: float | Tensor = 1.0,
        *,
        heads: int | None = None,
        generator: str = "laplacian",
        tolerance: float = 1e-6,
        method: str = "chebyshev",
    ) -> None:
        arguments = {"graph": graph, "lambda_": _per_head(lambda_, heads, graph.dtype), "generator": generator}
        super().__init__("diffusion_mask", {**arguments, "tolerance": float(tolerance), "method": method})
        self.prepare()


class ProductDiffusionMask(LibraryMask):
    """product_diffusion_mask: diffusion on a Cartesian product of graphs; `lambda_` as in DiffusionMask."""

    def __init__(
        self, factors: Sequence[Graph], lambda_: float | Tensor = 1.0, *, heads: int | None = None, generator: str = "laplacian"
    ) -> None:
        start = _per_head(lambda_, heads, factors[0].dtype)
        super().__init__("product_diffusion_mask", {"factors": list(factors), "lambda_": start, "generator": generator})
        self.prepare()


class HypercubeDiffusionMask(LibraryMask):
    """hypercube_diffusion_mask; `lambda_` as in DiffusionMask."""

    def __init__(
        self, dimensions: int, lambda_: float | Tensor = 1.0, *, heads: int | None = None, dtype: torch.dtype = torch.float32
    ) -> None:
        arguments = {"dimensions": dimensions, "lambda_": _per_head(lambda_, heads, dtype)}
        super().__init__("hypercube_diffusion_mask", arguments)
        self.prepare()


class LowRankDiffusionMask(LibraryMask):
    """low_rank_diffusion_mask: M = exp(λ·U·Vᵀ); `u`, `v` [N, r] and `lambda_` are learnable."""

    def __init__(self, u: Values, v: Values, lambda_: float | Tensor = 1.0, *, heads: int | None = None) -> None:
        left = _parameter(u)
        arguments = {"u": left, "v": _parameter(v, left.dtype), "lambda_": _per_head(lambda_, heads, left.dtype)}
        super().__init__("low_rank_diffusion_mask", arguments)
        self.prepare()


class StochasticPositionalMask(LibraryMask):
    """stochastic_positional_mask: `frequencies`, `amplitudes` and, where given, `phases` [K] or [H, K] are learnable."""

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
    """centrality_mask: `z` [K] or [heads, K], for the degrees 0 … K − 1, is learnable: ½ at first (0 where logits)."""

    def __init__(self, graph: Graph, z: Values | None = None, *, heads: int | None = None, logits: bool = False) -> None:
        if z is None:
            shape = [graph.max_degree + 1] if heads is None else [heads, graph.max_degree + 1]
            z = torch.full(shape, 0.0 if logits else 0.5, dtype=graph.dtype)
        super().__init__("centrality_mask", {"graph": graph, "z": _parameter(z), "logits": logits})
        self.prepare()


class FreeFeaturesMask(LibraryMask):
    """free_features_mask: `left` and, where given, `right` [N, r] or [H, N, r] are learnable."""

    def __init__(self, left: Values, right: Values | None = None) -> None:
        other = None if right is None else _parameter(right)
        super().__init__("free_features_mask", {"left": _parameter(left), "right": other})
        self.prepare()


class ShortestPathMask(LibraryMask):
    """shortest_path_mask: `bias` [K + 1] or [heads, K + 1] is learnable, 0 at first. For softmax_attention, mode "additive"."""

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
            shape = [max_distance + 2] if heads is None else [heads, max_distance + 2]
            bias = torch.zeros(shape, dtype=graph.dtype)
        arguments = {"graph": graph, "bias": _parameter(bias), "max_entries": max_entries}
        super().__init__("shortest_path_mask", arguments)
        self.prepare()
