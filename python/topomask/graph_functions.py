"""Functions of whole graphs: products, subgraphs, orders of nodes, components. A graph on a GPU is copied to the CPU for them, and the
result is moved back."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from . import _errors, _ops
from .graph import Graph


def cartesian_product(a: Graph, b: Graph) -> Graph:
    """Node (i, j) has index i·|b| + j, and W = W_a ⊗ I + I ⊗ W_b. Both directed or both not, one weight dtype.

    Cost: O(N_a·N_b·(d_a + d_b)) for mean degrees d. Gradient: in the weights of both.
    """
    return Graph._of(_ops.method(a._object, "cartesian_product", b._object))


def induced_subgraph(graph: Graph, nodes: Tensor) -> Graph:
    """The graph among `nodes` (int64 or int32 [n], distinct), renumbered in the order given.

    Cost: O(N + the entries of these rows). Gradient: in the graph's weights.
    """
    return Graph._of(_ops.method(graph._object, "induced_subgraph", nodes))


def permuted(graph: Graph, order: Tensor) -> Graph:
    """Node order[i] of the graph becomes node i; order int64 or int32 [N], a permutation.

    Cost: O(N + entries), and a sort inside each row. Gradient: in the graph's weights.
    """
    return Graph._of(_ops.method(graph._object, "permuted", order))


@dataclass(frozen=True, eq=False)
class Components:
    """labels: int64 [N], the component of each node, numbered by their lowest node; count: how many there are."""

    labels: Tensor
    count: int


def connected_components(graph: Graph) -> Components:
    """Connected components; of a directed graph the weak ones. Labels are int64 [N]. Cost: O(N + entries). Gradient: none."""
    return Components(*_ops.method(graph._object, "connected_components"))


def reverse_cuthill_mckee(graph: Graph) -> Tensor:
    """An order (int64 [N], as `permuted` takes it) that brings neighbours close: memory locality for the sparse kernels.

    Cost: O(N + entries) per search from a peripheral node, and a sort of neighbours by degree. Gradient: none.
    """
    order: Tensor = _ops.method(graph._object, "reverse_cuthill_mckee")
    return order


_errors.explain_arguments(__name__)
