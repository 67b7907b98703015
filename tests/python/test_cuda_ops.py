"""The operators on the GPU: held against the CPU's, opcheck, gradcheck in double, run-to-run equality, captured graphs."""

import faulthandler
import os
import sys
import unittest

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from op_cases import Case, differentiable_part, norm_arguments, ops, product_arguments, tiles_of  # noqa: E402

TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}


def to_cuda(args):
    """The same arguments on the GPU, leaves of their own."""

    def there(a):
        if isinstance(a, list):
            return [there(each) for each in a]
        return a.detach().cuda().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a

    return tuple(there(a) for a in args)


def cuda_calls(**options):
    case, tall = Case(**options), Case(rows=9, cols=5, value_heads=1, **options)
    long = Case(rows=70, cols=70, m=64, d=64, **options)
    wide = Case(rows=11, cols=11, m=130, d=201, **options)
    longer = Case(rows=40, cols=300, m=100, d=72, **options)  # rows of several chunks, one of very many
    hub = Case(rows=2500, cols=2400, m=16, d=24, density=0.002, hub=True, **options)  # a long row and a long column
    for label, c in (
        ("", case),
        ("rectangular, shared values", tall),
        ("several chunks a row", long),
        ("longer rows", longer),
        ("a hub", hub),
        ("wide", wide),
    ):
        yield f"spmm {label}", ops.spmm, (c.values, c.x, list(c.pattern))
        yield f"spmm_transposed {label}", ops.spmm_transposed, (c.values, c.y, list(c.pattern))
        for with_tiles, tiles in (("", ()), ("tiles", tiles_of(c))):
            yield f"sparse_attention {label} {with_tiles}", ops.sparse_attention, (*product_arguments(c, tiles), 1e-6)
            yield (
                f"sparse_softmax_attention {label} {with_tiles}",
                ops.sparse_softmax_attention,
                (*product_arguments(c, tiles), 0.5, 1e-6),
            )


def gradients(function, args):
    outs = differentiable_part(function)(*args)
    generator = torch.Generator().manual_seed(3)
    cotangents = [torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o) for o in outs]
    return outs, torch.autograd.grad(outs, [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad], cotangents)


