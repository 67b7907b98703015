"""The registered operators as Python sees them: opcheck, gradcheck, torch.compile and autocast.

Values are held against dense formulas in tests/sparse; here it is registration that is tested: schema, meta kernel, autograd,
tracing. test_structure_ops.py has those that make walks, patterns and tiles.
"""

import unittest
import unittest.mock

import torch
from op_cases import (
    Case,
    backward_calls,
    differentiable_calls,
    differentiable_part,
    factored_case,
    fused_calls,
    ops,
    outputs_of,
    product_arguments,
    structure_calls,
)


class Registration(unittest.TestCase):
    def test_opcheck_of_every_differentiable_operator(self):
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            for name, function, args in differentiable_calls(dtype=dtype):
                with self.subTest(name, dtype=dtype):
                    torch.library.opcheck(function.default, args)

    def test_opcheck_of_operators_without_gradients(self):
        for function, args in backward_calls():
            with self.subTest(str(function)):
                torch.library.opcheck(function.default, args)

    def test_opcheck_of_fused_attention(self):
        for dtype in (torch.float64, torch.bfloat16):
            for function, args in fused_calls(dtype=dtype):
                with self.subTest(kind=args[6], dtype=dtype):
                    torch.library.opcheck(function.default, args)

    def test_every_operator_is_checked(self):
        """Or is in a list here with the reason. package/test_opcheck.py checks every call that tests of the package make, too."""
        of_masks = {"apply_mask", "apply_mask_backward"}  # package/test_compile.py, which has masks
        # Composed of torch's collectives, whose own schemas opcheck refuses: a single rank gets its input back.
        # dist/test_exchange.py compares them, and their gradients, with those of the package.
        of_ranks = {"halo_exchange", "start_halo_exchange", "sum_over_ranks"}
        # No kernel here. tests/cuda and tests/ops compare them with what the CPU computes; opcheck has not run on them.
        of_a_gpu = {"gram_places", "placed_gram", "placed_gram_backward", "walk_table", "walk_visits", "hankel", "hankel_gradient_"}
        of_a_gpu |= {"low_rank_level_", "tree_passes", "tree_row_sums", "tree_spread_"}

        def runs_here(schema):
            keys = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
            return any(torch._C._dispatch_has_kernel_for_dispatch_key(schema.name, key) for key in keys)

        schemas = [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("topomask::")]
        names = {
            runs: {s.name.split("::")[1] for s in schemas if not s.overload_name and runs_here(s) == runs} for runs in (True, False)
        }
        calls = [*(call[1:] for call in differentiable_calls()), *backward_calls(), *fused_calls(), *structure_calls()]
        checked = {function.__name__.split(".")[-1] for function, *_ in calls}
        self.assertEqual(names[True] - of_masks - of_ranks, checked)
        self.assertEqual(names[False], of_a_gpu)

    def test_a_second_derivative_is_refused(self):
        case = Case()
        out, _ = ops.sparse_attention(*product_arguments(case), 1e-6)
        (grad,) = torch.autograd.grad(out.sum(), case.q, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "derivative for topomask::sparse_attention_backward is not implemented"):
            grad.sum().backward()


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
        """An overload that does not match is refused with a message that prints every argument; on a GPU that synchronises, and no
        CUDA graph can be captured. So the overload that is called from now on must be the first."""
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
