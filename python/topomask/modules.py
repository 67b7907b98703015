"""The masks as modules that own their parameters: what a model is built of. Every class is the function of that name in
`topomask.functional` with `nn.Parameter`s made for it, prepared for torch.compile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from . import _ops, _values
from ._values import Values
from .functional import MAX_SPARSE_ENTRIES, Plain, PowerSeries, SparseValues
from .graph import Graph
from .library_mask import LibraryMask
from .mask import Mask
from .pattern import Pattern


def _parameter(value: Values | float, dtype: torch.dtype | None = None, shape: Sequence[int] = ()) -> nn.Parameter:
    """A copy of the initial value, as a parameter; a number fills the shape. dtype: the value's own where left out."""
    if isinstance(value, (int, float)):
        return nn.Parameter(torch.full(tuple(shape), float(value), dtype=dtype))
    initial = _values.real("initial values", value).detach().clone()
    return nn.Parameter(initial if dtype is None else initial.to(dtype))


def _coefficients(initial: Values | None, terms: int, heads: int | None, dtype: torch.dtype, device: torch.device) -> nn.Parameter:
    """[terms], or [heads, terms]: the initial values given, or exp(−k)."""
    given = torch.exp(-torch.arange(terms, dtype=torch.float64)) if initial is None else initial
    values = _values.tensor("coefficients", given)
    values = values.detach().clone().to(device=device, dtype=dtype)
    if heads is not None and values.dim() == 1:
        values = values.expand(heads, -1).clone()
    return nn.Parameter(values)


def _per_head(value: float | Tensor, heads: int | None, dtype: torch.dtype) -> nn.Parameter:
    return _parameter(value, dtype, () if heads is None else (heads,))


def _weighted(graph: Graph, normalise: bool | None) -> Graph:
    """The graph with W_ij = 1/√(d_i d_j) where asked; by default where all its weights are 1."""
    if normalise is None:
        normalise = bool((graph.weights == 1).all())
    return graph.normalised() if normalise else graph


class NoneMask(Plain):
    """none_mask: M = 1."""

    def __init__(self, nodes: int) -> None:
        super().__init__("none_mask", {"nodes": nodes})
        self.prepare()


class CausalMask(Plain):
    """causal_mask: M_ij = 1 for j ≤ i."""

    def __init__(self, nodes: int) -> None:
        super().__init__("causal_mask", {"nodes": nodes})
        self.prepare()


class DenseMask(LibraryMask):
    """dense_mask: `matrix` [N, N] or [H, N, N] is the parameter."""

    def __init__(self, matrix: Values) -> None:
        super().__init__("dense_mask", {"matrix": _parameter(matrix)})
        self.prepare()


class SparseMask(SparseValues):
    """sparse_mask: a learnable value for every entry of a pattern, `values` [entries] or [heads, entries], 1 at first.

    pattern: a Pattern, a Graph (its entries), or edges [2, E], whose order the values then follow.
    """

    def __init__(
        self,
        pattern: Pattern | Graph | Tensor,
        values: Values | None = None,
        *,
        heads: int | None = None,
        num_nodes: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if isinstance(pattern, Graph):
            pattern = pattern.pattern
        elif isinstance(pattern, Tensor):
            pattern = Pattern.from_edge_index(pattern, num_nodes)
        if values is None:
            shape = (pattern.entries,) if heads is None else (heads, pattern.entries)
            values = torch.ones(shape, dtype=dtype, device=pattern.columns.device)
        super().__init__("sparse_mask", {"pattern": pattern, "values": _parameter(values)})
        self.prepare()


class NeighboursMask(Plain):
    """neighbours_mask: M = A + I."""

    def __init__(self, graph: Graph) -> None:
        super().__init__("neighbours_mask", {"graph": graph})
        self.prepare()


class WeightedNeighboursMask(LibraryMask):
    """weighted_neighbours_mask: M = W + I; `weights` [num_entries] is learnable, the graph's own at first."""

    def __init__(self, graph: Graph, weights: Values | None = None) -> None:
        values = graph.weights if weights is None else weights
        arguments = {"graph": graph, "weights": _parameter(values)}
        super().__init__("weighted_neighbours_mask", arguments)
        self.prepare()


class PowerSeriesMask(PowerSeries):
    """power_series_mask: M = Σ_{k<K} α_k W^k; `alpha` [terms] or [heads, terms] is learnable, exp(−k) at first.

    normalise: W_ij = 1/√(d_i d_j) in place of the graph's weights; by default where these are all 1.
    """

    def __init__(
        self,
        graph: Graph,
        alpha: Values | None = None,
        *,
        terms: int = 4,
        heads: int | None = None,
        normalise: bool | None = None,
        max_sparse_entries: int = MAX_SPARSE_ENTRIES,
    ) -> None:
        graph = _weighted(graph, normalise)
        start = _coefficients(alpha, terms, heads, graph.dtype, graph.device)
        arguments = {"graph": graph, "alpha": start, "max_sparse_entries": max_sparse_entries}
        super().__init__("power_series_mask", arguments)
        self.prepare()


class ProjectedMask(LibraryMask):
    """projected_mask around another mask with sparse factors."""

    def __init__(self, mask: Mask, *, width: int = 64, seed: int = 0) -> None:
        super().__init__("projected_mask", {"mask": mask, "width": width, "seed": _ops.signed(seed)})
        self.prepare()


class PerHeadMask(LibraryMask):
    """per_head_mask: a mask for each head, which may differ in graph, walks or family; its parameters are theirs."""

    def __init__(self, masks: Sequence[Mask]) -> None:
        super().__init__("per_head_mask", {"masks": list(masks)})
        self.prepare()


class GlobalTokens(LibraryMask):
    """with_global_tokens around another mask: `tokens` (CLS) before its nodes, their rows and columns 1."""

    def __init__(self, mask: Mask, tokens: int = 1) -> None:
        super().__init__("with_global_tokens", {"mask": mask, "tokens": tokens})
        self.prepare()


class AutoMask(LibraryMask):
    """auto_mask: Σ_k α_k W^k to a relative error by what is fastest; `alpha` [K] is learnable. Options as in `suggest`."""

    def __init__(self, graph: Graph, alpha: Values, tolerance: float, *, normalise: bool | None = None, seed: int = 0) -> None:
        graph = _weighted(graph, normalise)
        start = _parameter(alpha, graph.dtype)
        arguments: dict[str, Any] = {"graph": graph, "alpha": start, "tolerance": float(tolerance), "diagonal": "debiased"}
        arguments |= {
            "one_sided": True,
            "max_walkers": 512,
            "nodes": 32,
            "features": 64,
            "value_dim": 64,
            "seed": _ops.signed(seed),
        }
        super().__init__("auto_mask", arguments, kind="Functions")
        self.prepare()
