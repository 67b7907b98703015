"""Masks from random walks, as modules that own their parameters."""

from __future__ import annotations

from typing import Any

from torch import nn

from . import _errors
from ._values import Values
from .families import Walked
from .functional import MAX_SPARSE_ENTRIES
from .graph import Graph
from .library_mask import LibraryMask
from .modules import _coefficients, _per_head, _weighted
from .walks import WalkTable, _options, sample_walks


def _refuse_options(op: str, options: dict[str, Any]) -> None:
    """Of a mask over walks that exist."""
    if options:
        name, value = next(iter(options.items()))
        raise TypeError(f"{op}: {name} must come with a graph, got {_errors.shown(value)} with walks, which have been made")


def _walks_and_f(
    op: str,
    source: Graph | WalkTable,
    f: Values | None,
    terms: int,
    heads: int | None,
    normalise: bool | None,
    changes: dict[str, Any],
) -> tuple[WalkTable, nn.Parameter]:
    if isinstance(source, WalkTable):
        _refuse_options(op, changes if normalise is None else {"normalise": normalise})
        walks = source
    else:
        walks = sample_walks(_weighted(source, normalise), _options(None, changes))
    terms = min(terms, walks.max_hops + 1)
    return walks, _coefficients(f, terms, heads, walks.dtype, walks.device)


class GRFMask(Walked):
    """grf_mask: graph random features, M̂ = Φ̂Φ̂ᵀ with Φ̂ = Σ_t f_t R_t. `f` [terms] or [heads, terms] is learnable, exp(−k) at
    first; the walks are buffers.

    source: a graph, with the walk options as further arguments (walkers, halting_probability, seed, coupling, …; see
    WalkOptions), or walks that exist. normalise: W_ij = 1/√(d_i d_j) in place of the graph's weights; by default where these
    are all 1 and do not require grad. diagonal: "shared" or "debiased".

    Cost: by features 2·nnz(Φ̂) multiply-adds per column, nnz(Φ̂) ≤ N·walkers·(mean length + 1); sparse nnz(Φ̂Φ̂ᵀ)·(m + D) per
    slice, and one multiply-add for each pair of entries of Φ̂ in one column. Gradient: in f, with no new walks.
    """

    def __init__(
        self,
        source: Graph | WalkTable,
        f: Values | None = None,
        *,
        terms: int = 8,
        heads: int | None = None,
        diagonal: str = "shared",
        normalise: bool | None = None,
        **walks: Any,
    ) -> None:
        if diagonal == "debiased" and isinstance(source, Graph):
            walks.setdefault("group_products", True)
        table, start = _walks_and_f("GRFMask", source, f, terms, heads, normalise, walks)
        super().__init__("grf_mask", {"walks": table, "f": start, "diagonal": diagonal})
        self._source = source if isinstance(source, Graph) else None
        self.prepare()


class TwoSidedGRFMask(LibraryMask):
    """grf_mask with independent walks for keys, M̂ = Φ̂₁Φ̂₂ᵀ: unbiased everywhere. `f` [terms] or [heads, terms] is learnable;
    one for both sides unless `f_key` is given. Keys walk on the reversed graph, with walkers numbered after those of the
    queries. Arguments as GRFMask.

    Cost: by features nnz(Φ̂₁) + nnz(Φ̂₂) multiply-adds per column; sparse nnz(Φ̂₁Φ̂₂ᵀ)·(m + D) per slice. Gradient: in f and
    f_key.
    """

    def __init__(
        self,
        graph: Graph,
        f: Values | None = None,
        f_key: Values | None = None,
        *,
        terms: int = 8,
        heads: int | None = None,
        normalise: bool | None = None,
        **walks: Any,
    ) -> None:
        graph = _weighted(graph, normalise)
        queries = _options(None, walks)
        keys = _options(queries, {"first_walker": queries.first_walker + queries.walkers})
        tables = sample_walks(graph, queries), sample_walks(graph.reversed(), keys)
        terms = min(terms, tables[0].max_hops + 1)
        start = _coefficients(f, terms, heads, graph.dtype, graph.device)
        other = None if f_key is None else _coefficients(f_key, terms, heads, graph.dtype, graph.device)
        arguments = {"query_walks": tables[0], "key_walks": tables[1], "f": start, "f_key": other}
        super().__init__("two_sided_grf_mask", arguments)
        self._source = graph
        self.prepare()


