"""The registered operators as Python sees them: opcheck, gradcheck, torch.compile and autocast.

TOPOMASK_LIBRARY names the shared library. Values are held against dense formulas in tests/sparse; here it is registration that
is tested: schema, meta kernel, autograd, tracing.
"""

import itertools
import pathlib
import struct
import sys
import unittest
import unittest.mock

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

    def __init__(self, rows=7, cols=7, heads=2, value_heads=2, m=3, d=5, dtype=torch.float64, requires_grad=True, density=0.4, hub=False):
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
    return ops.sample_walks(*PATH, weights, **{"walkers": 3, "halting_probability": 0.3, "seed": 7, **options})


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
        ("softmax, scores not kept", ops.sparse_attention_forward, (*product_arguments(tall), True, 0.5, 1e-6, False)),
        ("factored_product", ops.factored_product, factored_case(**options)),
        ("normalised_weights", ops.normalised_weights, weights_arguments(1, **options)),
        ("normalised_weights, per head", ops.normalised_weights, weights_arguments(3, **options)),
        ("walk_features", ops.walk_features, walk_arguments(**options)),
        ("walk_features, one term", ops.walk_features, walk_arguments(terms=1, **options)),
        ("walk_features_backward", ops.walk_features_backward, walk_backward_arguments(**options)),
        ("sparse_product", ops.sparse_product, sparse_product_arguments(case, Case(rows=5, **options))),
        ("sparse_gram", ops.sparse_gram, sparse_gram_arguments(case)),
        ("table_lookup", ops.table_lookup, (table, index)),
        ("table_sums", ops.table_sums, (at_places, index, 5)),
    ]


def outputs_of(result):
    return result if isinstance(result, tuple) else (result,)


def differentiable_part(function):
    """The operator without its outputs that have no gradient (denominator, row maximum and scores)."""
    return lambda *args: tuple(out for out in outputs_of(function(*args)) if out.requires_grad)


class Registration(unittest.TestCase):
    def test_opcheck_of_every_differentiable_operator(self):
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            for name, function, args in differentiable_calls(dtype=dtype):
                with self.subTest(name, dtype=dtype):
                    torch.library.opcheck(function.default, args)

    def test_opcheck_of_operators_without_gradients(self):
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
        for function, args in calls:
            with self.subTest(str(function)):
                torch.library.opcheck(function.default, args)

    def test_a_second_derivative_is_refused(self):
        case = Case()
        out, _ = ops.sparse_attention(*product_arguments(case), 1e-6)
        (grad,) = torch.autograd.grad(out.sum(), case.q, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "derivative for topomask::sparse_attention_backward is not implemented"):
            grad.sum().backward()


class Library(unittest.TestCase):
    def test_has_the_table_by_which_errors_walk_the_stack(self):
        """Where an error is raised in Python, torch crashes without it, and not every compiler asks its linker for it."""
        elf = topomask.library_path().read_bytes()
        (start,), (size, count) = struct.unpack_from("<Q", elf, 32), struct.unpack_from("<HH", elf, 54)
        kinds = [struct.unpack_from("<I", elf, start + i * size)[0] for i in range(count)]
        self.assertIn(0x6474E550, kinds)  # PT_GNU_EH_FRAME

    def test_has_no_cpp_library_of_its_own(self):
        """An error that one of them throws is not one that the other knows: Python would crash."""
        self.assertIn(b"\0libstdc++.so.6\0", topomask.library_path().read_bytes())


