"""Where the nonzeros of a sparse matrix are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import _errors, _ops, _values
from ._structure import Structure, device_and_dtype, register
from ._values import Values


@dataclass(frozen=True, eq=False, repr=False)
class Pattern(Structure):
    """The positions of the nonzeros of a [rows, cols] matrix: CSR, checked once, when it is made. On a GPU the check waits for the
    device.

    offsets: int64 [rows + 1]; row i owns the entries offsets[i] … offsets[i + 1] − 1.
    columns: int32 [entries], ascending and distinct inside a row.
    cols: the number of columns.
    order: int64 [entries] or None; entry e holds the value that the user gave in place order[e].

    Values over a pattern are [entries], or [H, entries] for a matrix per head, in the order of the entries; where the pattern was
    made by `from_edge_index`, in the order of the edges given there.

    Cost: O(rows + entries) for every method that does not say otherwise. Gradient: positions have none; `arranged`, `matmul` and
    `matmul_transposed` have one in the values.
    """

    offsets: Tensor
    columns: Tensor
    cols: int
    order: Tensor | None = None

    def __post_init__(self) -> None:
        self._object  # noqa: B018  (checks)

    def _make(self) -> Any:
        offsets, columns = self.offsets.contiguous(), self.columns.contiguous()
        made = _ops.new("Pattern", self.rows, self.cols, offsets, columns)
        if offsets.device.type != "cpu" and not is_ordered(offsets, columns, self.cols):
            _ops.new("Pattern", self.rows, self.cols, offsets.cpu(), columns.cpu())  # which says what is wrong
        return made

    @classmethod
    def _of(cls, made: Any, cols: int) -> Pattern:
        offsets, columns, *_ = _ops.method(made, "tensors")
        return cls._unchecked({"offsets": offsets, "columns": columns, "cols": cols, "order": None})._with_object(made)

    @staticmethod
    def from_edge_index(edge_index: Values, num_nodes: int | None = None) -> Pattern:
        """The pattern of edges [2, E], also PyG's EdgeIndex (row i attends to column j for the edge (i, j)), in any order; none twice.

        Values follow the order given here. num_nodes: the largest index + 1 where left out. Cost: O(E log E).
        """
        edges = _values.numbers_of_nodes("Pattern.from_edge_index: edge_index", edge_index)
        if edges.dim() != 2 or edges.shape[0] != 2 or edges.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"Pattern.from_edge_index: edge_index must be int64 or int32 [2, E], got {edges.dtype} {list(edges.shape)}"
            )
        edges = edges.to(torch.int64)
        largest = int(edges.max()) + 1 if edges.numel() else 0
        nodes = largest if num_nodes is None else _errors.count("num_nodes", num_nodes)
        if edges.numel() and (int(edges.min()) < 0 or int(edges.max()) >= nodes):
            bad = int(edges.min()) if int(edges.min()) < 0 else int(edges.max())
            raise ValueError(f"Pattern.from_edge_index: edge_index must be in [0, {nodes}), got {bad}")
        keys = edges[0] * max(nodes, 1) + edges[1]
        keys, order = torch.sort(keys, stable=True)
        if keys.numel() and bool((keys[1:] == keys[:-1]).any()):
            twice = keys[1:][keys[1:] == keys[:-1]][0].item()
            raise ValueError(f"Pattern.from_edge_index: an edge must be given once, got ({twice // nodes}, {twice % nodes}) twice")
        offsets = torch.zeros(nodes + 1, dtype=torch.int64, device=edges.device)
        offsets[1:] = torch.bincount(edges[0], minlength=nodes).cumsum(0)
        return Pattern(offsets, edges[1][order].to(torch.int32), nodes, order)

    @property
    def rows(self) -> int:
        return self.offsets.shape[0] - 1

    @property
    def entries(self) -> int:
        return self.columns.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.cols

    def arranged(self, values: Tensor) -> Tensor:
        """Values [..., entries] in the user's order → values in the order of the entries, differentiable."""
        return values if self.order is None else values.index_select(-1, self.order)

    def edge_index(self) -> Tensor:
        """int64 [2, entries]: rows and columns, in the user's order where there is one."""
        edges = torch.stack([rows_of_entries(self.offsets), self.columns.to(torch.int64)])
        if self.order is None:
            return edges
        given = torch.empty_like(edges)
        given[:, self.order] = edges
        return given

    def _operands(self, *, tiled: bool = True) -> list[Tensor]:
        """The five tensors that operators take and, on a GPU, the tiles, unless no operator of attention takes them."""
        tensors: list[Tensor] = _ops.method(self._object, "tensors")
        return tensors + _ops.method(self._object, "tiles") if tiled and self.columns.is_cuda else tensors

    def to(self, *args: Any, **kwargs: Any) -> Pattern:
        """The same on another device."""
        device, _ = device_and_dtype(args, kwargs)
        move = {name: tensor.to(device) for name, tensor in self._tensors().items()}
        return Pattern._unchecked({**self._fields(), **move})

    def __repr__(self) -> str:
        return f"Pattern({self.rows} × {self.cols}, {self.entries} entries)"


register(Pattern)


def matmul(pattern: Pattern, values: Tensor, x: Tensor) -> Tensor:
    """M·x for the matrix with these values over the pattern; x [..., cols, C], or [..., H, cols, C] where M has H heads.

    Cost: entries·C multiply-adds per slice. Gradient: once, in values and x.
    """
    product: Tensor = _ops.method(pattern._object, "matmul", pattern.arranged(values), x)
    return product


def matmul_transposed(pattern: Pattern, values: Tensor, x: Tensor) -> Tensor:
    """Mᵀ·x, as `matmul`; x [..., rows, C] → [..., cols, C].

    Cost: entries·C multiply-adds per slice. Gradient: once, in values and x.
    """
    product: Tensor = _ops.method(pattern._object, "matmul_transposed", pattern.arranged(values), x)
    return product


def is_ordered(offsets: Tensor, columns: Tensor, cols: int) -> bool:
    """What the library checks of a pattern on the CPU, on any device: offsets run from 0 to the number of columns and do not
    decrease, and columns are in [0, cols), ascending and distinct inside a row. Waits for the device once."""
    entries = columns.shape[0]
    ends = (offsets[:1] == 0).all() & (offsets[-1:] == entries).all() & (offsets.diff() >= 0).all()
    inside = ((columns >= 0) & (columns < cols)).all()
    starts = torch.zeros(entries + 1, dtype=torch.bool, device=columns.device)
    starts[offsets.clamp(0, entries)] = True
    ascending = ((columns.diff() > 0) | starts[1:entries]).all()
    return bool(ends & inside & ascending)


def rows_of_entries(offsets: Tensor) -> Tensor:
    """int64 [entries]: the row of each entry, for the offsets [rows + 1] of rows in CSR."""
    return torch.repeat_interleave(offsets.diff())


_errors.explain_arguments(__name__)