class Cuda(unittest.TestCase):
    def assert_close(self, actual, expected, tolerance):
        self.assertEqual(actual.shape, expected.shape)
        if expected.numel() == 0:
            return
        actual, expected = actual.double().cpu(), expected.double().cpu()
        self.assertLessEqual(((actual - expected).abs().max() / expected.abs().max()).item(), tolerance)

    def test_outputs_and_gradients_are_those_of_the_cpu(self):
        for dtype, tolerance in TOLERANCE.items():
            # float16 is for the GPU alone: its reference is float32 over the same numbers.
            for name, function, args in cuda_calls(dtype=dtype):
                with self.subTest(name, dtype=dtype):
                    reference = args
                    if dtype in (torch.float16, torch.bfloat16):
                        reference = tuple(
                            a.detach().float().requires_grad_(a.requires_grad)
                            if isinstance(a, torch.Tensor) and a.dtype == dtype
                            else a
                            for a in args
                        )
                    expected, expected_grads = gradients(function, reference)
                    actual, actual_grads = gradients(function, to_cuda(args))
                    for a, e in zip(actual + actual_grads, expected + expected_grads):
                        self.assert_close(a, e, tolerance)

    def test_values_need_no_gradient(self):
        for dtype in (torch.float32, torch.bfloat16):
            case = Case(rows=70, cols=70, m=64, d=64, dtype=dtype)
            args = to_cuda((*product_arguments(case, tiles_of(case)), 1e-6))
            _, expected = gradients(ops.sparse_attention, args)
            _, actual = gradients(ops.sparse_attention, (*args[:3], args[3].detach(), *args[4:]))
            self.assertEqual(len(actual), 3)
            for a, e in zip(actual, expected):
                self.assertTrue(torch.equal(a, e))

    def test_gradcheck_in_double(self):
        case = Case()
        for function, args in (
            (ops.spmm, (case.values, case.x, list(case.pattern))),
            (ops.sparse_attention, (*product_arguments(case), 1e-6)),
            (ops.sparse_softmax_attention, (*product_arguments(case), 0.5, 1e-6)),
        ):
            torch.autograd.gradcheck(differentiable_part(function), to_cuda(args), nondet_tol=1e-12)

    def test_opcheck(self):
        # Tracing the backward takes seconds a call and does not look at sizes: once for each operator.
        for name, function, args in cuda_calls(dtype=torch.float32):
            with self.subTest(name):
                tests = ("test_schema", "test_faketensor")
                if " " not in name.strip():
                    tests += ("test_autograd_registration", "test_aot_dispatch_dynamic")
                torch.library.opcheck(function.default, to_cuda(args), test_utils=tests)

    def test_outputs_and_gradients_are_the_same_from_run_to_run(self):
        for dtype in (torch.float32, torch.bfloat16):
            case = Case(rows=70, cols=70, m=64, d=64, dtype=dtype)  # two slices share each head of values
            for function, args in (
                (ops.sparse_attention, (*product_arguments(case), 1e-6)),
                (ops.sparse_attention, (*product_arguments(case, tiles_of(case)), 1e-6)),
                (ops.spmm, (case.values, case.x, list(case.pattern))),
            ):
                args = to_cuda(args)
                first = gradients(function, args)
                for _ in range(5):
                    again = gradients(function, args)
                    for a, e in zip(again[0] + again[1], first[0] + first[1]):
                        self.assertTrue(torch.equal(a, e))

    def test_layer_norm_rows_is_the_cpus_and_compiles(self):
        for dtype, out, tolerance in (
            (torch.float32, torch.float32, 1e-5),
            (torch.float32, torch.bfloat16, 2e-2),
            (torch.bfloat16, torch.bfloat16, 2e-2),
            (torch.float16, torch.float16, 3e-3),
        ):
            args = norm_arguments(dtype, out=out)
            expected, actual = gradients(ops.layer_norm_rows, args), gradients(ops.layer_norm_rows, to_cuda(args))
            for a, e in zip((*actual[0], *actual[1]), (*expected[0], *expected[1])):
                self.assertEqual(a.dtype, e.dtype)
                self.assert_close(a, e, tolerance)
            torch.library.opcheck(ops.layer_norm_rows.default, to_cuda(args))

    def test_a_captured_graph_replays_forward_and_backward(self):
        for dtype in (torch.float32, torch.bfloat16):
            with self.subTest(dtype=dtype):
                self.replay(Case(rows=70, cols=70, m=64, d=64, dtype=dtype))

    def replay(self, inputs):
        case = (*product_arguments(inputs, tiles_of(inputs)), 1e-6)
        expected, expected_grads = gradients(ops.sparse_attention, to_cuda(case))
        cotangent = torch.randn(expected[0].shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(expected[0])
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):  # the leaves belong to no other stream
            args = to_cuda(case)
            leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
            torch.autograd.grad(ops.sparse_attention(*args)[0], leaves, cotangent)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                out = ops.sparse_attention(*args)[0]
                grads = torch.autograd.grad(out, leaves, cotangent)
            graph.replay()
            torch.cuda.synchronize()
        for a, e in zip((out, *grads), (*expected, *expected_grads)):
            self.assert_close(a, e, 1e-5)

    def test_rows_need_not_follow_one_another(self):
        for dtype in (torch.float32, torch.bfloat16):
            for m, d in ((64, 64), (24, 40), (5, 3)):
                case = Case(rows=70, cols=70, m=m, d=d, dtype=dtype)
                args = to_cuda((*product_arguments(case, tiles_of(case)), 1e-6))
                expected = gradients(ops.sparse_attention, args)
                # [B, N, H, C] in memory, and heads next to each other in wider rows.
                for apart in (
                    lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
                    lambda x: torch.cat([x, x], -1).transpose(1, 2).contiguous().transpose(1, 2)[..., : x.shape[-1]],
                ):
                    moved = tuple(apart(a.detach()).requires_grad_() if i < 3 else a for i, a in enumerate(args))
                    outs = differentiable_part(ops.sparse_attention)(*moved)
                    generator = torch.Generator().manual_seed(3)
                    cotangents = [apart(torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o)) for o in outs]
                    grads = torch.autograd.grad(outs, moved[:4], cotangents)
                    for a, e in zip((*outs, *grads), (*expected[0], *expected[1])):
                        self.assertTrue(torch.equal(a, e))

    def test_tiles_are_those_of_the_cpu(self):
        for rows, cols, density in ((70, 70, 0.4), (37, 900, 0.02), (2500, 2400, 0.002), (5, 3, 0.5), (33, 40, 0)):
            case = Case(rows=rows, cols=cols, density=density, hub=True)
            for offsets, columns in (case.pattern[:2], case.pattern[2:4]):
                tiles = ops.row_tiles([offsets.cuda(), columns.cuda()])
                self.assertTrue(torch.equal(tiles.cpu(), ops.row_tiles([offsets, columns])))

    def test_other_tiles_are_refused(self):
        case = Case(rows=70, cols=70, dtype=torch.bfloat16)
        *args, pattern = to_cuda(product_arguments(case))
        rows, columns = to_cuda(tiles_of(case))
        for wrong in (rows[:3], rows.float(), rows.cpu(), rows[:-1]):
            with self.assertRaisesRegex(
                (RuntimeError, ValueError),
                "tiles of pattern must be (row_tiles of 70 rows|a vector of Int on cuda)|same device|two devices",
            ):
                ops.sparse_attention(*args, [*pattern, wrong, columns], 1e-6)

    def test_rows_wider_than_a_group_holds_are_refused(self):
        args = to_cuda((*product_arguments(Case(d=257)), 1e-6))
        with self.assertRaisesRegex(RuntimeError, "q and v must have at most 256 columns of this dtype on cuda"):
            ops.sparse_attention(*args)

    def test_fused_attention_holds_no_matrix(self):
        """Toeplitz over 65 536 tokens, forward and backward with gradients to the offsets: three times inputs and outputs."""
        side, heads, width = 256, 12, 64
        line = torch.arange(side, dtype=torch.int32, device="cuda")
        codes = (line[:, None] * (2 * side - 1) + line).flatten().contiguous()
        shift = (side - 1) * (2 * side - 1) + side - 1
        offsets = torch.rand(heads, (2 * side - 1) ** 2, device="cuda").requires_grad_()
        before = torch.cuda.memory_allocated() - offsets.nbytes - codes.nbytes
        q, k, v = (torch.rand(1, heads, side * side, width, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3))
        none = torch.empty(0, device="cuda")
        torch.cuda.reset_peak_memory_stats()
        out = ops.fused_attention(q, k, v, offsets, none, codes, 2, shift, 0, 0, 1.0, 1e-6)[0]
        torch.autograd.grad(out, [q, k, v, offsets], torch.ones_like(out))
        peak = torch.cuda.max_memory_allocated() - before
        self.assertLessEqual(peak, 3 * (q.nbytes + k.nbytes + v.nbytes + out.nbytes))

    def test_mixed_devices_are_refused(self):
        args = list(to_cuda((*product_arguments(Case(dtype=torch.float32)), 1e-6)))
        args[1] = args[1].detach().cpu()
        with self.assertRaisesRegex((RuntimeError, ValueError), "k must be where q is|same device|two devices"):
            ops.sparse_attention(*args)


if __name__ == "__main__":
    faulthandler.enable()  # a crash in the library says in which test
    if not torch.cuda.is_available():
        print("no CUDA device: skipped")
        sys.exit(77)
    unittest.main()
