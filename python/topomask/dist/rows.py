"""Attention of the rows that a rank owns, over columns that it owns and columns of its halo."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import _ops
from ..pattern import Pattern, rows_of_entries
from ..pattern import matmul as sparse_matmul
from ..pattern import matmul_transposed as sparse_matmul_transposed
from .exchange import Exchange, halo_of, to_owners
from .layout import HaloPlan, Layout, entries_of, offsets_of, unique_outside

Operator = Callable[[Tensor, Tensor, Tensor, Tensor, list[Tensor]], Tensor]
"""(q, k, v, values, pattern) → out"""


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows, and the columns in them: own rows `used` (all where None), then the halo where `halo`, then global tokens.

    entries: the place of each value; None: as they are."""

    rows: Tensor | None
    used: Tensor | None
    halo: bool
    pattern: Pattern
    entries: Tensor | None

    def keys(self, own: Tensor, halo: Tensor | None, tokens: Tensor | None) -> Tensor:
        """From the own rows that these rows see."""
        parts = [own, *([halo] if self.halo and halo is not None else []), *([] if tokens is None else [tokens])]
        return own if len(parts) == 1 else torch.cat(parts, -2)


class LocalRows:
    """The pattern of the rows of this rank, with columns renumbered to [own | halo]: column c < n is row c of this rank, n + c is
    halo[c] of the plan. tokens: columns of global tokens in every row, after those.

    Rows without a column of the halo are a piece of their own: they are computed while the halo travels.
    """

    def __init__(self, plan: HaloPlan, pattern: Pattern, tokens: int = 0) -> None:
        self.plan, self.pattern, self.tokens = plan, pattern, tokens
        self._moved: weakref.WeakValueDictionary[torch.device, LocalRows] = weakref.WeakValueDictionary()
        rows, own = pattern.rows, plan.layout.num_rows
        inside = pattern.columns < own
        outside = torch.zeros(rows, dtype=torch.int64)
        outside.index_add_(0, rows_of_entries(pattern.offsets), (~inside).to(torch.int64))
        self.boundary = torch.nonzero(outside > 0).squeeze(1)
        self.interior = torch.nonzero(outside == 0).squeeze(1)
        if plan.total == 0:  # nobody needs a halo
            self.pieces = [self._piece(None, False)]
            self._back: Tensor | None = None
        else:
            self.pieces = [self._piece(self.interior, False), self._piece(self.boundary, True)]
            self._back = torch.argsort(torch.cat([self.interior, self.boundary]))

    @staticmethod
    def of(layout: Layout, offsets: Tensor, columns: Tensor, tokens: int = 0) -> tuple[LocalRows, Tensor | None]:
        """From columns of the whole graph, distinct in each row; and the place that each value has had, None where it is the same.
        A collective call."""
        plan = HaloPlan(layout, unique_outside(layout, [columns]))
        local = local_columns(plan, columns)
        width = layout.num_rows + plan.num_halo
        order = torch.argsort(rows_of_entries(offsets) * max(width, 1) + local)
        made = LocalRows(plan, Pattern(offsets, local[order].to(torch.int32), width), tokens)
        return made, None if torch.equal(order, torch.arange(order.shape[0])) else order

    def _piece(self, rows: Tensor | None, halo: bool) -> Piece:
        own, pattern, tokens = self.plan.layout.num_rows, self.pattern, self.tokens
        if rows is None and tokens == 0:
            return Piece(None, None, False, Pattern(pattern.offsets, pattern.columns, own), None)
        chosen = torch.arange(pattern.rows) if rows is None else rows
        entries = entries_of(pattern.offsets, chosen)
        columns = pattern.columns[entries].to(torch.int64)
        used, width = None, own
        if halo:  # of the own rows only those that these rows see
            used = torch.unique(columns[columns < own])
            number = torch.empty(own + self.plan.num_halo, dtype=torch.int64)
            number[used] = torch.arange(len(used))
            number[own:] = len(used) + torch.arange(self.plan.num_halo)
            columns, width = number[columns], len(used) + self.plan.num_halo
        lengths = (pattern.offsets[1:] - pattern.offsets[:-1])[chosen]
        if tokens:
            columns, entries, lengths = _with_tokens(columns, entries, lengths, width, pattern.entries, tokens)
        made = Pattern(offsets_of(lengths), columns.to(torch.int32), width + tokens)
        return Piece(rows, used, halo, made, entries)

    def to(self, device: torch.device) -> LocalRows:
        """The same with patterns on another device; one copy for each, which masks with a common structure share."""
        known = self._moved.get(device)
        if known is not None:
            return known
        made = LocalRows.__new__(LocalRows)
        made.__dict__.update(self.__dict__)
        self._moved[device] = made
        made.pattern = self.pattern.to(device)

        def moved(x: Tensor | None) -> Tensor | None:
            return None if x is None else x.to(device)

        made.pieces = [Piece(moved(p.rows), moved(p.used), p.halo, p.pattern.to(device), moved(p.entries)) for p in self.pieces]
        made._back = moved(self._back)
        return made

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, values: Tensor, operator: Operator, tokens: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """q [B, H, n, m], k, v of the own rows; values [1 or H, entries]; tokens: k and v of the global tokens."""
        if self.tokens:  # their values are 1
            values = torch.cat([values, values.new_ones(values.shape[0], 1)], 1)
        k_tokens, v_tokens = (None, None) if tokens is None else tokens

        def compute(piece: Piece, k: Tensor, v: Tensor, k_halo: Tensor | None, v_halo: Tensor | None) -> Tensor:
            rows = q if piece.rows is None else q.index_select(-2, piece.rows.to(q.device))
            own = values if piece.entries is None else values.index_select(1, piece.entries)
            keys, content = piece.keys(k, k_halo, k_tokens), piece.keys(v, v_halo, v_tokens)
            return operator(rows, keys, content, own, piece.pattern._operands())

        if len(self.pieces) == 1:
            return compute(self.pieces[0], k, v, None, None)
        used = self.pieces[1].used
        assert used is not None
        exchange = Exchange(self.plan, [k, v], used.to(k.device))
        (k_own, v_own), (k_used, v_used) = exchange.own, exchange.used
        interior = compute(self.pieces[0], k_own, v_own, None, None)
        boundary = compute(self.pieces[1], k_used, v_used, *exchange.end())
        assert self._back is not None
        return torch.cat([interior, boundary], -2).index_select(-2, self._back.to(q.device))

    def matmul(self, values: Tensor, x: Tensor) -> Tensor:
        """M·x of the own rows; without global tokens."""
        whole = x if self.plan.total == 0 else torch.cat([x, halo_of(self.plan, x)], -2)
        return sparse_matmul(self.pattern, values, whole)

    def matmul_transposed(self, values: Tensor, x: Tensor) -> Tensor:
        """The own rows of Mᵀ·x."""
        product = sparse_matmul_transposed(self.pattern, values, x)
        if self.plan.total == 0:
            return product
        own = self.plan.layout.num_rows
        return product[..., :own, :] + to_owners(self.plan, product[..., own:, :])

    def __deepcopy__(self, memo: object) -> LocalRows:
        return self


