"""Shapes of the operators whose output sizes depend on data: what torch.compile and FakeTensor ask instead of running them.

The C++ side names this module (`set_python_module`), so that a trace that meets such an operator says what to import.
"""

import torch


@torch.library.register_fake("topomask::sample_walks")
def sample_walks(offsets, columns, weights, *, group_products=False, **options):
    context = torch.library.get_ctx()
    triples, entries = context.new_dynamic_size(), context.new_dynamic_size()
    products = context.new_dynamic_size() if group_products else 0

    def empty(dtype, *shape):
        return weights.new_empty(shape, dtype=dtype)

    rows = offsets.shape[0]
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


@torch.library.register_fake("topomask::product_pattern")
def product_pattern(a_offsets, a_columns, bt_offsets, bt_columns, cols):
    entries = torch.library.get_ctx().new_dynamic_size()
    return torch.empty_like(a_offsets), a_columns.new_empty(entries)


@torch.library.register_fake("topomask::row_tiles")
def row_tiles(offsets, columns):
    return columns.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.register_fake("topomask::walk_table")
def walk_table(offsets, columns, factors, *options):
    context = torch.library.get_ctx()
    triples, entries = context.new_dynamic_size(), context.new_dynamic_size()
    of = factors.new_empty
    return [
        torch.empty_like(offsets),
        of(triples, dtype=torch.int32),
        of(triples, dtype=torch.int16),
        of(triples),
        of(triples, dtype=torch.int32),
        torch.empty_like(offsets),
        of(entries, dtype=torch.int32),
        of(entries + 1, dtype=torch.int64),
    ]


@torch.library.register_fake("topomask::walk_visits")
def walk_visits(offsets, columns, factors, threshold, alias, halt_below, scale, walkers, first_walker, seed, antithetic, ensemble, first, count):
    visits = torch.library.get_ctx().new_dynamic_size()
    of = factors.new_empty
    return [of(count + 1, dtype=torch.int64), of(visits, dtype=torch.int32), of(visits, dtype=torch.int64), of(visits)]
