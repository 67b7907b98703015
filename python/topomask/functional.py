"""Every mask of the library as a function, under the name it has in C++. They take the tensors given as they are: gradients flow
to those that require them, and an `nn.Parameter` becomes a parameter of the mask. `topomask.GRFMask` and the other classes make
their own parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from . import _errors, _ops, _values
from ._values import Values
from .families import Bordered, Dense, Distances, Plain, PowerSeries, PowerSeriesBasis, SparseValues, Toeplitz, Walked
from .forest import DistanceFunction, Forest
from .graph import Graph
from .library_mask import LibraryMask
from .mask import Mask
from .pattern import Pattern
from .walks import WalkOptions, WalkTable, _options

MAX_SPARSE_ENTRIES = 1 << 26


def none_mask(nodes: int) -> LibraryMask:
    """M_ij = 1: unmasked attention over N = `nodes` tokens; x [..., N, C].

    Cost: a sum over the nodes, N per column; attention is linear attention, N·m·D per slice. Gradient: in q, k and v; the mask
    has no parameter.
    """
    return Plain("none_mask", {"nodes": nodes})


def causal_mask(nodes: int) -> LibraryMask:
    """M_ij = 1 for j ≤ i, otherwise 0: attention over a sequence of N = `nodes` tokens; x [..., N, C].

    Cost: prefix sums, N per column; attention in chunks, O(N·(m + D)·chunk) per slice. Gradient: in q, k and v; the mask has no
    parameter.
    """
    return Plain("causal_mask", {"nodes": nodes})


def dense_mask(matrix: Tensor) -> LibraryMask:
    """M = matrix, given whole: [N, N], or [H, N, N] for a matrix per head; float32 or float64, no NaN and no +∞ (−∞ excludes a
    pair where the mask is added).

    Cost: N² multiply-adds per column, N²·(m + D) per slice of attention. Gradient: in the matrix, [N, N] or [H, N, N] like it.
    """
    return Dense("dense_mask", {"matrix": matrix})


def sparse_mask(pattern: Pattern, values: Tensor) -> LibraryMask:
    """M with M_ij = values[e] at the entries e = (i, j) of a pattern, 0 elsewhere. values [entries], or [H, entries] for a
    learnable value per edge and head, in the order of the edges where the pattern was made by Pattern.from_edge_index.

    Cost: entries multiply-adds per column, entries·(m + D) per slice of attention. Gradient: in the values.
    """
    return SparseValues("sparse_mask", {"pattern": pattern, "values": values})


def neighbours_mask(graph: Graph) -> LibraryMask:
    """M = A + I: each of the N nodes attends to its neighbours and itself; entries 1, whatever the weights of the graph. x
    [..., N, C].

    Cost: |A| + N multiply-adds per column, (|A| + N)·(m + D) per slice of attention, |A| the stored entries. Gradient: in q, k
    and v; the mask has no parameter, and graphs whose weights require grad are refused.
    """
    return Plain("neighbours_mask", {"graph": graph})


def weighted_neighbours_mask(graph: Graph, weights: Values | None = None) -> LibraryMask:
    """M = W + I: each node attends to its neighbours by the weights of the edges, and to itself by 1. weights [num_entries], in
    the order of the graph's entries; the graph's own where not given.

    Cost: |W| + N multiply-adds per column, (|W| + N)·(m + D) per slice of attention. Gradient: in the weights, one per stored
    entry, which need not stay symmetric.
    """
    values = graph.weights if weights is None else _values.tensor("weighted_neighbours_mask: weights", weights)
    return LibraryMask("weighted_neighbours_mask", {"graph": graph, "weights": values})


def power_series_basis(graph: Graph, terms: int, *, max_sparse_entries: int = MAX_SPARSE_ENTRIES) -> PowerSeriesBasis:
    """What power series of `terms` = K terms over one graph have in common, for coefficients that are computed in every step:
    `power_series_mask(basis, alpha)` builds the K-hop neighbourhood once for all of them.

    Cost: the K-hop neighbourhood and K values for each of its entries, when a mask first needs them. Gradient: masks over it have
    one in alpha, and in the graph's weights where they require grad.
    """
    return PowerSeriesBasis(graph, terms, max_sparse_entries)


def power_series_mask(
    graph: Graph | PowerSeriesBasis, alpha: Tensor, *, max_sparse_entries: int = MAX_SPARSE_ENTRIES
) -> LibraryMask:
    """M = Σ_{k<K} α_k W^k, exact. alpha [K], or [H, K] for a series per head, of the dtype of the graph's weights.

    A `power_series_basis` in place of the graph shares the K-hop neighbourhood between masks. max_sparse_entries: the sparse
    form is offered while it has at most so many entries.

    Cost: as an operator (Horner) (K − 1)·|W| multiply-adds per column; sparse, the entries of the K-hop neighbourhood, built on
    first use, times m + D, and K per entry for its values. Gradient: in alpha, and in the graph's weights where they require
    grad.
    """
    basis = graph if isinstance(graph, PowerSeriesBasis) else None
    if basis is not None:
        graph, max_sparse_entries = basis.graph, basis.max_sparse_entries
    arguments = {"graph": graph, "alpha": alpha, "max_sparse_entries": max_sparse_entries}
    return PowerSeries("power_series_mask", arguments, basis)


def grf_mask(
    walks: WalkTable, f: Tensor, *, key_walks: WalkTable | None = None, f_key: Tensor | None = None, diagonal: str = "shared"
) -> LibraryMask:
    """Graph random features: M̂ = Φ̂Φ̂ᵀ, Φ̂ = Σ_t f_t R_t over a table of walks; E[M̂_ij] = (ΦΦᵀ)_ij for i ≠ j.

    f [K], or [H, K] for a function per head over shared walks; K ≤ max_hops + 1. diagonal: "shared" (‖Φ̂_i‖², biased upwards)
    or "debiased" (needs walks with group_products). key_walks: an independent table for the keys, M̂ = Φ̂₁Φ̂₂ᵀ, unbiased
    everywhere; f_key is f where left out.

    Cost: by features 2·nnz(Φ̂) multiply-adds per column; sparse nnz(Φ̂Φ̂ᵀ)·(m + D) per slice, and for its values one
    multiply-add for each pair of entries of Φ̂ in one column; the pattern is made once for a table. Gradient: in f and f_key,
    and, with a shared diagonal, in the weights of the graph where the loads of the table have one.
    """
    if key_walks is None:
        if f_key is not None:
            raise ValueError("grf_mask: f_key must come with key_walks")
        return Walked("grf_mask", {"walks": walks, "f": f, "diagonal": diagonal})
    arguments = {"query_walks": walks, "key_walks": key_walks, "f": f, "f_key": f_key}
    return LibraryMask("two_sided_grf_mask", arguments)


def asymmetric_grf_mask(walks: WalkTable, f: Tensor) -> LibraryMask:
    """M̂ = Φ̂ = Σ_t f_t R_t: unbiased for Σ_k f_k W^k, and not symmetric. f [K], or [H, K] for a function per head.

    Cost: nnz(Φ̂) multiply-adds per column, nnz(Φ̂)·(m + D) per slice of attention: the cheapest mask of walks. Gradient: in f,
    and in the weights of the graph where the loads of the table have one.
    """
    return Walked("asymmetric_grf_mask", {"walks": walks, "f": f})


def ad_hoc_mask(walks: WalkTable, f: Tensor) -> LibraryMask:
    """M = Φ̂Φ̂ᵀ with every load 1 in Φ̂: walks without importance weights, an ablation; it estimates no series in W. f [K] or
    [H, K].

    Cost: as grf_mask, 2·nnz(Φ̂) multiply-adds per column by features. Gradient: in f.
    """
    return Walked("ad_hoc_mask", {"walks": walks, "f": f})


def hybrid_grf_mask(walks: WalkTable, graph: Graph, f: Tensor, *, diagonal: str = "shared") -> LibraryMask:
    """M̂ = Φ̂Φ̂ᵀ with Φ̂ = Σ_{t≤K₀} f_t W^t + Σ_{t>K₀} f_t R_t, K₀ = walks.options.exact_hops: grf_mask over with_exact_head. f
    [K] or [H, K]; diagonal as in grf_mask.

    Cost: as grf_mask, where rows of Φ̂ hold the K₀-hop neighbourhood as well: 2·nnz(Φ̂) multiply-adds per column. Gradient: in
    f.
    """
    return LibraryMask("hybrid_grf_mask", {"walks": walks, "graph": graph, "f": f, "diagonal": diagonal})


def stitched_grf_mask(walks: Sequence[WalkTable], f: Tensor, *, max_sparse_entries: int = MAX_SPARSE_ENTRIES) -> LibraryMask:
    """M̂ = Π_{i<l} Φ̂_{2i}Φ̂_{2i+1}ᵀ over 2l independent tables of short walks, f [K] or [H, K] = deconvolve(alpha, 2l):
    unbiased for Σ_k α_k W^k. max_sparse_entries as in power_series_mask.

    Cost: the nonzeros of the 2l factors, multiply-adds per column; sparse, those of the product times m + D per slice.
    Gradient: in f, and in the weights of the graph where the loads of the tables have one.
    """
    return LibraryMask("stitched_grf_mask", {"walks": list(walks), "f": f, "max_sparse_entries": max_sparse_entries})


def projected_mask(mask: Mask, *, width: int = 64, seed: int = 0) -> LibraryMask:
    """M̂ = (LP)(RP)ᵀ for a mask M = LRᵀ with sparse factors, P [N, width] of random signs/√width: E[M̂] = M, an entry off by
    about ‖L_i‖‖R_j‖/√width.

    Cost: (nnz(L) + nnz(R))·width for the factors, then 2N·width multiply-adds per column. Gradient: in the parameters of the
    mask.
    """
    return LibraryMask("projected_mask", {"mask": mask, "width": width, "seed": _ops.signed(seed)})


def with_global_tokens(mask: Mask, tokens: int = 1) -> LibraryMask:
    """Global tokens (CLS) before the N nodes of another mask: [[1, 1], [1, M]], so that M_ij = 1 in the rows and columns of the
    tokens. x [..., tokens + N, C].

    Cost: that of the mask, and N + tokens per column. Gradient: in the parameters of the mask.
    """
    return Bordered("with_global_tokens", {"mask": mask, "tokens": tokens})


def per_head_mask(masks: Sequence[Mask]) -> LibraryMask:
    """M_h = masks[h]: masks of one head each, over as many nodes, as one mask with a matrix per head; x [..., H, N, C].

    Cost: the sum of theirs; the route sparse, where every one has few nonzeros, goes over the union of their patterns, made
    once. Gradient: in the parameters of each.
    """
    return LibraryMask("per_head_mask", {"masks": list(masks)})


def walking_mask(graph: Graph, f: Tensor, options: WalkOptions | None = None, **changes: Any) -> LibraryMask:
    """M̂ = Φ̂ = Σ_t f_t R_t as in asymmetric_grf_mask(sample_walks(graph, …), f), with no table: attention sends the walkers
    out again in every call. f [K] or [H, K], of the dtype of the graph's weights.

    Cost: visits·(m + D) multiply-adds per slice and the walks themselves, about walkers·(mean length + 1) visits a node; memory
    O(N·(m + D)). Gradient: in f; the backward pass walks once more.
    """
    return LibraryMask("walking_mask", {"graph": graph, "f": f, "walks": _options(options, changes)})


def node_kernel_mask(walks: WalkTable, discount: Tensor | None = None, *, alpha: int = 1, p: float = 2.0) -> LibraryMask:
    """M_kl = ⟨F_k/‖F_k‖_p^α, F_l/‖F_l‖_p^α⟩ from the walk_frequencies F [N, N] (GKAT), symmetric. discount [], or [H] for one
    per head; 1 where left out. alpha: 1 or 0; p ≥ 1.

    Cost: 2·nnz(F) multiply-adds per column by features; sparse nnz(FFᵀ)·(m + D) per slice. Gradient: in the discount.
    """
    return LibraryMask("node_kernel_mask", {"walks": walks, "discount": discount, "alpha": alpha, "p": float(p)})


def node_frequency_mask(walks: WalkTable, discount: Tensor | None = None) -> LibraryMask:
    """M_kl = F_k[l]/F_k[k], F the walk_frequencies: how often walks from k visit l, in addition to k itself; not symmetric. discount
    [], or [H] for one per head; 1 where left out.

    Cost: nnz(F) multiply-adds per column, nnz(F)·(m + D) per slice of attention. Gradient: in the discount.
    """
    return LibraryMask("node_frequency_mask", {"walks": walks, "discount": discount})


def toeplitz_mask(dims: Sequence[int], offsets: Tensor, *, logarithmic: bool = False, causality: str = "none") -> LibraryMask:
    """M_ij = g(i − j) on a grid of any dimension, nodes in row-major order. offsets [2n₁−1, …], or [H, 2n₁−1, …]: the value for
    the offset δ stands at index δ_s + n_s − 1.

    logarithmic: the parameter holds log g. causality: "none", "row_major" (j ≤ i) or "first_axis" (j₁ ≤ i₁).

    Cost: FFTs of about 2^d·N points per column; attention N²·(m + D) in tiles with O(N) memory up to some ten thousand nodes,
    M·x beyond. Gradient: in the offsets, a correlation by the same FFTs.
    """
    arguments = {"dims": list(dims), "offsets": offsets, "logarithmic": logarithmic, "causality": causality}
    return Toeplitz("toeplitz_mask", arguments)


def toeplitz_distance_mask(dims: Sequence[int], f: Tensor, *, logarithmic: bool = False, causality: str = "none") -> LibraryMask:
    """M_ij = f(‖i − j‖₁), any function of the distance on the grid. f [K] or [H, K], K − 1 = Σ(n_s − 1). logarithmic and
    causality as in toeplitz_mask.

    Cost: as toeplitz_mask: FFTs of about 2^d·N points per column. Gradient: in f.
    """
    arguments = {"dims": list(dims), "f": f, "logarithmic": logarithmic, "causality": causality}
    return Toeplitz("toeplitz_distance_mask", arguments)


def tree_mask(forest: Forest, f: DistanceFunction) -> LibraryMask:
    """M_ij = f(dist(i, j)) for nodes of one tree of the forest, 0 between trees; x [..., N, C], H heads where f has them.

    Cost per column: O(N) for exponentials, O(N log² N) for tables, O(N log N · rank) for sums, products and smooth functions.
    Gradient: in the tensors of f (a, b or the table) and, for exponentials, in the lengths.
    """
    return LibraryMask("tree_mask", {"forest": forest, "f": f})


def diffusion_mask(
    graph: Graph, lambda_: Tensor, *, generator: str = "laplacian", tolerance: float = 1e-6, method: str = "chebyshev"
) -> LibraryMask:
    """M = exp(−λT) for an undirected graph; lambda_ [], or [H] for one per head, ≥ 0, of the dtype of the graph's weights.

    generator: "adjacency" (T = −A), "laplacian" (T = D − A) or "normalised_laplacian". method: "chebyshev" or "lanczos" (a few
    columns). tolerance: of M·x, relative to ‖M‖·‖x‖.

    Cost: K·(|A| + 3N) multiply-adds per column, K = chebyshev_degree(mask), about √(2z·log(2/tolerance)) with z = λ(λ_max −
    λ_min)/2. Gradient: in lambda_, ∂M/∂λ = −T·M, and in the graph's weights where they require grad; about six times the work
    of M·x.
    """
    arguments = {"graph": graph, "lambda_": lambda_, "generator": generator, "tolerance": float(tolerance), "method": method}
    return LibraryMask("diffusion_mask", arguments)


def chebyshev_degree(mask: LibraryMask) -> int:
    """How many sparse products M·x takes, for a mask made by diffusion_mask with method "chebyshev". Cost: O(1) after the bounds of the
    spectrum, which are found once. Gradient: none."""
    return int(_ops.method(mask._object, "chebyshev_degree"))


def product_diffusion_mask(factors: Sequence[Graph], lambda_: Tensor, *, generator: str = "laplacian") -> LibraryMask:
    """M = exp(−λT) on the Cartesian product of undirected graphs, exact: the Kronecker product of the factors' exponentials;
    lambda_ [] or [H]. generator: "laplacian" or "adjacency".

    Cost: N·Σn_s multiply-adds per column, after one eigendecomposition of each factor. Gradient: in lambda_; factors whose
    weights require grad are refused.
    """
    return LibraryMask("product_diffusion_mask", {"factors": list(factors), "lambda_": lambda_, "generator": generator})


def hypercube_diffusion_mask(dimensions: int, lambda_: Tensor) -> LibraryMask:
    """M = exp(−λL) on the hypercube of N = 2^dimensions nodes: M_ij = ((1 + e^{−2λ})/2)^d · tanh(λ)^Hamming(i, j); lambda_ []
    or [H].

    Cost: O(N·d) per column, d = dimensions. Gradient: in lambda_.
    """
    return LibraryMask("hypercube_diffusion_mask", {"dimensions": dimensions, "lambda_": lambda_})


def low_rank_diffusion_mask(u: Tensor, v: Tensor, lambda_: Tensor) -> LibraryMask:
    """M = exp(λ·U·Vᵀ); u, v [N, r], lambda_ [] or [H], of one dtype; random_fourier_factors makes u and v from points.

    Cost: 2N·r + r² multiply-adds per column, and O(r³) per call. Gradient: in u, v and lambda_.
    """
    return LibraryMask("low_rank_diffusion_mask", {"u": u, "v": v, "lambda_": lambda_})


def stochastic_positional_mask(
    nodes: int, frequencies: Tensor, amplitudes: Tensor, phases: Tensor | None = None, *, realisations: int = 64, seed: int = 0
) -> LibraryMask:
    """sineSPE: E[M_ij] = Σ_k a_k² cos(ω_k(i − j) + θ_k), M = Φ₁Φ₂ᵀ random features of rank r = realisations; 0: the expectation
    itself, of rank 2K. frequencies ω, amplitudes a, phases θ (left out: none): [K], or [H, K] for a kernel per head.

    Cost: 2N·r multiply-adds per column, after 4N·K·r for the features. Gradient: in frequencies, amplitudes and phases.
    """
    arguments = {"nodes": nodes, "frequencies": frequencies, "amplitudes": amplitudes, "phases": phases}
    return LibraryMask("stochastic_positional_mask", {**arguments, "realisations": realisations, "seed": _ops.signed(seed)})


def centrality_mask(graph: Graph, z: Tensor, *, logits: bool = False) -> LibraryMask:
    """M_ij = sin(π/4·(z(deg_i) + z(deg_j))), of rank 2; z [K] or [H, K] for the degrees 0 … K − 1, higher ones sharing the
    last. logits: the parameter holds logit z.

    Cost: 4N multiply-adds per column. Gradient: in z.
    """
    return LibraryMask("centrality_mask", {"graph": graph, "z": z, "logits": logits})


def free_features_mask(left: Tensor, right: Tensor | None = None) -> LibraryMask:
    """M = Φ₁Φ₂ᵀ with features that know of no graph: left [N, r] or [H, N, r]; right like it, or left out: ΦΦᵀ.

    Cost: 2N·r multiply-adds per column. Gradient: in left and right.
    """
    return LibraryMask("free_features_mask", {"left": left, "right": right})


def shortest_path_mask(graph: Graph | Tensor, bias: Tensor, *, max_entries: int = 1 << 26) -> LibraryMask:
    """M_ij = b(hops from i to j), for softmax_attention with mode "additive" (Graphormer). bias [K + 1] or [H, K + 1]: b_0 …
    b_{K−1} for the distances, longer ones sharing b_{K−1}, and b_K for pairs without a path. graph: or the distances int32 [N,
    N] that shortest_paths gives.

    Cost: N² multiply-adds per column and 2 bytes per pair, refused beyond max_entries pairs; the searches O(N·(N
    + E)), once. Gradient: in the bias.
    """
    if isinstance(graph, Graph):
        return Distances("shortest_path_mask", {"graph": graph, "bias": bias, "max_entries": max_entries})
    return Distances("distance_table_mask", {"distances": graph, "bias": bias})


def auto_mask(
    graph: Graph,
    alpha: Tensor,
    tolerance: float,
    *,
    diagonal: str = "debiased",
    one_sided: bool = True,
    max_walkers: int = 512,
    nodes: int = 32,
    features: int = 64,
    value_dim: int = 64,
    seed: int = 0,
) -> LibraryMask:
    """M = Σ_k α_k W^k to a relative error, by what `suggest` finds fastest: the exact series, or one-sided walks. alpha [K];
    options as in `suggest`. The choice is made for the values that alpha has now, the mask follows them afterwards; `mask.name`
    says what was taken and why.

    Cost: that of `suggest` once (a few dozen tables of walks), then that of power_series_mask or asymmetric_grf_mask. Gradient:
    in alpha.
    """
    arguments: dict[str, Any] = {"graph": graph, "alpha": alpha, "tolerance": float(tolerance), "diagonal": diagonal}
    arguments |= {"one_sided": one_sided, "max_walkers": max_walkers, "nodes": nodes, "features": features}
    arguments |= {"value_dim": value_dim, "seed": _ops.signed(seed)}
    return LibraryMask("auto_mask", arguments, kind="Functions")


_errors.explain_arguments(__name__)