class AsymmetricGRFMask(Walked):
    """asymmetric_grf_mask: M̂ = Φ̂ = Σ_t f_t R_t, unbiased for Σ_k f_k W^k; `f` [terms] or [heads, terms] is learnable.
    Arguments as GRFMask.

    Cost: nnz(Φ̂) multiply-adds per column, nnz(Φ̂)·(m + D) per slice of attention. Gradient: in f.
    """

    def __init__(
        self,
        source: Graph | WalkTable,
        f: Values | None = None,
        *,
        terms: int = 8,
        heads: int | None = None,
        normalise: bool | None = None,
        **walks: Any,
    ) -> None:
        table, start = _walks_and_f("AsymmetricGRFMask", source, f, terms, heads, normalise, walks)
        super().__init__("asymmetric_grf_mask", {"walks": table, "f": start})
        self._source = source if isinstance(source, Graph) else None
        self.prepare()


class AdHocMask(Walked):
    """ad_hoc_mask: M = Φ̂Φ̂ᵀ with every load 1 in Φ̂, walks without importance weights; `f` [terms] or [heads, terms] is
    learnable. Arguments as GRFMask.

    Cost: as GRFMask, 2·nnz(Φ̂) multiply-adds per column by features. Gradient: in f.
    """

    def __init__(
        self,
        source: Graph | WalkTable,
        f: Values | None = None,
        *,
        terms: int = 8,
        heads: int | None = None,
        normalise: bool | None = None,
        **walks: Any,
    ) -> None:
        table, start = _walks_and_f("AdHocMask", source, f, terms, heads, normalise, walks)
        super().__init__("ad_hoc_mask", {"walks": table, "f": start})
        self._source = source if isinstance(source, Graph) else None
        self.prepare()


class HybridGRFMask(LibraryMask):
    """hybrid_grf_mask: M̂ = Φ̂Φ̂ᵀ, Φ̂ = Σ_{t≤K₀} f_t W^t + Σ_{t>K₀} f_t R_t with the first K₀ = `exact_hops` hops exact; `f`
    [terms] or [heads, terms] is learnable. Arguments as GRFMask.

    Cost: as GRFMask, where rows of Φ̂ hold the K₀-hop neighbourhood as well. Gradient: in f.
    """

    def __init__(
        self,
        graph: Graph,
        f: Values | None = None,
        *,
        exact_hops: int = 1,
        terms: int = 8,
        heads: int | None = None,
        diagonal: str = "shared",
        normalise: bool | None = None,
        **walks: Any,
    ) -> None:
        graph = _weighted(graph, normalise)
        if diagonal == "debiased":
            walks.setdefault("group_products", True)
        table, start = _walks_and_f("HybridGRFMask", graph, f, terms, heads, False, {**walks, "exact_hops": exact_hops})
        super().__init__("hybrid_grf_mask", {"walks": table, "graph": graph, "f": start, "diagonal": diagonal})
        self.prepare()


