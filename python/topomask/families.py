"""Families of masks that have a form of their own for torch.compile, or more to do than C++ needs."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from . import _ops, _traced
from .graph import Graph
from .library_mask import LibraryMask, _Latest
from .pattern import Pattern
from .walks import WalkTable


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
        ad_hoc = self._family == "ad_hoc_mask"
        loads = walks.counts.to(walks.dtype) if ad_hoc else walks.kept_loads
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
