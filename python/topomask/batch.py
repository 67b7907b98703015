"""Several graphs as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from . import _errors, _ops
from .graph import Graph


@dataclass(frozen=True, eq=False, repr=False)
class GraphBatch:
    """Several graphs as one block-diagonal graph: no edge, hence no attention, between them.

    graph: all of them; offsets: graph g owns rows offsets[g] … offsets[g + 1] − 1; membership: int64 [N].

    Cost: O(N + entries) for every method; `split` returns views. Gradient: in the weights of the graphs, and in what is split.
    """

    graph: Graph
    offsets: tuple[int, ...]
    membership: Tensor

    @staticmethod
    def of(graphs: Sequence[Graph]) -> GraphBatch:
        """All directed or none, one weight dtype. A collate_fn of DataLoader for data sets of graphs."""
        made, offsets, membership = _ops.static("Graph", "batch", [graph._object for graph in graphs])
        return GraphBatch(Graph._of(made), tuple(offsets), membership)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def to(self, *args: Any, **kwargs: Any) -> GraphBatch:
        """The graph as by Graph.to, and the membership on the same device."""
        graph = self.graph.to(*args, **kwargs)
        return GraphBatch(graph, self.offsets, self.membership.to(graph.device))

    def pin_memory(self) -> GraphBatch:
        """As Graph.pin_memory."""
        return GraphBatch(self.graph.pin_memory(), self.offsets, self.membership.pin_memory())

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """x [..., N, C] back into one [..., N_g, C] view per graph."""
        parts: tuple[Tensor, ...] = torch.split(x, [b - a for a, b in zip(self.offsets, self.offsets[1:])], dim=-2)
        return parts

    def __repr__(self) -> str:
        return f"GraphBatch({len(self)} graphs, {self.graph!r})"


def _batch_of(leaves: Iterable[Any], offsets: Any) -> GraphBatch:
    graph, membership = leaves
    return GraphBatch(graph, offsets, membership)


_pytree.register_pytree_node(
    GraphBatch,
    lambda batch: ([batch.graph, batch.membership], batch.offsets),
    _batch_of,
    serialized_type_name="topomask.GraphBatch",
)
torch.serialization.add_safe_globals([GraphBatch])


_errors.explain_arguments(__name__)
