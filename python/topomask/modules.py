"""The masks as modules that own their parameters: what a model is built of. Every class is the function of that name in
`topomask.functional` with `nn.Parameter`s made for it, prepared for torch.compile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from . import _errors, _ops, _values
from ._values import Values
from .families import Bordered, Dense, Plain, PowerSeries, SparseValues
from .functional import MAX_SPARSE_ENTRIES
from .graph import Graph
from .library_mask import LibraryMask
from .mask import Mask
from .pattern import Pattern


def _parameter(value: Values, dtype: torch.dtype | None = None, device: torch.device | None = None) -> nn.Parameter:
    """A copy of the initial values, as a parameter. dtype, device: the values' own where left out."""
    return nn.Parameter(_values.real("initial values", value).detach().to(device=device, dtype=dtype, copy=True))


def _shape_of(heads: int | None, *sizes: int) -> list[int]:
    """The shape of a parameter, with a dimension for the heads where there are any."""
    return [*sizes] if heads is None else [_errors.count("heads", heads, 1), *sizes]


def _real_dtype(dtype: torch.dtype) -> torch.dtype:
    """Of the values of a mask."""
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
    return dtype


def _coefficients(initial: Values | None, terms: int, heads: int | None, dtype: torch.dtype, device: torch.device) -> nn.Parameter:
    """[terms], or [heads, terms]: the initial values given, or exp(−k)."""
    terms = _errors.count("terms", terms, 1)
    given = torch.exp(-torch.arange(terms, dtype=torch.float64, device=device)) if initial is None else initial
    values = _values.tensor("coefficients", given).detach().to(device=device, dtype=dtype)
    return nn.Parameter(_for_heads(values, heads, 1).clone())


def _for_heads(values: Tensor, heads: int | None, dims: int) -> Tensor:
    """Values of so many dimensions, or one more for the heads, as `heads` asks for: one for all is repeated for each."""
    if heads is None:
        return values
    if values.dim() == dims:
        return values.expand(_shape_of(heads, *values.shape))
    if values.shape[:1] != tuple(_shape_of(heads)):
        raise ValueError(f"heads must be those of the initial values, {list(values.shape)}, got {heads}")
    return values


def _initial(what: str, values: Values, heads: int | None, dims: int, device: torch.device | None = None) -> nn.Parameter:
    """A copy of the initial values, as a parameter, for so many heads. device: that of the values where left out."""
    return nn.Parameter(_for_heads(_values.real(what, values).detach(), heads, dims).to(device, copy=True))


def _per_head(value: float | Values, heads: int | None, dtype: torch.dtype, device: torch.device) -> nn.Parameter:
    if isinstance(value, (int, float)):
        return nn.Parameter(torch.full(tuple(_shape_of(heads)), float(value), dtype=dtype, device=device))
    values = _values.real("initial values", value).detach()
    return nn.Parameter(_for_heads(values, heads, 0).to(device=device, dtype=dtype, copy=True))


CPU = torch.device("cpu")
"""Where values are made that follow from no graph and no tensor, whatever torch's default device is."""


def _weighted(graph: Graph, normalise: bool | None) -> Graph:
    """The graph with W_ij = 1/√(d_i d_j) where asked; by default where all its weights are 1 and do not require grad, since those
    that do would be replaced: they are taken as they are, whatever their values."""
    if normalise is None:
        normalise = not graph.weights.requires_grad and bool((graph.weights == 1).all())
    return graph.normalised() if normalise else graph


class NoneMask(Plain):
    """none_mask: M_ij = 1 over N = `nodes` tokens; x [..., N, C].

    Cost: N per column; attention is linear attention, N·m·D per slice. Gradient: in q, k and v; no parameter.
    """

    def __init__(self, nodes: int) -> None:
        super().__init__("none_mask", {"nodes": nodes})
        self.prepare()


class CausalMask(Plain):
    """causal_mask: M_ij = 1 for j ≤ i, otherwise 0, over N = `nodes` tokens; x [..., N, C].

    Cost: N per column; attention in chunks, O(N·(m + D)·chunk) per slice. Gradient: in q, k and v; no parameter.
    """

    def __init__(self, nodes: int) -> None:
        super().__init__("causal_mask", {"nodes": nodes})
        self.prepare()


class DenseMask(Dense):
    """dense_mask: M = `matrix`, the parameter, [N, N] or [H, N, N].

    Cost: N² multiply-adds per column, N²·(m + D) per slice of attention. Gradient: in the matrix.
    """

    def __init__(self, matrix: Values) -> None:
        super().__init__("dense_mask", {"matrix": _parameter(matrix)})
        self.prepare()


