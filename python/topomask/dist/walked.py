"""Graph random features over ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import _ops
from ..pattern import Pattern, rows_of_entries
from .layout import HaloPlan, Layout, RowTable, offsets_of, ranges
from .mask import Held, SparseDistributedMask, heads_of
from .rows import LocalRows
from .walks import FeatureRows, WalkRows, agree_on_options


def _check_function(walks: WalkRows, op: str, name: str, f: Tensor) -> None:
    def checked() -> None:
        heads_of(op, name, f)
        if f.dtype != walks.loads.dtype:
            raise ValueError(f"{op}: {name} must be {walks.loads.dtype}, as the loads are, got {f.dtype}")

    group = walks.layout.group
    group.together(op, checked)
    agree_on_options(group, op, walks.options)
    group.agree_on(op, **{name: f})


class _Features(Held):
    """Φ̂ of some rows, linear in f."""

    def __init__(self, rows: FeatureRows, walkers: int) -> None:
        super().__init__()
        self.hold(hops=rows.hops, loads=rows.loads.clone(), feature_offsets=rows.feature_offsets)  # lists follow from loads
        self.scale = 1.0 / walkers

    def forward(self, f: Tensor) -> Tensor:
        """f [1 or H, K] → [1 or H, entries]"""
        return _ops.walk_features(f, self.held("hops"), self.held("loads"), self.held("feature_offsets"), self.scale)


class _PairLists:
    """Lists of hop pairs: values of Φ̂Φ̂ᵀ as a quadratic form in f, in one pass for all heads, with no product of matrices.

    Made when the first values with a gradient are asked for, where walks meet in few pairs; masks that share walks share them.
    `most`: pairs an entry, which keeps them within the memory of the pattern and its transpose."""

    most, terms = 4, 22

    def __init__(self) -> None:
        self.refused = False
        self.lists: tuple[Tensor, ...] | None = None

    def of(self, terms: int, left: Sequence[Tensor], right: Sequence[Tensor], product: Pattern) -> tuple[Tensor, ...] | None:
        """The lists for `terms` coefficients, or None where values are to come from the product."""
        if self.lists is not None and self.lists[0].device != left[0].device:
            self.lists = tuple(x.to(left[0].device) for x in self.lists)
        if self.lists is None and not self.refused:
            made = _ops.hop_pairs(left, right, product._operands(), terms, self.most * product.entries)
            self.refused = made[0].numel() == 0
            self.lists = None if self.refused else made
        return self.lists


def _pair_products(f: Tensor, scale: float) -> Tensor:
    """f [H, terms] → scale·f_t·f_u [H, pairs], by the larger hop."""
    t, u = torch.tril_indices(f.shape[-1], f.shape[-1], device=f.device)
    return f.index_select(-1, t) * f.index_select(-1, u) * scale


class _Asymmetric(SparseDistributedMask):
    """M̂ = Φ̂."""

    _function = "f"

    def __init__(self, walks: WalkRows, f: Tensor, reduce: bool) -> None:
        features = FeatureRows.of(walks.rows)
        rows, order = LocalRows.of(walks.layout, features.offsets, features.columns)
        super().__init__(walks.layout, rows, f.shape[0] if f.dim() == 2 else 1, reduce=reduce)
        self.keep("f", f)
        self.features = _Features(features, walks.options.walkers)
        if order is not None:
            self.hold(order=order)

    def values(self) -> Tensor:
        return self._arranged(self.features(self._shared(self.kept("f")).reshape(self.heads, -1)))


def asymmetric_grf_mask(walks: WalkRows, f: Tensor, *, reduce: bool = True) -> SparseDistributedMask:
    """M̂ = Φ̂ over ranks, unbiased for Σ_k f_k W^k. f [K], or [H, K] for a function per head, the same on every rank; learnable."""
    _check_function(walks, "asymmetric_grf_mask", "f", f)
    return _Asymmetric(walks, f, reduce)


class _Symmetric(SparseDistributedMask):
    """Φ̂₁Φ̂₂ᵀ over a pattern made beforehand: rows of Φ̂₁ of this rank, rows of Φ̂₂ of this rank and of its halo."""

    _function = "f"

    def __init__(self, queries: WalkRows, keys: WalkRows | None, f: Tensor, f_key: Tensor | None, reduce: bool) -> None:
        layout, right_walks = queries.layout, queries if keys is None else keys
        plan = HaloPlan(layout, meeting_rows(layout, queries.rows, right_walks.rows))
        right = FeatureRows.of(_stacked(right_walks.rows, right_walks.rows.fetch(layout, plan.halo)))
        left = FeatureRows.of(queries.rows)
        seen = torch.unique(torch.cat([left.columns, right.columns]))
        left_pattern, right_pattern = _numbered(left, seen), _numbered(right, seen)
        product = Pattern._of(_ops.method(left_pattern._object, "product", right_pattern._object), right_pattern.rows)
        super().__init__(layout, LocalRows(plan, product), f.shape[0] if f.dim() == 2 else 1, reduce=reduce)
        self.keep("f", f)
        self._own_keys = f_key is not None
        if f_key is not None:
            self.keep("f_key", f_key)
        self.left = None if keys is None else _Features(left, queries.options.walkers)
        self.right = _Features(right, right_walks.options.walkers)
        self._patterns = left_pattern, right_pattern
        self._lists = None if f_key is not None or f.shape[-1] > _PairLists.terms else _PairLists()

    def _from_lists(self, f: Tensor) -> Tensor | None:
        if self._lists is None or not (torch.is_grad_enabled() and f.requires_grad):
            return None
        left, right = self._patterns
        side = right._operands()[:2] + [self.right.held(name) for name in ("feature_offsets", "hops", "loads")]
        other = self.left
        if other is None:
            own = left._operands()[:2] + [side[2][: left.entries + 1], side[3], side[4]]
        else:
            own = left._operands()[:2] + [other.held(name) for name in ("feature_offsets", "hops", "loads")]
        lists = self._lists.of(f.shape[-1], own, side, self.local.pattern)
        scale = self.right.scale * (self.right if other is None else other).scale
        return None if lists is None else _ops.hop_pair_values(_pair_products(f, scale), lists)

    def values(self) -> Tensor:
        f_left = self._shared(self.kept("f")).reshape(self.heads, -1)
        f_right = self._shared(self.kept("f_key")).reshape(self.heads, -1) if self._own_keys else f_left
        left, right = self._patterns
        if left.columns.device != f_left.device:
            left, right = self._patterns = left.to(f_left.device), right.to(f_left.device)
        made = self._from_lists(f_left)
        if made is not None:
            return made
        phi: Tensor = self.right(f_right)
        phi_left: Tensor = phi[:, : left.entries] if self.left is None else self.left(f_left)
        out = self.local.pattern._operands()
        return _ops.sparse_product(phi_left.contiguous(), phi, left._operands(), right._operands(), out)


def grf_mask(
    walks: WalkRows, f: Tensor, *, key_walks: WalkRows | None = None, f_key: Tensor | None = None, reduce: bool = True
) -> SparseDistributedMask:
    """M̂ = Φ̂Φ̂ᵀ over ranks, the diagonal shared. f [K], or [H, K] for a function per head, the same on every rank; learnable.

    The halo of a rank is the nodes of others whose walks meet walks of its own; their visits are fetched once, when the mask is made.
    key_walks: an independent table for the keys, M̂ = Φ̂₁Φ̂₂ᵀ; f_key is f where left out.
    """
    group = walks.layout.group

    def checked() -> None:
        if f_key is not None and key_walks is None:
            raise ValueError("f_key must come with key_walks")
        if f_key is not None and f_key.dim() != f.dim():
            raise ValueError(f"f_key must have the heads of f, {list(f.shape)}, got {list(f_key.shape)}")
        if key_walks is not None and key_walks.layout.partition.fingerprint != walks.layout.partition.fingerprint:
            raise ValueError("key_walks must be divided as walks are")

    group.together("grf_mask", checked)
    _check_function(walks, "grf_mask", "f", f)
    if key_walks is not None:
        _check_function(key_walks, "grf_mask", "f_key", f if f_key is None else f_key)
    return _Symmetric(walks, key_walks, f, f_key, reduce)


def meeting_rows(layout: Layout, left: RowTable, right: RowTable) -> Tensor:
    """The nodes of other ranks whose rows of `right` share a column with a row of `left` of this rank. A collective call.

    The owner of a column is told who visits it, and tells the ranks whose rows of `left` have it which rows of `right` do.
    """
    group, owners = layout.group, layout.partition.owners
    if group.size == 1:
        return torch.empty(0, dtype=torch.int64)
    asked, askers = _sent_to(layout, torch.unique(left.columns.to(torch.int64)))
    row_of = right.nodes[rows_of_entries(right.offsets)]
    pairs = torch.unique(torch.stack([right.columns.to(torch.int64), row_of]), dim=1)
    visited, visitors = _sent_to(layout, pairs[0], pairs[1])
    # Join on the column: every rank that asks for it with every row that visits it.
    order = torch.argsort(visited)
    visited, visitors = visited[order], visitors[order]
    begin, end = torch.searchsorted(visited, asked), torch.searchsorted(visited, asked, right=True)
    lengths = end - begin
    whole = torch.repeat_interleave(askers, lengths)
    rows = visitors[ranges(begin, lengths)]
    foreign = owners.index_select(0, rows) != whole
    answers = torch.unique(whole[foreign] * layout.num_nodes + rows[foreign])
    ranks = torch.div(answers, max(layout.num_nodes, 1), rounding_mode="floor")
    splits = torch.bincount(ranks, minlength=group.size).tolist()
    met: Tensor = torch.unique(_exchanged(layout, answers - ranks * layout.num_nodes, splits)[0])
    return met


def _sent_to(layout: Layout, columns: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Columns to their owners. Returns those received, and the rows sent with them, or the rank that each came from."""
    owners = layout.partition.owners.index_select(0, columns)
    order = torch.argsort(owners, stable=True)
    splits = torch.bincount(owners, minlength=layout.group.size).tolist()
    got, counts = _exchanged(layout, columns[order], splits)
    if rows is not None:
        return got, _exchanged(layout, rows[order], splits)[0]
    return got, torch.repeat_interleave(torch.arange(layout.group.size), torch.tensor(counts))


def _exchanged(layout: Layout, x: Tensor, splits: list[int]) -> tuple[Tensor, list[int]]:
    group = layout.group
    counts = [row[group.rank] for row in group.all_gather(splits)]
    return group.all_to_all(x, splits, counts).wait(), counts


def _stacked(own: RowTable, halo: RowTable) -> RowTable:
    """Own rows first, then those of the halo."""
    lengths = torch.cat([own.offsets.diff(), halo.offsets.diff()])
    values = tuple(torch.cat(pair) for pair in zip(own.values, halo.values))
    return RowTable(torch.cat([own.nodes, halo.nodes]), offsets_of(lengths), torch.cat([own.columns, halo.columns]), values)


def _numbered(rows: FeatureRows, seen: Tensor) -> Pattern:
    return Pattern(rows.offsets, torch.searchsorted(seen, rows.columns).to(torch.int32), seen.shape[0])