def local_columns(plan: HaloPlan, columns: Tensor) -> Tensor:
    """Nodes of the whole graph → [own | halo] of this rank."""
    layout, wide = plan.layout, columns.to(torch.int64)
    ascending, place = torch.sort(plan.halo)
    mine = layout.partition.owners.index_select(0, wide) == layout.group.rank
    own = torch.searchsorted(layout.nodes, wide)
    if plan.num_halo == 0:
        return own
    found = place[torch.searchsorted(ascending, wide).clamp(max=plan.num_halo - 1)]
    return torch.where(mine, own, layout.num_rows + found)


def _with_tokens(
    columns: Tensor, entries: Tensor, lengths: Tensor, width: int, one: int, tokens: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Appends `tokens` columns from `width` on to every row; their value has the place `one`."""
    rows = lengths.shape[0]
    longer = lengths + tokens
    offsets = offsets_of(longer)
    made = torch.empty(int(offsets[-1]), dtype=torch.int64)
    places = torch.full_like(made, one)
    last = offsets[1:].unsqueeze(1) - tokens + torch.arange(tokens)
    given = torch.ones(made.shape[0], dtype=torch.bool)
    given[last.reshape(-1)] = False
    made[given], places[given] = columns, entries
    made[last.reshape(-1)] = (width + torch.arange(tokens)).repeat(rows)
    return made, places, longer


def bordered_pattern(pattern: Pattern, tokens: int) -> tuple[Pattern, Tensor]:
    """[1 1; 1 M] for the pattern [n, n] of M: `tokens` rows and columns before it; and the place of each entry of M."""
    rows, device = pattern.rows, pattern.columns.device
    width, lengths = tokens + rows, pattern.offsets.diff()
    before = torch.arange(tokens, device=device)
    offsets = offsets_of(torch.cat([torch.full_like(before, width), lengths + tokens]))
    places = tokens * width + tokens * (1 + rows_of_entries(pattern.offsets)) + torch.arange(pattern.entries, device=device)
    columns = torch.empty(int(offsets[-1]), dtype=torch.int32, device=device)
    columns[: tokens * width] = torch.arange(width, device=device, dtype=torch.int32).repeat(tokens)
    starts = offsets[tokens:-1].unsqueeze(1) + before
    columns[starts.reshape(-1)] = before.to(torch.int32).repeat(rows)
    columns[places] = pattern.columns + tokens
    return Pattern(offsets, columns, width), places


def operator_of(softmax: bool, scale: float, eps: float) -> Operator:
    """Kernel or softmax attention of the library over a pattern."""
    if softmax:
        return lambda q, k, v, values, pattern: _ops.sparse_softmax_attention(q, k, v, values, pattern, scale, eps)
    return lambda q, k, v, values, pattern: _ops.sparse_attention(q, k, v, values, pattern, eps)