class StitchedGRFMask(LibraryMask):
    """stitched_grf_mask: M̂ = Π_{i<l} Φ̂_{2i}Φ̂_{2i+1}ᵀ over 2l tables of walks, l = `pairs`, the odd ones on the reversed
    graph; `f` [terms] or [heads, terms] is learnable. Arguments as GRFMask.

    Cost: the nonzeros of the 2l factors, multiply-adds per column; sparse, those of the product times m + D per slice.
    Gradient: in f.
    """

    def __init__(
        self,
        graph: Graph,
        f: Values | None = None,
        *,
        pairs: int = 1,
        terms: int = 8,
        heads: int | None = None,
        normalise: bool | None = None,
        max_sparse_entries: int = MAX_SPARSE_ENTRIES,
        **walks: Any,
    ) -> None:
        pairs = _errors.count("pairs", pairs, 1)
        graph = _weighted(graph, normalise)
        options = _options(None, walks)
        graphs = (graph, graph.reversed())
        firsts = (options.first_walker + place * options.walkers for place in range(2 * pairs))
        tables = [sample_walks(graphs[place % 2], options, first_walker=first) for place, first in enumerate(firsts)]
        start = _coefficients(f, min(terms, tables[0].max_hops + 1), heads, graph.dtype, graph.device)
        super().__init__("stitched_grf_mask", {"walks": tables, "f": start, "max_sparse_entries": max_sparse_entries})
        self._source = graph
        self.prepare()


class WalkingMask(LibraryMask):
    """walking_mask: M̂ = Φ̂ = Σ_t f_t R_t with no table kept: the walkers are sent out in every call. `f` [terms] or [heads,
    terms] is learnable. Arguments as GRFMask.

    Cost: visits·(m + D) multiply-adds per slice and the walks themselves; memory O(N·(m + D)). Gradient: in f; the backward
    pass walks once more.
    """

    def __init__(
        self,
        graph: Graph,
        f: Values | None = None,
        *,
        terms: int = 8,
        heads: int | None = None,
        normalise: bool | None = None,
        **walks: Any,
    ) -> None:
        graph, options = _weighted(graph, normalise), _options(None, walks)
        longest = options.fixed_hops if options.fixed_hops is not None else options.max_hops
        start = _coefficients(f, min(terms, longest + 1), heads, graph.dtype, graph.device)
        super().__init__("walking_mask", {"graph": graph, "f": start, "walks": options})
        self.prepare()


def _walks_of_nodes(op: str, source: Graph | WalkTable, options: dict[str, Any]) -> WalkTable:
    if isinstance(source, WalkTable):
        _refuse_options(op, options)
        return source
    return sample_walks(source, **{"walkers": 50, "fixed_hops": 3, **options})


class NodeKernelMask(LibraryMask):
    """node_kernel_mask (GKAT): M_kl = ⟨F_k/‖F_k‖_p^α, F_l/‖F_l‖_p^α⟩, F the walk_frequencies. `discount` [] or [heads] is
    learnable, 1 at first; 50 walks of 3 hops by default.

    Cost: 2·nnz(F) multiply-adds per column by features; sparse nnz(FFᵀ)·(m + D) per slice. Gradient: in the discount.
    """

    def __init__(
        self,
        source: Graph | WalkTable,
        discount: float | Values = 1.0,
        *,
        alpha: int = 1,
        p: float = 2.0,
        heads: int | None = None,
        **walks: Any,
    ) -> None:
        table = _walks_of_nodes("NodeKernelMask", source, walks)
        start = _per_head(discount, heads, table.dtype, table.device)
        super().__init__("node_kernel_mask", {"walks": table, "discount": start, "alpha": alpha, "p": float(p)})
        self._source = source if isinstance(source, Graph) else None
        self.prepare()


class NodeFrequencyMask(LibraryMask):
    """node_frequency_mask: M_kl = F_k[l]/F_k[k], F the walk_frequencies; `discount` [] or [heads] as in NodeKernelMask.

    Cost: nnz(F) multiply-adds per column, nnz(F)·(m + D) per slice of attention. Gradient: in the discount.
    """

    def __init__(
        self, source: Graph | WalkTable, discount: float | Values = 1.0, *, heads: int | None = None, **walks: Any
    ) -> None:
        table = _walks_of_nodes("NodeFrequencyMask", source, walks)
        start = _per_head(discount, heads, table.dtype, table.device)
        super().__init__("node_frequency_mask", {"walks": table, "discount": start})
        self._source = source if isinstance(source, Graph) else None
        self.prepare()


_errors.explain_arguments(__name__)
