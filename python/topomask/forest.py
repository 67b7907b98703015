"""Rooted forests, and functions of the distance in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import _errors, _ops, _values
from ._structure import Structure, register
from ._values import Values
from .graph import Graph


@dataclass(frozen=True, eq=False, repr=False)
class Forest(Structure):
    """A rooted forest with edge lengths. dist(i, j) is the length of the path between two nodes of one tree.

    parent: int64 or int32 [N], −1 at roots. weights: float32 or float64 [N], the length of the edge from each node to its parent;
    left out: 1.

    Cost: O(N) for every method. Gradient: weights that require grad are learnable in exponential masks; `from_graph`, `with_weights` and
    `to` pass it on, distances have none.
    """

    parent: Tensor
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        self._object  # noqa: B018  (checks)

    def _make(self) -> Any:
        return _ops.new("Forest", self.parent, self.weights)

    @classmethod
    def _of(cls, made: Any) -> Forest:
        fields = {"parent": _ops.method(made, "parent"), "weights": _ops.method(made, "weights")}
        return cls._unchecked(fields)._with_object(made)

    @staticmethod
    def from_graph(graph: Graph) -> Forest:
        """An undirected graph without cycles, its weights as lengths. Every tree is rooted at its lowest node."""
        return Forest._of(_ops.static("Forest", "from_graph", graph._object))

    @property
    def num_nodes(self) -> int:
        return self.parent.shape[0]

    @property
    def num_trees(self) -> int:
        return int(_ops.method(self._object, "num_trees"))

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.weights is None else self.weights.dtype

    def distances(self, node: int) -> Tensor:
        """float64 [N]: dist(node, ·), +∞ in other trees. O(N)."""
        distances: Tensor = _ops.method(self._object, "distances", node)
        return distances

    @property
    def diameter(self) -> float:
        """The largest distance inside a tree. O(N)."""
        return float(_ops.method(self._object, "diameter"))

    def with_weights(self, weights: Tensor) -> Forest:
        """The same trees with other lengths [N]."""
        return Forest(self.parent, weights)

    def to(self, dtype: torch.dtype) -> Forest:
        """Lengths as float32 or float64."""
        return Forest(
            self.parent,
            torch.ones(self.num_nodes, dtype=dtype, device=self.parent.device) if self.weights is None else self.weights.to(dtype),
        )

    def __repr__(self) -> str:
        return f"Forest({self.num_nodes} nodes, {self.num_trees} trees, {str(self.dtype)[6:]})"


register(Forest)


def minimum_spanning_forest(graph: Graph) -> Forest:
    """A forest of least total weight that joins what the graph joins. Cost: O(E log E). Gradient: in the graph's weights."""
    return Forest._of(_ops.static("Forest", "minimum_spanning_forest", graph._object))


@dataclass(frozen=True, eq=False, repr=False)
class DistanceFunction(Structure):
    """f: a function of the distance, made from a few kinds and closed under sums and products. Use the static methods.

    Cost: O(1) to make, but for `table`, O(H·K); `tree_mask` has the cost of each kind. Gradient: in the tensors of `exponential` and
    `table`; the other kinds learn nothing.
    """

    kind: str
    arguments: tuple[Any, ...]

    def _make(self) -> Any:
        return _ops.static("DistanceFunction", self.kind, *(_bound(argument) for argument in self.arguments))

    def _tensors(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for place, argument in enumerate(self.arguments):
            if isinstance(argument, Tensor):
                found[str(place)] = argument
            elif isinstance(argument, DistanceFunction):
                found.update({f"{place}_{name}": tensor for name, tensor in argument._tensors().items()})
        return found

    def _replaced(self, tensors: dict[str, Tensor]) -> DistanceFunction:
        """The same function of other tensors, named as _tensors names them."""
        arguments: list[Any] = []
        for place, argument in enumerate(self.arguments):
            if isinstance(argument, DistanceFunction):
                head = f"{place}_"
                inner = {name[len(head) :]: tensor for name, tensor in tensors.items() if name.startswith(head)}
                arguments.append(argument._replaced(inner))
            else:
                arguments.append(tensors.get(str(place), argument))
        return DistanceFunction(self.kind, tuple(arguments))

    @staticmethod
    def exponential(a: float | Tensor, b: float | Tensor | None = None) -> DistanceFunction:
        """exp(a·x + b); learnable where a and b are tensors, [] or [H] for a function per head."""
        if isinstance(a, Tensor):
            if b is not None and not isinstance(b, Tensor):
                b = torch.full_like(a.detach(), float(b))
            return DistanceFunction("exponential", (a, b))
        if isinstance(b, Tensor):
            raise TypeError("DistanceFunction.exponential: a must be a tensor where b is one, got a number")
        return DistanceFunction("constant_exponential", (float(a), 0.0 if b is None else float(b)))

    @staticmethod
    def table(f: Values) -> DistanceFunction:
        """f[x] on integer distances, 0 from K on; [K], or [H, K] for a table per head; learnable."""
        return DistanceFunction("table", (_values.real("DistanceFunction.table: f", f),))

    @staticmethod
    def on_integers(f: Callable[[float], float]) -> DistanceFunction:
        """Any f, on integer distances: read once, at 0, 1, … up to the diameter."""
        return DistanceFunction("on_integers", (_function(f),))

    @staticmethod
    def polynomial(coefficients: Sequence[float]) -> DistanceFunction:
        """Σ_k coefficients[k]·x^k."""
        return DistanceFunction("polynomial", (tuple(float(c) for c in coefficients),))

    @staticmethod
    def cosine(omega: float, phase: float = 0.0) -> DistanceFunction:
        """cos(omega·x + phase)."""
        return DistanceFunction("cosine", (float(omega), float(phase)))

    @staticmethod
    def smooth(f: Callable[[float], float], tolerance: float = 1e-6) -> DistanceFunction:
        """A smooth f on real distances, replaced by expansions that are off by at most tolerance·max|f|."""
        return DistanceFunction("smooth", (_function(f), float(tolerance)))

    def __mul__(self, other: DistanceFunction) -> DistanceFunction:
        if not isinstance(other, DistanceFunction):
            return NotImplemented
        return DistanceFunction("product", (self, other))

    def __add__(self, other: DistanceFunction) -> DistanceFunction:
        if not isinstance(other, DistanceFunction):
            return NotImplemented
        return DistanceFunction("sum", (self, other))

    def __call__(self, distance: float) -> float:
        """f at a distance; not for learnable functions, which are tensors."""
        return float(_ops.method(self._object, "evaluate", float(distance)))

    def __repr__(self) -> str:
        shown = (f"[{', '.join(map(str, a.shape))}]" if isinstance(a, Tensor) else repr(a) for a in self.arguments)
        return f"DistanceFunction.{self.kind}({', '.join(shown)})"


def _function(f: Callable[[float], float]) -> Callable[[float], float]:
    if not callable(f):
        raise TypeError(f"f must be a function, got {_errors.shown(f)}")
    return f


def _bound(argument: Any) -> Any:
    """An argument as C++ takes it."""
    if isinstance(argument, DistanceFunction):
        return argument._object
    if isinstance(argument, tuple):
        return list(argument)
    return _ops.callback(_evaluator(argument)) if callable(argument) and not isinstance(argument, Tensor) else argument


def _evaluator(f: Callable[[float], float]) -> Callable[[str, list[Tensor]], list[Tensor]]:
    return lambda method, arguments: [torch.tensor(float(f(arguments[0].item())), dtype=torch.float64, device="cpu")]


_errors.explain_arguments(__name__)
