"""Families of masks that have a form of their own for torch.compile, or more to do than C++ needs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _forms, _ops
from ._forms import Form
from .graph import Graph
from .library_mask import LibraryMask, learning
from .pattern import Pattern
from .walks import WalkTable

DENSE = ("fused", "dense", "strips")
"""Routes over every pair of nodes."""

MOST_ENTRIES = 1 << 20  # of a sparse form that was not planned: beyond, the pattern takes more memory than it is worth


def mask_is_small(mask: LibraryMask) -> bool:
    return mask.size**2 <= MOST_ENTRIES


def sparse_enough(mask: LibraryMask, route: str) -> bool:
    """Whether a mask that has a sparse form is traced in it: where it was planned, and in place of a dense route while it is small,
    since a dense matrix of it is no form of its own."""
    return route == "sparse" or (route in DENSE and mask_is_small(mask))


class Plain(LibraryMask):
    """none, causal, neighbours."""

    def _traced_form(self, route: str) -> Form | None:
        if self._family == "none_mask":
            return _forms.Choice([_forms.Linear(), _forms.Tiles("ones", kernel=False)])
        if self._family == "causal_mask":
            tiles = _forms.Tiles("causal", kernel=route in DENSE)
            return tiles if tiles.kernel else _forms.Choice([_forms.Causal(), tiles])
        if self._family == "neighbours_mask" and sparse_enough(self, route):
            found = self.sparse()
            assert found is not None
            return _forms.Constant(found[0]._operands(), found[1])
        return None


class Dense(LibraryMask):
    """dense_mask."""

    def _traced_form(self, route: str) -> Form | None:
        return _forms.MatrixTiles("matrix")


class Toeplitz(LibraryMask):
    """toeplitz_mask, toeplitz_distance_mask."""

    def _traced_form(self, route: str) -> Form | None:
        kind, index, shift, _ = _ops.method(self._object, "tiles")
        if kind < 0:
            return None
        dims, causality = self.argument("dims"), self.argument("causality")
        by_distance = self._family == "toeplitz_distance_mask"
        far = torch.arange(1 + sum(n - 1 for n in dims), dtype=torch.float64, device="cpu")
        distance = _offsets(dims, far, "none").long() if by_distance else None
        allowed = _offsets(dims, torch.ones_like(far), causality) if causality != "none" else None
        moved = (None if constant is None else constant.to(index.device) for constant in (distance, allowed))
        return _forms.OffsetTiles(
            "offsets", index, shift, 0, route in DENSE, 0, "f" if by_distance else "offsets", self.argument("logarithmic"), *moved
        )


def _offsets(dims: list[int], f: Tensor, causality: str) -> Tensor:
    """f(distance) for every offset [L] on a grid, 0 where causality does not allow it."""
    values: Tensor = _ops.method(_ops.static("Mask", "toeplitz_distance_mask", dims, f, False, causality), "tiles")[3]
    return values.reshape(-1)


class Distances(LibraryMask):
    """shortest_path_mask, distance_table_mask."""

    def _traced_form(self, route: str) -> Form | None:
        kind, index, _, _ = _ops.method(self._object, "tiles")
        return None if kind < 0 else _forms.DistanceTiles("places", index, 0, 0, route in DENSE)


class Bordered(LibraryMask):
    """with_global_tokens."""

    def _traced_form(self, route: str) -> Form | None:
        inner = self.mask
        if not isinstance(inner, LibraryMask):
            return None
        inner._traced_size, inner._traced_heads = inner.size, inner.heads  # its form reads them; functions prepare no mask
        form = inner._traced_form(route)
        return None if form is None else form.bordered(self.size - inner.size, inner.size)


class SparseValues(LibraryMask):
    """sparse_mask: values in the order of the user."""

    def _make(self) -> Any:
        pattern: Pattern = self.argument("pattern")
        values: Tensor = self.argument("values")
        if pattern.order is None:
            return _ops.static("Mask", "sparse_mask", pattern._object, values)
        return _ops.static("Mask", "ordered_sparse_mask", pattern._object, pattern.order, values)

    def _traced_form(self, route: str) -> Form | None:
        pattern: Pattern = self.argument("pattern")
        return _forms.GivenValues(pattern._operands(), pattern.order)

    def prepare(self, features: int = 64, value_dim: int = 64, *, batch: int = 1, training: bool = True) -> LibraryMask:
        super().prepare(features, value_dim, batch=batch, training=training)
        self._route = "sparse"
        return self


def _same_storage(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.dtype == b.dtype and a.device == b.device and a.shape == b.shape


class PowerSeriesBasis:
    """The graph, its K-hop neighbourhood and the powers of W on it: what series with other coefficients have in common. Made by
    `power_series_basis`; the large parts are built when a mask first needs them. Weights that require grad then are followed from
    then on, also after they were frozen, by copies too; otherwise they are taken as they are.

    Cost: O(1) to make; the K-hop neighbourhood and K values for each of its entries when a mask first needs them. Gradient: in the
    graph's weights [entries] where they require grad."""

    def __init__(self, graph: Graph, terms: int, max_sparse_entries: int, follows: bool = False) -> None:
        self.graph, self.terms, self.max_sparse_entries = graph, terms, max_sparse_entries
        self.follows = follows or graph.weights.requires_grad
        with learning([graph.weights] if self.follows else []):
            self._object: Any = _ops.static("PowerSeriesBasis", "make", graph._object, terms, max_sparse_entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return PowerSeriesBasis, (self.graph, self.terms, self.max_sparse_entries, self.follows)

    def __repr__(self) -> str:
        return f"PowerSeriesBasis({self.graph!r}, terms={self.terms})"


class PowerSeries(LibraryMask):
    """power_series_mask."""

    _basis: PowerSeriesBasis | None = None

    def __init__(self, family: str, arguments: dict[str, Any], basis: PowerSeriesBasis | None = None) -> None:
        object.__setattr__(self, "_basis", basis)  # the C++ mask is made when the module is
        if basis is not None and basis.follows:
            object.__setattr__(self, "_followed", frozenset(["graph_weights"]))
        super().__init__(family, arguments)

    def _make(self) -> Any:
        basis, graph, alpha = self._basis, self.argument("graph"), self.argument("alpha")
        if basis is None or not _same_storage(basis.graph.weights, graph.weights):  # moved or converted since
            return super()._make()
        if graph.weights.requires_grad and not basis.follows:  # began to learn since
            return super()._make()
        return _ops.static("Mask", "power_series_mask_over", basis._object, alpha)

    def _traced_form(self, route: str) -> Form | None:
        if "graph_weights" in self._followed or not sparse_enough(self, route):
            return None  # the powers of weights that change would be constants of the form
        graph, alpha, entries = (self.argument(name) for name in ("graph", "alpha", "max_sparse_entries"))
        unit = alpha.new_zeros(alpha.shape[-1], alpha.shape[-1]).fill_diagonal_(1.0).detach()  # a head per power
        found = _ops.method(_ops.static("Mask", "power_series_mask", graph._object, unit, entries), "sparse")
        if found is None:
            return None
        pattern, powers = found
        return _forms.Series(Pattern._of(pattern, graph.num_nodes)._operands(), powers.reshape(len(unit), -1))


class Walked(LibraryMask):
    """Masks over one table and one f: grf, asymmetric, ad hoc."""

    def _traced_form(self, route: str) -> Form | None:
        sparse = sparse_enough(self, route)
        if not (sparse or route == "features") or self._given.get("diagonal", "shared") != "shared":
            return None
        walks: WalkTable = self.argument("walks")
        ad_hoc = self._family == "ad_hoc_mask"
        loads = walks.counts.to(walks.dtype) if ad_hoc else walks.kept_loads
        features = walks.pattern
        one_sided = self._family == "asymmetric_grf_mask"
        if one_sided and route == "features":
            return None
        product = None
        softmax = mask_is_small(self)  # which needs the values of M, where kernel attention goes by features
        if (sparse or softmax) and not one_sided:
            product = Pattern._of(_ops.method(features._object, "product", features._object), walks.num_nodes)._operands()
        visits = (walks.hops, loads, walks.feature_offsets)
        walked = _forms.Walked(visits, walks.walkers, features._operands(tiled=one_sided), product)
        if sparse:
            return walked
        by_features = _forms.WalkedFeatures(walked, walks.num_nodes)
        return _forms.Choice([by_features, walked]) if softmax else by_features
