"""Every mask of the library as a function, under the name it has in C++. They take the tensors given as they are: gradients flow
to those that require them, and an `nn.Parameter` becomes a parameter of the mask. `topomask.GRFMask` and the other classes make
their own parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from . import _ops, _traced
from .forest import DistanceFunction, Forest
from .graph import Graph
from .library_mask import LibraryMask, _Latest
from .mask import Mask
from .pattern import Pattern
from .walks import WalkOptions, WalkTable, _options

MAX_SPARSE_ENTRIES = 1 << 26


class Plain(LibraryMask):
    """none, causal, dense, neighbours."""

    def _traced_form(self) -> _traced.Form | None:
        if self._family == "none_mask":
            return _traced.Linear()
        if self._family == "neighbours_mask" and self._route == "sparse":
            found = self.sparse()
            assert found is not None
            return _traced.Constant(found[0]._operands(), found[1])
        return None


class SparseValues(LibraryMask):
    """sparse_mask: values in the order of the user."""

    def _make(self) -> Any:
        pattern: Pattern = self.argument("pattern")
        return _ops.static("Mask", "sparse_mask", pattern._object, pattern.arranged(self.argument("values")))

    @property
    def _object(self) -> Any:
        return super()._object if "pattern_order" not in self._buffers else self._make()

    def _checked_latest(self) -> _Latest:
        if "pattern_order" not in self._buffers:
            return super()._checked_latest()
        return _Latest(self, self._make())  # the values in order are a function of the parameter: new for every use

    def _traced_form(self) -> _traced.Form | None:
        pattern: Pattern = self.argument("pattern")
        return _traced.GivenValues(pattern._operands(), pattern.order)

    def prepare(self, features: int = 64, value_dim: int = 64, *, batch: int = 1, training: bool = True) -> LibraryMask:
        super().prepare(features, value_dim, batch=batch, training=training)
        self._route = "sparse"
        return self


def _same_storage(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.dtype == b.dtype and a.device == b.device and a.shape == b.shape


class PowerSeriesBasis:
    """The graph, its K-hop neighbourhood and the powers of W on it: what series with other coefficients have in common. Made by
    `power_series_basis`; the large parts are built when a mask first needs them."""

    def __init__(self, graph: Graph, terms: int, max_sparse_entries: int) -> None:
        self.graph, self.terms, self.max_sparse_entries = graph, terms, max_sparse_entries
        self._object: Any = _ops.static("PowerSeriesBasis", "make", graph._object, terms, max_sparse_entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return PowerSeriesBasis, (self.graph, self.terms, self.max_sparse_entries)

    def __repr__(self) -> str:
        return f"PowerSeriesBasis({self.graph!r}, terms={self.terms})"


class PowerSeries(LibraryMask):
    """power_series_mask."""

    _basis: PowerSeriesBasis | None = None

    def __init__(self, family: str, arguments: dict[str, Any], basis: PowerSeriesBasis | None = None) -> None:
        object.__setattr__(self, "_basis", basis)  # the C++ mask is made when the module is
        super().__init__(family, arguments)

    def _make(self) -> Any:
        basis, graph, alpha = self._basis, self.argument("graph"), self.argument("alpha")
        if basis is None or not _same_storage(basis.graph.weights, graph.weights):  # moved or converted since
            return super()._make()
        return _ops.static("Mask", "power_series_mask_over", basis._object, alpha)

    def _traced_form(self) -> _traced.Form | None:
        if self._route != "sparse":
            return None
        graph, alpha, entries = (self.argument(name) for name in ("graph", "alpha", "max_sparse_entries"))
        unit = alpha.new_zeros(alpha.shape[-1], alpha.shape[-1]).fill_diagonal_(1.0).detach()  # a head per power
        pattern, powers = _ops.method(_ops.static("Mask", "power_series_mask", graph._object, unit, entries), "sparse")
        return _traced.Series(Pattern._of(pattern, graph.num_nodes)._operands(), powers.reshape(len(unit), -1))


class Walked(LibraryMask):
    """Masks over one table and one f: grf, asymmetric, ad hoc."""

    def _traced_form(self) -> _traced.Form | None:
        if self._route not in ("sparse", "features") or self._given.get("diagonal", "shared") != "shared":
            return None
        walks: WalkTable = self.argument("walks")
        loads = walks.counts.to(walks.dtype) if self._family == "ad_hoc_mask" else walks.loads
        features = walks.pattern
        one_sided = self._family == "asymmetric_grf_mask"
        if one_sided and self._route == "features":
            return None
        product = None
        if self._route == "sparse" and not one_sided:
            product = Pattern._of(_ops.method(features._object, "product", features._object), walks.num_nodes)._operands()
        visits = (walks.hops, loads, walks.feature_offsets)
        walked = _traced.Walked(visits, walks.walkers, features._operands(), product)
        return walked if self._route == "sparse" else _traced.WalkedFeatures(walked)


def none_mask(nodes: int) -> LibraryMask:
    """M = 1: unmasked attention over N tokens; as factors, rank 1, which is linear attention."""
    return Plain("none_mask", {"nodes": nodes})


def causal_mask(nodes: int) -> LibraryMask:
    """M_ij = 1 for j ≤ i: attention over a sequence. Prefix sums; attention in chunks, O(N·(m + D)·chunk)."""
    return Plain("causal_mask", {"nodes": nodes})


def dense_mask(matrix: Tensor) -> LibraryMask:
    """M given whole: [N, N] or [H, N, N], float32 or float64; itself the parameter. O(N²) by name."""
    return LibraryMask("dense_mask", {"matrix": matrix})


def sparse_mask(pattern: Pattern, values: Tensor) -> LibraryMask:
    """M given by its nonzeros: values [entries], or [H, entries] for a learnable value per edge and head, in the order of the
    edges where the pattern was made by Pattern.from_edge_index. entries·(m + D) multiply-adds per slice."""
    return SparseValues("sparse_mask", {"pattern": pattern, "values": values})


def neighbours_mask(graph: Graph) -> LibraryMask:
    """M = A + I: each node attends to its neighbours and itself. Entries 1."""
    return Plain("neighbours_mask", {"graph": graph})


def weighted_neighbours_mask(graph: Graph, weights: Tensor | None = None) -> LibraryMask:
    """M = W + I: each node attends to its neighbours by the weights of the edges, and to itself by 1. weights [num_entries], in the
    order of the graph's entries; the graph's own where not given; learnable."""
    return LibraryMask("weighted_neighbours_mask", {"graph": graph, "weights": graph.weights if weights is None else weights})


def power_series_basis(graph: Graph, terms: int, *, max_sparse_entries: int = MAX_SPARSE_ENTRIES) -> PowerSeriesBasis:
    """What power series of `terms` = K terms over one graph have in common, for coefficients that are computed in every step:
    `power_series_mask(basis, alpha)` builds the K-hop neighbourhood once for all of them."""
    return PowerSeriesBasis(graph, terms, max_sparse_entries)


def power_series_mask(
    graph: Graph | PowerSeriesBasis, alpha: Tensor, *, max_sparse_entries: int = MAX_SPARSE_ENTRIES
) -> LibraryMask:
    """M = Σ_{k<K} α_k W^k, exact. alpha [K], or [H, K] for a series per head, of the dtype of the graph's weights; learnable.

    Operator: Horner, (K − 1)·|W| multiply-adds per column. Sparse: the K-hop neighbourhood as one pattern, built on first use,
    offered while it holds at most max_sparse_entries; a `power_series_basis` in place of the graph shares it between masks.
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

    f [K], or [H, K] for a function per head over shared walks; learnable. diagonal: "shared" (‖Φ̂_i‖², biased upwards) or
    "debiased" (wants walks with group_products). key_walks: an independent table for the keys, M̂ = Φ̂₁Φ̂₂ᵀ, unbiased everywhere;
    f_key is f where left out.
    """
    if key_walks is None:
        if f_key is not None:
            raise ValueError("grf_mask: f_key must come with key_walks")
        return Walked("grf_mask", {"walks": walks, "f": f, "diagonal": diagonal})
    arguments = {"query_walks": walks, "key_walks": key_walks, "f": f, "f_key": f_key}
    return LibraryMask("two_sided_grf_mask", arguments)


def asymmetric_grf_mask(walks: WalkTable, f: Tensor) -> LibraryMask:
    """M̂ = Φ̂: unbiased for Σ_k f_k W^k. The cheapest mask, and not symmetric."""
    return Walked("asymmetric_grf_mask", {"walks": walks, "f": f})


def ad_hoc_mask(walks: WalkTable, f: Tensor) -> LibraryMask:
    """Φ̂Φ̂ᵀ with every load 1: walks without importance weights, an ablation."""
    return Walked("ad_hoc_mask", {"walks": walks, "f": f})


def hybrid_grf_mask(walks: WalkTable, graph: Graph, f: Tensor, *, diagonal: str = "shared") -> LibraryMask:
    """grf_mask over with_exact_head: Φ̂ = Σ_{t≤K₀} f_t W^t + Σ_{t>K₀} f_t R_t, K₀ = walks.options.exact_hops."""
    return LibraryMask("hybrid_grf_mask", {"walks": walks, "graph": graph, "f": f, "diagonal": diagonal})


def stitched_grf_mask(walks: Sequence[WalkTable], f: Tensor, *, max_sparse_entries: int = MAX_SPARSE_ENTRIES) -> LibraryMask:
    """M̂ = Π_{i<l} Φ̂_{2i}Φ̂_{2i+1}ᵀ over 2l independent tables of short walks, f = deconvolve(alpha, 2l)."""
    return LibraryMask("stitched_grf_mask", {"walks": list(walks), "f": f, "max_sparse_entries": max_sparse_entries})


def projected_mask(mask: Mask, *, width: int = 64, seed: int = 0) -> LibraryMask:
    """(LP)(RP)ᵀ for a mask M = LRᵀ with sparse factors, P random signs/√width: dense factors of that width."""
    return LibraryMask("projected_mask", {"mask": mask, "width": width, "seed": _ops.signed(seed)})


def with_global_tokens(mask: Mask, tokens: int = 1) -> LibraryMask:
    """Global tokens (CLS) before the N nodes of another mask: their rows and columns are 1, the rest is the mask."""
    return LibraryMask("with_global_tokens", {"mask": mask, "tokens": tokens})


def per_head_mask(masks: Sequence[Mask]) -> LibraryMask:
    """Masks of one head each, over as many nodes, as one mask with a matrix per head. The route sparse, where every one has few
    nonzeros, goes over the union of their patterns, which is made once."""
    return LibraryMask("per_head_mask", {"masks": list(masks)})


def walking_mask(graph: Graph, f: Tensor, options: WalkOptions | None = None, **changes: Any) -> LibraryMask:
    """asymmetric_grf_mask(sample_walks(graph, …), f) with no table: attention sends the walkers out again in every call."""
    return LibraryMask("walking_mask", {"graph": graph, "f": f, "walks": _options(options, changes)})


def node_kernel_mask(walks: WalkTable, discount: Tensor | None = None, *, alpha: int = 1, p: float = 2.0) -> LibraryMask:
    """M_kl = ⟨F_k/‖F_k‖_p^α, F_l/‖F_l‖_p^α⟩ from walk_frequencies (GKAT). discount [] or [H], learnable; 1 where left out."""
    return LibraryMask("node_kernel_mask", {"walks": walks, "discount": discount, "alpha": alpha, "p": float(p)})


def node_frequency_mask(walks: WalkTable, discount: Tensor | None = None) -> LibraryMask:
    """M_kl = F_k[l]/F_k[k]: how often walks from k visit l, beside k itself; not symmetric."""
    return LibraryMask("node_frequency_mask", {"walks": walks, "discount": discount})


def toeplitz_mask(dims: Sequence[int], offsets: Tensor, *, logarithmic: bool = False, causality: str = "none") -> LibraryMask:
    """M_ij = g(i − j) on a grid of any dimension, nodes in row-major order. offsets [2n₁−1, …], or [H, 2n₁−1, …]; learnable; the
    value for the offset δ stands at index δ_s + n_s − 1. logarithmic: the parameter holds log g. causality: "none", "row_major"
    (j ≤ i) or "first_axis" (j₁ ≤ i₁). M·x by FFT; attention in tiles or by M·x."""
    arguments = {"dims": list(dims), "offsets": offsets, "logarithmic": logarithmic, "causality": causality}
    return LibraryMask("toeplitz_mask", arguments)


def toeplitz_distance_mask(dims: Sequence[int], f: Tensor, *, logarithmic: bool = False, causality: str = "none") -> LibraryMask:
    """M_ij = f(‖i − j‖₁), any function of the distance on the grid. f [K] or [H, K], K − 1 = Σ(n_s − 1); learnable."""
    arguments = {"dims": list(dims), "f": f, "logarithmic": logarithmic, "causality": causality}
    return LibraryMask("toeplitz_distance_mask", arguments)


def tree_mask(forest: Forest, f: DistanceFunction) -> LibraryMask:
    """M_ij = f(dist(i, j)) for nodes of one tree, 0 between trees. O(N) per column for exponentials, O(N log² N) for tables,
    O(N log N · rank) for others."""
    return LibraryMask("tree_mask", {"forest": forest, "f": f})


def diffusion_mask(
    graph: Graph, lambda_: Tensor, *, generator: str = "laplacian", tolerance: float = 1e-6, method: str = "chebyshev"
) -> LibraryMask:
    """M = exp(−λT) for an undirected graph; lambda_ [] or [H], ≥ 0, learnable. generator: "adjacency" (T = −A), "laplacian"
    (D − A) or "normalised_laplacian". method: "chebyshev" or "lanczos". tolerance: of M·x, relative to ‖M‖·‖x‖."""
    arguments = {"graph": graph, "lambda_": lambda_, "generator": generator, "tolerance": float(tolerance), "method": method}
    return LibraryMask("diffusion_mask", arguments)


def chebyshev_degree(mask: LibraryMask) -> int:
    """How many sparse products M·x takes, for a mask made by diffusion_mask with method "chebyshev"."""
    return int(_ops.method(mask._object, "chebyshev_degree"))


def product_diffusion_mask(factors: Sequence[Graph], lambda_: Tensor, *, generator: str = "laplacian") -> LibraryMask:
    """exp(−λT) on the Cartesian product of undirected graphs, exact: N·Σn_s multiply-adds per column."""
    return LibraryMask("product_diffusion_mask", {"factors": list(factors), "lambda_": lambda_, "generator": generator})


def hypercube_diffusion_mask(dimensions: int, lambda_: Tensor) -> LibraryMask:
    """exp(−λL) on the hypercube of 2^dimensions nodes, in closed form. O(N·d) per column."""
    return LibraryMask("hypercube_diffusion_mask", {"dimensions": dimensions, "lambda_": lambda_})


def low_rank_diffusion_mask(u: Tensor, v: Tensor, lambda_: Tensor) -> LibraryMask:
    """M = exp(λ·U·Vᵀ); u, v [N, r], lambda_ [] or [H], all learnable. 2N·r + r² multiply-adds per column."""
    return LibraryMask("low_rank_diffusion_mask", {"u": u, "v": v, "lambda_": lambda_})


def stochastic_positional_mask(
    nodes: int, frequencies: Tensor, amplitudes: Tensor, phases: Tensor | None = None, *, realisations: int = 64, seed: int = 0
) -> LibraryMask:
    """sineSPE: E[M_ij] = Σ_k a_k² cos(ω_k(i − j) + θ_k), random features of rank `realisations`; 0: the expectation itself."""
    arguments = {"nodes": nodes, "frequencies": frequencies, "amplitudes": amplitudes, "phases": phases}
    return LibraryMask("stochastic_positional_mask", {**arguments, "realisations": realisations, "seed": _ops.signed(seed)})


def centrality_mask(graph: Graph, z: Tensor, *, logits: bool = False) -> LibraryMask:
    """M_ij = sin(π/4·(z(deg_i) + z(deg_j))); z [K] or [H, K] for the degrees 0 … K − 1, learnable. Rank 2."""
    return LibraryMask("centrality_mask", {"graph": graph, "z": z, "logits": logits})


def free_features_mask(left: Tensor, right: Tensor | None = None) -> LibraryMask:
    """M = Φ₁Φ₂ᵀ with features that know of no graph: left [N, r] or [H, N, r]; right like it, or left out: ΦΦᵀ."""
    return LibraryMask("free_features_mask", {"left": left, "right": right})


def shortest_path_mask(graph: Graph | Tensor, bias: Tensor, *, max_entries: int = 1 << 26) -> LibraryMask:
    """M_ij = b(hops from i to j), for softmax_attention with mode "additive" (Graphormer). bias [K + 1] or [H, K + 1], learnable:
    b_K is for pairs without a path. graph: or the distances that shortest_paths gives. O(N²) by name."""
    if isinstance(graph, Graph):
        return LibraryMask("shortest_path_mask", {"graph": graph, "bias": bias, "max_entries": max_entries})
    return LibraryMask("distance_table_mask", {"distances": graph, "bias": bias})


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
    """Σ_k α_k W^k to a relative error, by what `suggest` finds fastest: the exact series, or one-sided walks. alpha [K], learnable:
    the choice is made for its values now, the mask follows them afterwards. `mask.name` says what was taken and why."""
    arguments: dict[str, Any] = {"graph": graph, "alpha": alpha, "tolerance": float(tolerance), "diagonal": diagonal}
    arguments |= {"one_sided": one_sided, "max_walkers": max_walkers, "nodes": nodes, "features": features}
    arguments |= {"value_dim": value_dim, "seed": _ops.signed(seed)}
    return LibraryMask("auto_mask", arguments, kind="Functions")
