"""Masks over the edges of a graph: neighbours, values for each edge, power series."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import _ops
from ..pattern import Pattern, rows_of_entries
from .layout import Layout, RowTable, offsets_of, unique_outside
from .mask import SparseDistributedMask, heads_of
from .rows import LocalRows
from .shard import Shard, check_constant_weights
from .state import gather_entries, own_entries


class _GivenValues(SparseDistributedMask):
    """Values over the entries of the rows of this rank, in the order that they were given in."""

    row_parameters = ("weights",)

    def __init__(self, layout: Layout, offsets: Tensor, columns: Tensor, values: Tensor) -> None:
        rows, order = LocalRows.of(layout, offsets, columns)
        super().__init__(layout, rows, values.shape[0] if values.dim() == 2 else 1)  # also of a rank without entries
        self._offsets = offsets
        self.keep("weights", values)
        if order is not None:
            self.hold(order=order)

    def values(self) -> Tensor:
        weights = self.kept("weights")
        return self._arranged(weights if weights.dim() == 2 else weights.unsqueeze(0))

    def gathered(self, name: str, tensor: Tensor) -> Tensor:
        return gather_entries(self.layout, self._offsets, tensor)

    def scattered(self, name: str, whole: Tensor) -> Tensor:
        return own_entries(self.layout, self._offsets, whole)


def _with_diagonal(shard: Shard) -> tuple[Tensor, Tensor]:
    """offsets and columns of the rows of A + I."""
    layout = shard.layout
    rows = rows_of_entries(shard.offsets)
    wide = max(layout.num_nodes, 1)
    diagonal = torch.arange(layout.num_rows) * wide + layout.nodes
    keys = torch.unique(torch.cat([rows * wide + shard.columns, diagonal]))
    row_of = torch.div(keys, wide, rounding_mode="floor")
    return offsets_of(torch.bincount(row_of, minlength=layout.num_rows)), keys - row_of * wide


def neighbours_mask(shard: Shard, dtype: torch.dtype | None = None) -> SparseDistributedMask:
    """M = A + I over ranks: each node attends to its neighbours and itself. dtype: of its values, the shard's where left out."""
    reason = "its entries are 1 whatever they are, and sparse_mask has them as entries"
    shard.layout.group.together("neighbours_mask", lambda: check_constant_weights(shard, reason))
    offsets, columns = _with_diagonal(shard)
    return _GivenValues(shard.layout, offsets, columns, torch.ones(columns.shape[0], dtype=dtype or shard.weights.dtype))


def sparse_mask(shard: Shard, values: Tensor | None = None) -> SparseDistributedMask:
    """M with the pattern of W: values [entries of this rank's rows], or [H, entries] for values per head, in the order of the shard;
    the weights of the graph where left out. A parameter of the rank: each learns the values in its own rows."""
    given = shard.weights if values is None else values

    def checked() -> int:
        heads = heads_of("sparse_mask", "values", given, entries=True)
        if given.shape[-1] != shard.columns.shape[0]:
            raise ValueError(f"values must have {shard.columns.shape[0]} entries, those of this rank's rows, got {given.shape[-1]}")
        return heads

    group = shard.layout.group
    heads = group.together("sparse_mask", checked)
    group.agree("sparse_mask", heads=heads, dtype=given.element_size())
    return _GivenValues(shard.layout, shard.offsets, shard.columns, given)


class _Series(SparseDistributedMask):
    """Σ_k α_k W^k, from the powers [K, entries]."""

    _function = "alpha"

    def __init__(self, layout: Layout, rows: LocalRows, powers: Tensor, alpha: Tensor, reduce: bool) -> None:
        super().__init__(layout, rows, alpha.shape[0] if alpha.dim() == 2 else 1, reduce=reduce)
        self.keep("alpha", alpha)
        self.hold(powers=powers)

    def values(self) -> Tensor:
        return self._shared(self.kept("alpha")).reshape(self.heads, -1) @ self.held("powers")


