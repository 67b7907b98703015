"""Arguments for every registered operator: small cases over random patterns, tables of walks and tiles.

TOPOMASK_LIBRARY names the shared library.
"""

import functools
import itertools
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import topomask  # noqa: E402

ops = topomask.ops


def pattern_tensors(dense):
    """The five tensors of the pattern of a 0/1 matrix."""

    def csr(matrix):
        rows, columns = matrix.nonzero(as_tuple=True)
        counts = torch.bincount(rows, minlength=matrix.shape[0])
        return torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]), rows, columns

    offsets, rows, columns = csr(dense)
    t_offsets, t_rows, t_columns = csr(dense.T)
    place = torch.full(dense.shape, -1, dtype=torch.int64)
    place[rows, columns] = torch.arange(len(rows))
    return offsets, columns.int(), t_offsets, t_columns.int(), place[t_columns, t_rows]


class Case:
    """Inputs over a random pattern with an empty row, a full row and an empty column."""

    def __init__(
        self, rows=7, cols=7, heads=2, value_heads=2, m=3, d=5, dtype=torch.float64, requires_grad=True, density=0.4, hub=False
    ):
        generator = torch.Generator().manual_seed(11)

        def random(*shape, dtype=dtype, positive=False):
            x = torch.randn(*shape, generator=generator, dtype=torch.float64)
            return (x.abs() + 0.1 if positive else x).to(dtype).requires_grad_(requires_grad)

        keep = torch.rand(rows, cols, generator=generator) < density
        keep[0], keep[-1], keep[:, 1] = False, True, False
        if hub:
            keep[:, 2] = True
        self.pattern = pattern_tensors(keep)
        accumulation = torch.float64 if dtype == torch.float64 else torch.float32
        self.values = random(value_heads, len(self.pattern[1]), dtype=accumulation, positive=True)
        self.q = random(2, heads, rows, m, positive=True)
        self.k = random(2, heads, cols, m, positive=True)
        self.v = random(2, heads, cols, d)
        self.x = random(2, heads, cols, d)
        self.y = random(2, heads, rows, d)


def weights_arguments(mask_heads, dtype=torch.float64, requires_grad=True):
    generator = torch.Generator().manual_seed(5)
    shapes = ((2, 3, 4, 5), (mask_heads, 4, 5))
    scores, mask = (torch.rand(*shape, generator=generator, dtype=torch.float64).add(0.1) for shape in shapes)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return scores.to(dtype).requires_grad_(requires_grad), mask.to(wide).requires_grad_(requires_grad), 1e-6


def product_arguments(case, tiles=()):
    return (case.q, case.k, case.v, case.values, [*case.pattern, *tiles])


def tiles_of(case):
    """The tiles of the rows and of the columns of its pattern."""
    offsets, columns, t_offsets, t_columns, _ = case.pattern
    return ops.row_tiles([offsets, columns]), ops.row_tiles([t_offsets, t_columns])


def factored_arguments(left, right):
    return (left.q, right.q[..., : left.q.shape[-1]], left.y, left.values, list(left.pattern), right.values, list(right.pattern))


def factored_case(**options):
    return factored_arguments(Case(cols=4, **options), Case(cols=4, value_heads=1, **options))


PATH = (torch.tensor([0, 1, 3, 5, 6]), torch.tensor([1, 0, 2, 1, 3, 2], dtype=torch.int32))  # 0 – 1 – 2 – 3