class SparseMask(SparseValues):
    """sparse_mask: M_ij = values[e] for a learnable value at every entry e = (i, j) of a pattern, `values` [entries] or [heads,
    entries], 1 at first.

    pattern: a Pattern, a Graph (its entries), or edges [2, E], whose order the values then follow. num_nodes: of edges alone, the
    largest index + 1 where left out.

    Cost: entries multiply-adds per column, entries·(m + D) per slice of attention. Gradient: in the values.
    """

    def __init__(
        self,
        pattern: Pattern | Graph | Values,
        values: Values | None = None,
        *,
        heads: int | None = None,
        num_nodes: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not isinstance(pattern, (Pattern, Graph)):
            edges = _values.tensor("SparseMask: pattern, unless a Pattern or a Graph,", pattern)
            pattern = Pattern.from_edge_index(edges, num_nodes)
        elif num_nodes is not None:
            raise TypeError(f"SparseMask: num_nodes must come with edges, got {num_nodes} with a {type(pattern).__name__}")
        elif isinstance(pattern, Graph):
            pattern = pattern.pattern
        if values is None:
            values = torch.ones(_shape_of(heads, pattern.entries), dtype=_real_dtype(dtype), device=pattern.columns.device)
        start = _initial("SparseMask: values", values, heads, 1, pattern.columns.device)
        super().__init__("sparse_mask", {"pattern": pattern, "values": start})
        self.prepare()


class NeighboursMask(Plain):
    """neighbours_mask: M = A + I, entries 1; x [..., N, C].

    Cost: |A| + N multiply-adds per column, (|A| + N)·(m + D) per slice of attention. Gradient: in q, k and v; no parameter.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__("neighbours_mask", {"graph": graph})
        self.prepare()


class WeightedNeighboursMask(LibraryMask):
    """weighted_neighbours_mask: M = W + I; `weights` [num_entries] is learnable, the graph's own at first.

    Cost: |W| + N multiply-adds per column, (|W| + N)·(m + D) per slice of attention. Gradient: in the weights.
    """

    def __init__(self, graph: Graph, weights: Values | None = None) -> None:
        values = graph.weights if weights is None else weights
        arguments = {"graph": graph, "weights": _parameter(values, device=graph.device)}
        super().__init__("weighted_neighbours_mask", arguments)
        self.prepare()


class PowerSeriesMask(PowerSeries):
    """power_series_mask: M = Σ_{k<K} α_k W^k; `alpha` [terms] or [heads, terms] is learnable, exp(−k) at first.

    normalise: W_ij = 1/√(d_i d_j) in place of the graph's weights; by default where these are all 1 and do not require grad.
    Weights that require grad are taken as they are and learn too, and normalise=True refuses them. max_sparse_entries: the sparse
    form is offered while it has at most so many entries.

    Cost: as an operator (K − 1)·|W| multiply-adds per column; sparse, the entries of the K-hop neighbourhood times m + D per
    slice. Gradient: in alpha, and in the graph's weights where they require grad.
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
    """projected_mask: M̂ = (LP)(RP)ᵀ for another mask M = LRᵀ with sparse factors, P [N, width] of random signs/√width.

    Cost: (nnz(L) + nnz(R))·width for the factors, then 2N·width multiply-adds per column. Gradient: in the parameters of the
    mask.
    """

    def __init__(self, mask: Mask, *, width: int = 64, seed: int = 0) -> None:
        super().__init__("projected_mask", {"mask": mask, "width": width, "seed": _ops.signed(seed)})
        self.prepare()


class PerHeadMask(LibraryMask):
    """per_head_mask: M_h = masks[h], a mask for each head, which may differ in graph, walks or family; x [..., H, N, C].

    Cost: the sum of theirs. Gradient: in the parameters of each, which are those of the module.
    """

    def __init__(self, masks: Sequence[Mask]) -> None:
        super().__init__("per_head_mask", {"masks": list(masks)})
        self.prepare()


class GlobalTokens(Bordered):
    """with_global_tokens: [[1, 1], [1, M]] around another mask, `tokens` (CLS) before its nodes: M_ij = 1 in their rows and
    columns. x [..., tokens + N, C].

    Cost: that of the mask, and N + tokens per column. Gradient: in the parameters of the mask.
    """

    def __init__(self, mask: Mask, tokens: int = 1) -> None:
        super().__init__("with_global_tokens", {"mask": mask, "tokens": tokens})
        self.prepare()


class AutoMask(LibraryMask):
    """auto_mask: M = Σ_k α_k W^k to a relative error by what is fastest; `alpha` [K] is learnable. Options as in `suggest`;
    normalise as in PowerSeriesMask.

    Cost: that of `suggest` once, then that of power_series_mask or asymmetric_grf_mask. Gradient: in alpha.
    """

    def __init__(
        self,
        graph: Graph,
        alpha: Values,
        tolerance: float,
        *,
        normalise: bool | None = None,
        diagonal: str = "debiased",
        one_sided: bool = True,
        max_walkers: int = 512,
        nodes: int = 32,
        features: int = 64,
        value_dim: int = 64,
        seed: int = 0,
    ) -> None:
        graph = _weighted(graph, normalise)
        start = _parameter(alpha, graph.dtype, graph.device)
        arguments: dict[str, Any] = {"graph": graph, "alpha": start, "tolerance": float(tolerance), "diagonal": diagonal}
        arguments |= {"one_sided": one_sided, "max_walkers": max_walkers, "nodes": nodes, "features": features}
        arguments |= {"value_dim": value_dim, "seed": _ops.signed(seed)}
        super().__init__("auto_mask", arguments, kind="Functions")
        self.prepare()


_errors.explain_arguments(__name__)