def power_series_mask(
    shard: Shard, alpha: Tensor, *, max_sparse_entries: int = 1 << 26, reduce: bool = True
) -> SparseDistributedMask:
    """M = Σ_{k<K} α_k W^k over ranks, exact; alpha [K], or [H, K] for a series per head, the same on every rank; learnable.

    The rows of W of nodes up to K − 2 hops away are fetched from their owners once, when the mask is made, and its halo is what K − 1
    hops reach. Refused where a rank would have more than max_sparse_entries.
    """
    layout, group = shard.layout, shard.layout.group

    def checked() -> int:
        heads = heads_of("power_series_mask", "alpha", alpha)
        check_constant_weights(shard, "powers of W over ranks have no gradient in them")
        if alpha.dtype != shard.weights.dtype:
            raise ValueError(f"alpha must be {shard.weights.dtype}, as the weights are, got {alpha.dtype}")
        return heads

    group.together("power_series_mask", checked)
    group.agree_on("power_series_mask", alpha=alpha)
    terms = alpha.shape[-1]
    known = shard.rows
    for _ in range(terms - 2):  # rows that one more hop leads to
        missing = unique_outside(layout, [known.columns])
        missing = missing[~torch.isin(missing, known.nodes)]
        known = known.joined(shard.rows.fetch(layout, missing))
    offsets, columns, powers = group.together(
        "power_series_mask", lambda: _powers(layout.nodes, layout.num_nodes, known, terms, max_sparse_entries)
    )
    rows, order = LocalRows.of(layout, offsets, columns)
    return _Series(layout, rows, powers if order is None else powers.index_select(1, order), alpha, reduce)


def _powers(nodes: Tensor, count: int, known: RowTable, terms: int, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """The rows `nodes` of W^0 … W^(terms − 1) over the union of their patterns: offsets, columns, [terms, entries]."""
    # Columns of the rows that are known, numbered from 0; W is square over them, with empty rows where none is known.
    seen = torch.unique(torch.cat([known.nodes, known.columns.to(torch.int64)]))
    width, rows = seen.shape[0], nodes.shape[0]
    lengths = torch.zeros(width, dtype=torch.int64)
    lengths[torch.searchsorted(seen, known.nodes)] = known.offsets.diff()
    steps = Pattern(offsets_of(lengths), torch.searchsorted(seen, known.columns.to(torch.int64)).to(torch.int32), width)
    _, _, t_offsets, t_columns, t_index = steps._operands()[:5]
    weights = known.values[0]
    back = Pattern(t_offsets, t_columns, width)  # Wᵀ: the product of the library is A·Bᵀ
    back_values = weights.index_select(0, t_index.to(torch.int64)).unsqueeze(0)

    power = Pattern(torch.arange(rows + 1), torch.searchsorted(seen, nodes).to(torch.int32), width)
    values = torch.ones(1, rows, dtype=weights.dtype)
    found = [(power, values)]
    for _ in range(1, terms):
        product = Pattern._of(_ops.method(power._object, "product", back._object), width)
        if product.entries > most:
            raise ValueError(f"max_sparse_entries must be at least {product.entries} for this rank, got {most}")
        values = _ops.sparse_product(values, back_values, power._operands(), back._operands(), product._operands())
        power = product
        found.append((power, values))

    keys = [rows_of_entries(p.offsets) * max(width, 1) + p.columns for p, _ in found]
    union = torch.unique(torch.cat(keys))
    if union.shape[0] > most:
        raise ValueError(f"max_sparse_entries must be at least {union.shape[0]} for this rank, got {most}")
    powers = weights.new_zeros(terms, union.shape[0])
    for k, (key, (_, value)) in enumerate(zip(keys, found)):
        powers[k, torch.searchsorted(union, key)] = value[0]
    row_of = torch.div(union, max(width, 1), rounding_mode="floor")
    return offsets_of(torch.bincount(row_of, minlength=rows)), seen[union - row_of * width], powers