def walk_table(dtype=torch.float64, **options):
    weights = torch.full((6,), 0.4, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    return ops.sample_walks(PATH, weights, **{"walkers": 3, "halting_probability": 0.3, "seed": 7, **options})


def walk_arguments(dtype=torch.float64, requires_grad=True, heads=2, terms=4):
    _, _, hops, loads, _, _, _, feature_offsets, *_ = walk_table(dtype)
    f = torch.randn(heads, terms, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return f.to(loads.dtype).requires_grad_(requires_grad), hops, loads, feature_offsets, 1 / 3


def walk_backward_arguments(dtype=torch.float64, requires_grad=True):
    _, *table, scale = walk_arguments(dtype)
    grad = torch.randn(2, len(table[2]) - 1, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    return grad.to(table[1].dtype).requires_grad_(requires_grad), *table, 4, scale


def sparse_product_arguments(left, right):
    """A, B and the patterns of A, B and ABᵀ."""

    def pattern_of(case):
        offsets, columns = case.pattern[:2]
        rows = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
        dense = torch.zeros(len(offsets) - 1, len(case.pattern[2]) - 1)
        dense[rows, columns.long()] = 1
        return dense

    out = list(pattern_tensors(pattern_of(left) @ pattern_of(right).T > 0))
    return left.values, right.values, list(left.pattern), list(right.pattern), out


def sparse_gram_arguments(case):
    a, _, pattern, _, out = sparse_product_arguments(case, case)
    return a, pattern, out


def table_arguments(dtype=torch.float64, requires_grad=True):
    """A table per head, places in it and beyond its end, and values at those places."""
    generator = torch.Generator().manual_seed(3)
    index = torch.randint(-1, 7, (7, 7), generator=generator, dtype=torch.int16)

    def random(*shape):
        x = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return x.to(torch.float64 if dtype == torch.float64 else torch.float32).requires_grad_(requires_grad)

    return random(2, 5), index, random(2, 7, 7)


def norm_arguments(dtype=torch.float64, requires_grad=True, out=None):
    """Rows to normalise, weights in the dtype of sums."""
    generator = torch.Generator().manual_seed(8)
    wide = torch.float64 if dtype == torch.float64 else torch.float32

    def random(*shape, dtype):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(requires_grad)

    return random(2, 5, 12, dtype=dtype), random(12, dtype=wide), random(12, dtype=wide), 1e-5, out or dtype


def fused_calls(dtype=torch.float64, requires_grad=True):
    """A call of fused attention for each kind of tiles that has other tensors, in turn with each weighting."""
    generator = torch.Generator().manual_seed(4)
    nodes, heads, wide = 6, 2, torch.float64 if dtype == torch.float64 else torch.float32

    def random(*shape, dtype=dtype):
        return torch.rand(*shape, generator=generator, dtype=torch.float64).add(0.1).to(dtype).requires_grad_(requires_grad)

    q, k, v = random(2, heads, nodes, 3), random(2, heads, nodes, 3), random(2, heads, nodes, 5)
    none = torch.empty(0, dtype=wide)
    codes, places = torch.arange(nodes, dtype=torch.int32), (torch.arange(nodes)[:, None] - torch.arange(nodes)).abs().short()
    learnt = functools.partial(random, dtype=wide)
    kinds = {  # kind: values, right, index, shift
        0: (none, none, codes, 0),  # ones
        2: (learnt(heads, 2 * nodes - 1), none, codes, nodes - 1),  # offsets
        3: (learnt(1, nodes, nodes), none, codes, 0),  # matrix
        4: (learnt(heads, nodes), none, places, 0),  # places
        6: (learnt(heads, nodes, 2), learnt(heads, nodes, 2), codes, 0),  # factors
    }
    return [
        (ops.fused_attention, (q, k, v, *tensors, kind, shift, 0, number % 3, 0.5, 1e-6, *nodes_first))
        for nodes_first in ((), (True,))
        for number, (kind, (*tensors, shift)) in enumerate(kinds.items())
    ]


def differentiable_calls(**options):
    """(name, function, arguments) of every operator with gradients."""
    case = Case(**options)
    tall = Case(rows=9, cols=5, value_heads=1, **options)
    table, index, at_places = table_arguments(**options)
    return [
        ("spmm", ops.spmm, (case.values, case.x, list(case.pattern))),
        ("spmm, rectangular", ops.spmm, (tall.values, tall.x, list(tall.pattern))),
        ("spmm_transposed", ops.spmm_transposed, (case.values, case.y, list(case.pattern))),
        ("spmm_transposed, rectangular", ops.spmm_transposed, (tall.values, tall.y, list(tall.pattern))),
        ("sparse_attention", ops.sparse_attention, (*product_arguments(case), 1e-6)),
        ("sparse_attention, shared values", ops.sparse_attention, (*product_arguments(tall), 1e-6)),
        ("sparse_softmax_attention", ops.sparse_softmax_attention, (*product_arguments(case), 0.5, 1e-6)),
        ("scores kept", ops.sparse_attention_forward, (*product_arguments(case), False, 1.0, 1e-6, True)),
        ("softmax, scores kept", ops.sparse_attention_forward, (*product_arguments(case), True, 0.5, 1e-6, True)),
        ("nodes first", ops.sparse_attention_forward, (*product_arguments(case), False, 1.0, 1e-6, True, True)),
        ("softmax, scores not kept", ops.sparse_attention_forward, (*product_arguments(tall), True, 0.5, 1e-6, False)),
        ("factored_product", ops.factored_product, factored_case(**options)),
        ("normalised_weights", ops.normalised_weights, weights_arguments(1, **options)),
        ("normalised_weights, per head", ops.normalised_weights, weights_arguments(3, **options)),
        ("walk_features", ops.walk_features, walk_arguments(**options)),
        ("walk_features, one term", ops.walk_features, walk_arguments(terms=1, **options)),
        ("walk_features_backward", ops.walk_features_backward, walk_backward_arguments(**options)),
        ("sparse_product", ops.sparse_product, sparse_product_arguments(case, Case(rows=5, **options))),
        ("sparse_gram", ops.sparse_gram, sparse_gram_arguments(case)),
        ("hop_pair_values", ops.hop_pair_values, pair_arguments(**options)),
        ("table_lookup", ops.table_lookup, (table, index)),
        ("table_sums", ops.table_sums, (at_places, index, 5)),
        ("layer_norm_rows", ops.layer_norm_rows, norm_arguments(**options)),
    ]


def outputs_of(result):
    return result if isinstance(result, tuple) else (result,)


def differentiable_part(function):
    """The operator without its outputs that have no gradient (denominator, row maximum and scores)."""
    return lambda *args: tuple(out for out in outputs_of(function(*args)) if out.requires_grad)


def backward_calls():
    """(function, arguments) of the operators without gradients that compute those of others, and of sddmm."""
    with torch.no_grad():
        case = Case(requires_grad=False)
        factored = factored_case(requires_grad=False)
        numerator, factored_denominator = ops.factored_product(*factored)
    calls = [
        (ops.sddmm, (case.y, case.x, list(case.pattern[:2]), 1)),
        (ops.sddmm, (case.y, case.x, list(case.pattern[:2]), 2)),
    ]
    for want in (False, True):
        calls.append((ops.factored_product_backward, (numerator, factored_denominator, *factored, want, not want)))
    for softmax, keep, want in itertools.product((False, True), repeat=3):
        rule = (softmax, 0.5, 1e-6)
        left = ops.sparse_attention_forward(*product_arguments(case), *rule, keep)
        calls.append((ops.sparse_attention_backward, (case.y, *product_arguments(case), list(left), *rule, want)))
    a, b, *patterns = sparse_product_arguments(case, Case(rows=5, requires_grad=False))
    grad = ops.sparse_product(a, b, *patterns)
    calls.append((ops.sparse_product_backward, (grad, b, *patterns, False)))
    calls.append((ops.sparse_product_backward, (grad, a, patterns[1], patterns[0], patterns[2], True)))
    scores, mask, eps = weights_arguments(3, requires_grad=False)
    weights, denominator = ops.normalised_weights(scores, mask, eps)
    calls.append((ops.normalised_weights_backward, (weights, scores, mask, denominator, eps)))
    for function, args in fused_calls(requires_grad=False):
        results = function(*args)
        for want in (False, True):
            calls.append((ops.fused_attention_backward, (results[0], *args[:6], *results, *args[6:12], want)))
    products, *lists = pair_arguments(requires_grad=False)
    values = ops.hop_pair_values(products, *lists)
    calls.append((ops.hop_pair_values_backward, (values, *lists, products.shape[1])))
    together = torch.randn(2, 5, 3, 2, 8, dtype=torch.float64)
    parts = [torch.randn(2, 2, 5, 8, dtype=torch.float64) for _ in range(3)]
    calls += [(ops.relu_qkv, (together, 0.5)), (ops.relu_qkv_backward, (*parts, together))]
    x, weight, bias, *settings = norm_arguments(torch.float32, requires_grad=False, out=torch.bfloat16)
    out, mean, rstd = ops.layer_norm_rows(x, weight, bias, *settings)
    calls += [(ops.layer_norm_rows, (x, weight, bias, *settings)), (ops.layer_norm_rows_backward, (out, x, weight, mean, rstd))]
    return [*calls, *block_calls()]


def walk_tables(dtype=torch.float64):
    """Walks on a path as `hop_pairs` takes them, and the pattern of their product."""
    _, _, hops, loads, _, offsets, columns, features, *_ = walk_table(dtype)
    nodes = offsets.shape[0] - 1
    rows = torch.repeat_interleave(torch.arange(nodes), offsets.diff())
    there = torch.zeros(nodes, nodes, dtype=torch.bool)
    there[rows, columns.long()] = True
    product = ops.product_pattern(list(pattern_tensors(there)), list(pattern_tensors(there.mT)))
    return [offsets, columns, features, hops, loads], list(product)


def pair_arguments(dtype=torch.float64, requires_grad=True):
    table, product = walk_tables(dtype)
    lists = ops.hop_pairs(table, table, product, 3, 1 << 20)
    return torch.rand(2, 6, dtype=table[4].dtype).requires_grad_(requires_grad), *lists


def block_calls(rows=5, width=32, heads=2, hidden=48):
    """The halves of a transformer block around attention, and their gradients."""

    def of(*shape):
        return torch.rand(*shape, dtype=torch.float64)

    x, norm, w, b = of(rows, width), (of(width), of(width)), of(3 * width, width), of(3 * width)
    q, k, v = ops.block_before(x, *norm, 1e-5, w, b, heads, 0.5, False)
    first = (of(hidden, width), of(hidden))
    second = (of(width, hidden), of(width))
    middle = (x, v, of(width, width), of(width), *norm, 1e-5, *first)
    return [
        (ops.block_before, (x, *norm, 1e-5, w, b, heads, 0.5, False)),
        (ops.block_before_backward, (q, k, v, x, *norm, 1e-5, w, q, k, 0.5, False)),
        (ops.block_after, (*middle, *second, False)),
        (ops.block_after_backward, (x, *middle, second[0], False)),
    ]


def structure_calls():
    """(function, arguments, keyword arguments) of the operators that make walks, patterns, tiles and neighbours."""
    pattern = list(pattern_tensors(torch.rand(7, 5, generator=torch.Generator().manual_seed(2)) < 0.4))
    clouds = torch.rand(2, 9, 3, dtype=torch.float64)
    table, product = walk_tables()
    walks = [
        (ops.sample_walks, (list(PATH), torch.ones(6, dtype=dtype)), {"walkers": 2, "group_products": group_products})
        for dtype, group_products in itertools.product((torch.float32, torch.float64), (False, True))
    ]
    return [
        *walks,
        (ops.product_pattern, (pattern, pattern), {}),
        (ops.row_tiles, (pattern[:2],), {}),
        (ops.hop_pairs, (table, table, product, 3, 1 << 20), {}),
        (ops.nearest_neighbours, (clouds[0], 2), {}),
        (ops.nearest_points, (clouds, clouds, 2, True), {}),
    ]
