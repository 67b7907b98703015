"""Graphs of nearest neighbours that live for one step: batches of point clouds, and attention over all walks on them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from . import _errors, _ops
from .graph import Graph


def cloud_neighbours(points: Tensor, k: int = 3) -> Tensor:
    """int32 [B, N, k]: the k nearest neighbours of each point in its own cloud, for points [B, N, dims]. Exact; ties go to the lower
    index. On a GPU nothing is read back; k and dims are at most 32 there.

    Cost: on the CPU O(B·N·k·log N) in few dimensions, by a k-d tree; on a GPU all B·N² pairs are compared. Gradient: none.
    """
    found: Tensor = _ops.static("NeighbourWalks", "cloud_neighbours", points, k)
    return found


def cloud_graph(neighbours: Tensor) -> Graph:
    """The directed graph of `cloud_neighbours`: B·N nodes with k neighbours each, node (b, i) being row b·N + i; weights 1.
    neighbours int32 [B, N, k]. Cost: O(B·N·k). Gradient: none."""
    return Graph._of(_ops.static("NeighbourWalks", "cloud_graph", neighbours))


def symmetric_cloud_graph(neighbours: Tensor) -> Graph:
    """Likewise with an edge where either end chose the other. Its size depends on the points, so that the call waits for a GPU.
    neighbours int32 [B, N, k]. Cost: O(B·N·k·log k). Gradient: none."""
    return Graph._of(_ops.static("NeighbourWalks", "symmetric_cloud_graph", neighbours))


class NeighbourWalks:
    """All walks of up to `hops` hops from every node of a graph of k neighbours each, W = A/k: k^hops repelling walkers (27 for k = 3
    and 3 hops) take every path equally often, so that M = Σ_t f_t Wᵗ without variance.

    neighbours: int32 [B, N, k], as `cloud_neighbours` makes them. For one step: it is not pickled.

    Cost: O(B·N·k^hops) time and memory to make, and for `values`. Gradient: of `values` and `dense`, in f.
    """

    def __init__(self, neighbours: Tensor, hops: int = 3) -> None:
        self._object: Any = _ops.static("NeighbourWalks", "make", neighbours, hops)
        self.hops = hops
        columns: Tensor = _ops.method(self._object, "columns")
        self.columns = columns  #: int32 [B·N, paths]: ends of the paths, by hop
        self.nodes, self.paths = columns.shape

    @staticmethod
    def takes(walkers: int, k: int, hops: int) -> bool:
        """Whether `walkers` repelling walkers of `hops` hops take every path equally often. Cost: O(hops)."""
        return bool(_ops.static("NeighbourWalks", "takes", walkers, k, hops))

    def values(self, f: Tensor) -> Tensor:
        """M over the paths, [nodes · paths], for f [hops + 1]; differentiable in f."""
        values: Tensor = _ops.method(self._object, "values", f)
        return values

    def dense(self, f: Tensor) -> Tensor:
        """M as a matrix [nodes, nodes], differentiable in f. Cost: O(nodes²), for tests."""
        matrix: Tensor = _ops.method(self._object, "dense", f)
        return matrix

    def __repr__(self) -> str:
        return f"NeighbourWalks({self.nodes} nodes, {self.hops} hops, {self.paths} paths a node)"


def neighbour_attention(q: Tensor, k: Tensor, v: Tensor, walks: NeighbourWalks, f: Tensor, *, eps: float = 1e-6) -> Tensor:
    """out = D⁻¹(M ⊙ QKᵀ)V over the walks of a batch of clouds, M = Σ_t f_t Wᵗ, D as in `attention`. q, k [..., m], features
    already (φ ≥ 0), and v [..., D] → [..., D]; the leading dimensions have `walks.nodes` elements. f [hops + 1].

    Cost: nodes·paths·(m + D) multiply-adds. Gradient: once, in q, k, v and f.
    """
    out: Tensor = _ops.method(walks._object, "attention", q, k, v, f, eps)
    return out


_errors.explain_arguments(__name__)
