"""Shapes of the operators whose output sizes depend on data: what torch.compile and FakeTensor ask instead of running them.

The C++ side names this module (`set_python_module`), so that a trace that meets such an operator says what to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


@torch.library.register_fake("topomask::sample_walks")  # type: ignore[untyped-decorator]
def sample_walks(pattern: Sequence[Tensor], weights: Tensor, *, group_products: bool = False, **options: Any) -> tuple[Tensor, ...]:
    context = torch.library.get_ctx()
    triples, entries = context.new_dynamic_size(), context.new_dynamic_size()
    products = context.new_dynamic_size() if group_products else 0

    def empty(dtype: torch.dtype, *shape: Any) -> Tensor:
        return weights.new_empty(shape, dtype=dtype)

    rows = pattern[0].shape[0]
    return (
        empty(torch.int64, rows),  # offsets
        empty(torch.int32, triples),  # columns
        empty(torch.int16, triples),  # hops
        empty(weights.dtype, triples),  # loads
        empty(torch.int32, triples),  # counts
        empty(torch.int64, rows),  # pattern_offsets
        empty(torch.int32, entries),  # pattern_columns
        empty(torch.int64, entries + 1),  # feature_offsets
        empty(torch.int64, rows if group_products else 0),  # product_offsets
        empty(torch.int16, products, 2),  # product_hops
        empty(weights.dtype, products),  # product_values
    )


@torch.library.register_fake("topomask::product_pattern")  # type: ignore[untyped-decorator]
def product_pattern(a: Sequence[Tensor], b: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    entries = torch.library.get_ctx().new_dynamic_size()
    return torch.empty_like(a[0]), a[1].new_empty(entries)


@torch.library.register_fake("topomask::row_tiles")  # type: ignore[untyped-decorator]
def row_tiles(pattern: Sequence[Tensor]) -> Tensor:
    return pattern[1].new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.register_fake("topomask::walk_table")  # type: ignore[untyped-decorator]
def walk_table(pattern: Sequence[Tensor], factors: Tensor, *options: Any) -> list[Tensor]:
    context = torch.library.get_ctx()
    triples, entries = context.new_dynamic_size(), context.new_dynamic_size()
    of = factors.new_empty
    return [
        torch.empty_like(pattern[0]),
        of(triples, dtype=torch.int32),
        of(triples, dtype=torch.int16),
        of(triples),
        of(triples, dtype=torch.int32),
        torch.empty_like(pattern[0]),
        of(entries, dtype=torch.int32),
        of(entries + 1, dtype=torch.int64),
    ]


@torch.library.register_fake("topomask::walk_visits")  # type: ignore[untyped-decorator]
def walk_visits(
    pattern: Sequence[Tensor],
    factors: Tensor,
    threshold: Tensor | None,
    alias: Tensor | None,
    halt_below: Tensor,
    scale: Tensor,
    walkers: int,
    first_walker: int,
    seed: int,
    antithetic: bool,
    ensemble: int,
    first: int,
    count: int,
) -> list[Tensor]:
    visits = torch.library.get_ctx().new_dynamic_size()
    of = factors.new_empty
    return [of(count + 1, dtype=torch.int64), of(visits, dtype=torch.int32), of(visits, dtype=torch.int64), of(visits)]


@torch.library.register_fake("topomask::hop_pairs")  # type: ignore[untyped-decorator]
def hop_pairs(
    left: Sequence[Tensor], right: Sequence[Tensor], product: Sequence[Tensor], terms: int, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    pairs = torch.library.get_ctx().new_dynamic_size()
    of = product[1].new_empty
    return of(product[1].shape[0] + 1), of(pairs, dtype=torch.uint8), left[4].new_empty(pairs)