class Tiles(unittest.TestCase):
    def entries(self, tiles, rows):
        """(row, column) of every bit, in the order of each row."""
        count = (rows + 15) // 16
        starts, chunks = tiles[: count + 1].tolist(), tiles[(count + 4) // 4 * 4 :].view(-1, 24).tolist()
        self.assertEqual((starts[0], starts[-1]), (0, len(chunks)))
        for row in range(rows):
            g, half = row % 16 % 8, row % 16 // 8
            for chunk in chunks[starts[row // 16] : starts[row // 16 + 1]]:
                for number in range(16):
                    t, block, j = number // 4, number // 2 % 2, number % 2
                    if chunk[16 + g] >> (16 * half + number) & 1:
                        yield row, chunk[8 * block + 2 * t + j]

    def test_hold_every_entry_in_its_order(self):
        for rows, cols, density in ((37, 90, 0.3), (5, 3, 0.5), (16, 200, 0.9), (40, 40, 0.0), (33, 1, 0.7), (0, 5, 0.5)):
            with self.subTest(rows=rows, cols=cols):
                dense = torch.rand(rows, cols, generator=torch.Generator().manual_seed(rows)) < density
                dense[3:4] = False
                tiles = ops.row_tiles(list(pattern_tensors(dense)[:2]))
                self.assertEqual(list(self.entries(tiles, rows)), [tuple(entry) for entry in dense.nonzero().tolist()])

    def test_leave_long_rows_out(self):
        dense = torch.zeros(100, 3000, dtype=torch.bool)
        dense[:, 7], dense[2], dense[18] = True, True, True
        found = list(self.entries(ops.row_tiles(list(pattern_tensors(dense)[:2])), 100))
        self.assertEqual(found, [(row, 7) for row in range(100) if row not in (2, 18)])

    def test_change_nothing_on_the_cpu(self):
        case = Case(dtype=torch.bfloat16)
        for function, rule in ((ops.sparse_attention, (1e-6,)), (ops.sparse_softmax_attention, (0.5, 1e-6))):
            with_tiles, without = (function(*product_arguments(case, tiles), *rule) for tiles in (tiles_of(case), ()))
            for a, e in zip(with_tiles, without):
                self.assertTrue(torch.equal(a, e))


class Walks(unittest.TestCase):
    def test_sampling_is_registered(self):
        for coupling in ("independent", "antithetic", "repelling", "antithetic_repelling"):
            table = walk_table(walkers=4, coupling=coupling, group_products=True)
            self.assertEqual([t.dtype for t in table[:5]],
                             [torch.int64, torch.int32, torch.int16, torch.float64, torch.int32])
            self.assertEqual(table[9].shape, (len(table[10]), 2))
        self.assertEqual(walk_table()[9].shape, (0, 2))

    def test_opcheck_of_sampling(self):
        for dtype, group_products in itertools.product((torch.float32, torch.float64), (False, True)):
            with self.subTest(dtype=dtype, group_products=group_products):
                torch.library.opcheck(ops.sample_walks.default, (*PATH, torch.ones(6, dtype=dtype)),
                                      {"walkers": 2, "group_products": group_products})

    def test_opcheck_of_what_depends_on_data(self):
        pattern = list(pattern_tensors(torch.rand(7, 5, generator=torch.Generator().manual_seed(2)) < 0.4))
        torch.library.opcheck(ops.product_pattern.default, (pattern, pattern))
        torch.library.opcheck(ops.row_tiles.default, (pattern[:2],))
        torch.library.opcheck(ops.nearest_neighbours.default, (torch.rand(9, 3, dtype=torch.float64), 2))
        clouds = torch.rand(2, 9, 3, dtype=torch.float64)
        torch.library.opcheck(ops.nearest_points.default, (clouds, clouds, 2, True))

    def test_sampling_and_features_compile_in_one_graph(self):
        def features(f, weights):
            _, _, hops, loads, _, _, columns, feature_offsets, *_ = ops.sample_walks(*PATH, weights, walkers=3, seed=7)
            return ops.walk_features(f, hops, loads, feature_offsets, 1 / 3), columns

        f, weights = torch.rand(2, 4, requires_grad=True), torch.full((6,), 0.4)
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            torch._dynamo.reset()
            compiled = torch.compile(features, fullgraph=True, backend="aot_eager")(f, weights)
        for want, got in zip(features(f, weights), compiled):
            torch.testing.assert_close(got, want)

    def test_same_seed_same_walks(self):
        for first, second in zip(walk_table(), walk_table()):
            torch.testing.assert_close(first, second, rtol=0, atol=0)
        self.assertFalse(torch.equal(walk_table(seed=8, walkers=50)[1], walk_table(walkers=50)[1]))

    def test_unknown_names_are_refused(self):
        for argument, text in (("coupling", "independent, antithetic, repelling or antithetic_repelling"),
                               ("proposal", "uniform, weights or given")):
            with self.assertRaisesRegex(RuntimeError, f"sample_walks: {argument} must be {text}, got none"):
                walk_table(**{argument: "none"})

    def test_second_derivatives(self):
        args = walk_arguments()
        torch.autograd.gradgradcheck(lambda f: ops.walk_features(f, *args[1:]).pow(3), args[:1])


class SeparateArguments(unittest.TestCase):
    """The tensors of a pattern as arguments of their own: how the operators were called before they took a list."""

    def test_the_old_form_gives_the_same(self):
        case = Case(dtype=torch.float32)
        *nodes, pattern = product_arguments(case)
        left = factored_case(dtype=torch.float32)
        for name, new, old in (
            ("spmm", (case.values, case.x, pattern), (case.values, case.x, *pattern)),
            ("spmm_transposed", (case.values, case.y, pattern), (case.values, case.y, *pattern)),
            ("sddmm", (case.y, case.x, pattern[:2], 2), (case.y, case.x, *pattern[:2], 2)),
            ("sparse_attention", (*nodes, pattern, 1e-6), (*nodes, *pattern, 1e-6)),
            ("sparse_softmax_attention", (*nodes, pattern, 0.5, 1e-6), (*nodes, *pattern, 0.5, 1e-6)),
            ("factored_product", left, (*left[:4], *left[4], left[5], *left[6])),
        ):
            with self.subTest(name):
                function = getattr(ops, name)
                torch.testing.assert_close(outputs_of(function(*old)), outputs_of(function(*new)), rtol=0, atol=0)

    def test_the_new_form_is_found_without_printing_tensors(self):
        """An overload that does not match is refused with a text that holds every argument; on a GPU that waits, and no CUDA graph
        can be captured. So the overload that is called from now on must be the first."""
        case = Case(dtype=torch.float32)
        nodes, pattern = product_arguments(case)[:-1], product_arguments(case)[-1]
        left = factored_case(dtype=torch.float32)
        with unittest.mock.patch.object(torch.Tensor, "__repr__", side_effect=AssertionError("a tensor was printed")):
            ops.spmm(case.values, case.x, pattern)
            ops.spmm_transposed(case.values, case.y, pattern)
            ops.sddmm(case.y, case.x, pattern[:2], 2)
            ops.sparse_attention(*nodes, pattern, 1e-6)
            ops.sparse_softmax_attention(*nodes, pattern, 0.5, 1e-6)
            ops.factored_product(*left)


class Gradients(unittest.TestCase):
    def test_gradcheck_in_double(self):
        for name, function, args in differentiable_calls():
            with self.subTest(name):
                torch.autograd.gradcheck(differentiable_part(function), args, fast_mode=False)


    def test_kept_scores_change_nothing(self):
        case = Case(dtype=torch.float32)
        for softmax in (False, True):
            results = []
            for keep in (False, True):
                out, _, _, scores = ops.sparse_attention_forward(*product_arguments(case), softmax, 0.5, 1e-6, keep)
                self.assertEqual(tuple(scores.shape), (2, 2, len(case.pattern[1])) if keep else (0,))
                results.append((out, *torch.autograd.grad(out.square().sum(), (case.q, case.k, case.v, case.values))))
            torch.testing.assert_close(*results, rtol=0, atol=0)


class Compile(unittest.TestCase):
    def compare(self, function, args, backend):
        def run(call):
            leaves = [a.detach().clone().requires_grad_(a.requires_grad) if torch.is_tensor(a) else a for a in args]
            out = outputs_of(call(*leaves))
            sum((o * o).sum() for o in out if o.requires_grad).backward()
            grads = [a.grad for a in leaves if torch.is_tensor(a) and a.requires_grad]
            return list(out) + grads

        torch._dynamo.reset()
        # Something around the operator, so that there is a graph.
        wrapped = lambda *a: tuple(o * 2 for o in outputs_of(function(a[0] * 0.5, *a[1:])))
        expected = run(wrapped)
        actual = run(torch.compile(wrapped, fullgraph=True, backend=backend))
        self.assertEqual(len(expected), len(actual))
        for want, got in zip(expected, actual):
            torch.testing.assert_close(got, want)

    def test_aot_eager_agrees_with_eager(self):
        for name, function, args in differentiable_calls(dtype=torch.float32):
            with self.subTest(name):
                self.compare(function, args, "aot_eager")

    def test_inductor_agrees_with_eager(self):
        case = Case(dtype=torch.float32)
        # A cached graph calls the operators as they were when it was compiled.
        with torch._inductor.config.patch(force_disable_caches=True):
            self.compare(ops.sparse_attention, (*product_arguments(case), 1e-6), "inductor")


class Autocast(unittest.TestCase):
    def test_nodes_take_the_autocast_dtype_and_values_stay_float32(self):
        case = Case(dtype=torch.float32, requires_grad=False)
        low = [t.bfloat16() for t in (case.q, case.k, case.v)]
        rest = (case.values, list(case.pattern))
        factored = factored_case(dtype=torch.float32, requires_grad=False)
        low_factored = [t.bfloat16() for t in factored[:3]] + list(factored[3:])
        expected = [
            ops.sparse_attention(*low, *rest, 1e-6),
            ops.sparse_softmax_attention(*low, *rest, 0.5, 1e-6),
            ops.factored_product(*low_factored),
        ]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            actual = [
                ops.sparse_attention(case.q, case.k, case.v, *rest, 1e-6),
                ops.sparse_softmax_attention(case.q, case.k, case.v, *rest, 0.5, 1e-6),
                ops.factored_product(*factored),
            ]
        self.assertEqual(actual[0][0].dtype, torch.bfloat16)
        self.assertEqual(actual[2][0].dtype, torch.float32)
        for want, got in zip(expected, actual):
            torch.testing.assert_close(got, want, rtol=0, atol=0)

    def test_float64_is_left_alone(self):
        case = Case(requires_grad=False)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out, _ = ops.sparse_attention(*product_arguments(case), 1e-6)
        self.assertEqual(out.dtype, torch.float64)


if __name__ == "__main__":
    unittest.main()
