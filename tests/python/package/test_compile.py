"""torch.compile without graph breaks, forward and backward, for every family; with inductor where TOPOMASK_INDUCTOR is set."""

import copy
import os
import unittest
import unittest.mock

import torch
from families import NODES, NOT_COMPILED, Ring, families, random
from support import Case, tm
from topomask import _traced as traced
from topomask._traced import How
from torch.utils._python_dispatch import TorchDispatchMode

BACKEND = "inductor" if os.environ.get("TOPOMASK_INDUCTOR") else "aot_eager"
AS_TENSORS = {
    "none",
    "causal",
    "dense",
    "sparse",
    "sparse in the user's order",
    "neighbours",
    "power series",
    "grf",
    "grf, one head",
    "grf, asymmetric",
    "ad hoc",
    "global tokens",
    "toeplitz",
    "toeplitz, causal",
    "shortest path",
}


def inputs():
    return [random(3, 2, NODES, 4).roll(shift, -2).requires_grad_() for shift in (0, 1, 2)]


class Products(TorchDispatchMode):
    """The dtypes of products of matrices."""

    def __init__(self):
        super().__init__()
        self.dtypes = set()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.bmm, torch.ops.aten.addmm, torch.ops.aten.baddbmm):
            self.dtypes |= {x.dtype for x in arguments if isinstance(x, torch.Tensor)}
        return function(*arguments, **(options or {}))


class Compile(Case):
    def setUp(self):
        torch._dynamo.reset()

    def same(self, function, mask, tolerance=1e-9):
        """Outputs and gradients of a function of q, k, v, compiled and not."""
        q, k, v = inputs()
        results = []
        for run in (function, torch.compile(function, fullgraph=True, backend=BACKEND)):
            out = run(q, k, v)
            grads = torch.autograd.grad(out, [q, k, v, *mask.parameters()], random(*out.shape), allow_unused=True)
            results.append([out, *(g for g in grads if g is not None)])
        for eager, compiled in zip(*results):
            self.close(compiled, eager, tolerance)

    def test_attention_of_every_family(self):
        for name, mask in families().items():
            if name in NOT_COMPILED:
                continue
            with self.subTest(name=name):
                torch._dynamo.reset()
                self.same(lambda q, k, v, mask=mask: tm.attention(q, k, v, mask), mask)

    def test_these_are_tensors_and_operators_only(self):
        for name, mask in families().items():
            self.assertEqual(getattr(mask, "_form", None) is not None, name in AS_TENSORS, name)

    def test_softmax_attention(self):
        masks = families()
        for name in ("none", "causal", "sparse", "grf", "power series", "dense", "global tokens", "toeplitz", "toeplitz, causal"):
            with self.subTest(name=name):
                torch._dynamo.reset()
                self.same(lambda q, k, v, m=masks[name]: tm.softmax_attention(q, k, v, m), masks[name])
        for name in ("none", "causal", "dense", "shortest path", "toeplitz"):
            torch._dynamo.reset()
            self.same(lambda q, k, v, m=masks[name]: tm.softmax_attention(q, k, v, m, mode="additive"), masks[name])

    def test_a_route_asked_by_name(self):
        mask = families()["grf"]
        for route in ("dense", "sparse", "features", "operator"):
            with self.subTest(route=route):
                torch._dynamo.reset()
                self.same(lambda q, k, v, route=route: tm.attention(q, k, v, mask, route=route), mask, 1e-8)

    def test_the_features_route_is_operators_too(self):
        mask = families()["grf"]
        mask._form = mask._traced_form("features")
        self.assertEqual(type(mask._form.forms[0]).__name__, "WalkedFeatures")
        self.same(lambda q, k, v: tm.attention(q, k, v, mask), mask, 1e-8)

    def test_forms_that_other_sizes_are_planned_for(self):
        masks = families()
        for name, mask, route, kind in (
            ("causal", masks["causal"], "operator", "Choice"),
            ("global tokens", masks["global tokens"], "features", "Choice"),
            (
                "two tokens",
                tm.GlobalTokens(tm.GlobalTokens(tm.GRFMask(tm.Graph.path(28).to(torch.float64), heads=2))),
                "features",
                "",
            ),
            ("tokens around dense", tm.GlobalTokens(tm.DenseMask(random(28, 28)), 2), "fused", "MatrixTiles"),
            ("tokens around toeplitz", tm.GlobalTokens(tm.GlobalTokens(tm.ToeplitzMask([4, 7]).double())), "fused", "OffsetTiles"),
            (
                "tokens around a function",
                tm.GlobalTokens(tm.GlobalTokens(tm.toeplitz_mask([4, 7], random(2, 7, 13).requires_grad_()))),
                "fused",
                "OffsetTiles",
            ),
            ("tokens around none", tm.GlobalTokens(tm.NoneMask(28), 2), "features", "Choice"),
            ("tokens around sparse", tm.GlobalTokens(tm.SparseMask(tm.Graph.grid(4, 7), heads=2).double(), 2), "sparse", ""),
            ("one head around causal", tm.GlobalTokens(tm.CausalMask(28), 2), "fused", "Tiles"),
            ("no tokens", tm.GlobalTokens(tm.GRFMask(tm.Graph.grid(5, 6).to(torch.float64)), 0), "sparse", ""),
            ("grf, dense", masks["grf"], "dense", "Walked"),
            ("power series, dense", masks["power series"], "fused", "Series"),
        ):
            with self.subTest(name=name):
                torch._dynamo.reset()
                mask._form = mask._traced_form(route)
                self.assertIsNotNone(mask._form)
                self.assertIn(kind, type(mask._form).__name__)
                with unittest.mock.patch("topomask._ops.apply_mask", side_effect=AssertionError):
                    self.same(lambda q, k, v, mask=mask: tm.attention(q, k, v, mask, features="elu"), mask, 1e-8)

    def test_causal_attention_over_many_chunks(self):
        for nodes in (0, 1, 63, 64, 65, 200):
            mask = tm.CausalMask(nodes)
            form = mask._traced_form("operator")
            q, k, v = (random(2, 3, nodes, width).requires_grad_() for width in (5, 5, 4))
            got = form.attention(mask, q, k, v, How("attention"))
            want = tm.attention(q, k, v, mask, features=None)
            self.close(got, want)
            if not nodes:
                continue
            cotangent = random(*got.shape)
            for a, b in zip(torch.autograd.grad(got, (q, k, v), cotangent), torch.autograd.grad(want, (q, k, v), cotangent)):
                self.assertLess(float((a - b).abs().max()), 1e-10)  # for one node those of q and k are 0

    def test_inputs_are_checked_as_in_eager_mode(self):
        masks = families()
        q = random(3, 2, NODES, 4)
        wrong = {
            "two heads": (masks["grf"], [random(4, NODES, 4)] * 3),
            "three heads": (masks["grf"], [random(2, 3, NODES, 4)] * 3),
            "none": (masks["none"], [random(2, NODES + 1, 4)] * 3),
            "causal": (masks["causal"], [random(2, NODES - 1, 4)] * 3),
            "global tokens": (masks["global tokens"], [random(2, 2, NODES + 1, 4)] * 3),
            "keys": (masks["none"], [q, random(3, 2, NODES, 5), q]),
            "values": (masks["none"], [q, q, random(3, 2, NODES + 1, 4)]),
            "dtypes": (masks["grf"], [q, q, q.float()]),
            "one dimension": (masks["none"], [random(NODES)] * 3),
            "python": (masks["python"], [random(2, NODES + 1, 4)] * 3),
        }
        if BACKEND == "aot_eager":  # float16 on the CPU: what eager mode refuses
            wrong["float16"] = (masks["none"], [q.half()] * 3)
        for name, (mask, inputs) in wrong.items():
            for attend in (tm.attention, tm.softmax_attention):
                if name == "python" and attend is tm.softmax_attention:
                    continue
                with self.subTest(name=name, attend=attend.__name__):
                    torch._dynamo.reset()
                    with self.assertRaises(ValueError) as eager:
                        attend(*inputs, mask)
                    compiled = torch.compile(lambda q, k, v, m=mask, f=attend: f(q, k, v, m), fullgraph=True, backend=BACKEND)
                    with self.assertRaises(Exception) as traced:
                        compiled(*inputs)
                    begin = str(eager.exception).split(",")[0].split(" [")[0]
                    self.assertIn(begin, str(traced.exception))

    def test_autocast_rounds_inputs_alone(self):
        """Sums over many tokens, powers of W and products of masks in Python are as wide as in eager mode."""
        nodes = 4096

        def whole(x):
            return x.abs() + 1

        class Mean(tm.Mask):
            def matmul(self, x):
                return torch.full((1, nodes), 1.0 / nodes) @ x + x

        graph = tm.Graph.grid(64, 64)
        alpha = torch.tensor([1.0, 0.3, -0.21, 0.17])
        for name, mask in {
            "none": tm.NoneMask(nodes),
            "causal": tm.CausalMask(nodes),
            "power series": tm.PowerSeriesMask(graph, alpha),
            "grf": tm.GRFMask(graph),
            "python": Mean(nodes),
        }.items():
            with self.subTest(name=name):
                torch._dynamo.reset()
                q, k, v = (random(1, nodes, 8, dtype=torch.float32).roll(shift, -2) for shift in (0, 1, 2))
                compiled = torch.compile(lambda q, k, v, m=mask: tm.attention(q, k, v, m, features=whole), backend=BACKEND)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    got, want = compiled(q, k, v), tm.attention(q, k, v, mask, features=whole)
                self.assertEqual(got.dtype, want.dtype)
                self.close(got, want, 0.01)  # the last bit of bfloat16
                with torch.autocast("cpu", dtype=torch.bfloat16), Products() as products:
                    traced.attend(mask, whole(q), whole(k), v, How("attention"))
                self.assertLessEqual(products.dtypes, {torch.float32})

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_sums_in_float16_do_not_overflow(self):
        mask = tm.NoneMask(4096)
        q, k, v = (torch.rand(1, 4096, 16, device="cuda") * 40 for _ in range(3))
        compiled = torch.compile(lambda q, k, v: tm.attention(q, k, v, mask), fullgraph=True, backend=BACKEND)
        with torch.autocast("cuda", dtype=torch.float16):
            got, want = compiled(q, k, v), tm.attention(q, k, v, mask)
        self.assertTrue(bool(got.isfinite().all()))
        self.close(got.cpu(), want.cpu(), 2e-3)

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_forms_on_a_gpu(self):
        for name, mask in families(torch.float32, device="cuda").items():
            if getattr(mask, "_form", None) is None:
                continue
            with self.subTest(name=name):
                torch._dynamo.reset()
                q, k, v = (x.detach().float().cuda() for x in inputs())
                compiled = torch.compile(lambda q, k, v, m=mask: tm.attention(q, k, v, m), fullgraph=True, backend=BACKEND)
                self.close(compiled(q, k, v).cpu(), tm.attention(q, k, v, mask).cpu(), 1e-3)

    def test_the_operator_of_any_mask_is_registered_in_full(self):
        for name in ("causal", "none"):  # opcheck copies parameters, and copies are not those of the mask
            mask = families()[name]
            q, k, v = inputs()
            parameters = list(mask.parameters())
            for what, given in (("attention", [q, k, v]), ("matmul", [q])):
                arguments = ([*given, *parameters], len(given), mask._number, what, "automatic", None, 1e-6, 1 << 32)
                torch.library.opcheck(tm.ops.apply_mask.default, arguments)
                plain = ([x.detach() for x in arguments[0]], *arguments[1:])
                grad = torch.rand_like(tm.ops.apply_mask.default(*plain))
                torch.library.opcheck(tm.ops.apply_mask_backward.default, (grad, *plain))

    def test_products(self):
        for name in ("grf", "toeplitz", "diffusion", "python"):
            mask = families()[name]
            with self.subTest(name=name):
                torch._dynamo.reset()
                self.same(lambda q, k, v, mask=mask: mask(q) + mask.matmul_transposed(k) + v, mask)

    def test_autocast_is_that_of_eager_mode(self):
        for name in ("none", "grf", "toeplitz"):
            torch._dynamo.reset()
            mask = families(torch.float32)[name]
            q, k, v = (x.detach().float() for x in inputs())
            want = tm.attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), mask)
            compiled = torch.compile(lambda q, k, v, mask=mask: tm.attention(q, k, v, mask), fullgraph=True, backend=BACKEND)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                for got in (tm.attention(q, k, v, mask), compiled(q, k, v)):
                    self.assertEqual(got.dtype, torch.bfloat16)
                    self.close(got, want, 1e-2)

    def test_a_model_trains(self):
        layer = tm.nn.Block(8, heads=2, mask=tm.GRFMask(tm.Graph.grid(5, 6), heads=2))
        other = copy.deepcopy(layer)
        compiled = torch.compile(other, fullgraph=True, backend=BACKEND)
        x = torch.rand(2, NODES, 8)
        for model, parameters in ((layer, layer.parameters()), (compiled, other.parameters())):
            optimiser = torch.optim.SGD(parameters, lr=0.1)
            for _ in range(3):
                optimiser.zero_grad()
                model(x).square().mean().backward()
                optimiser.step()
        for a, b in zip(layer.parameters(), other.parameters()):
            self.close(a, b, 1e-4)

    def test_a_mask_that_is_not_prepared_says_what_to_do(self):
        mask = tm.diffusion_mask(tm.Graph.grid(5, 6).to(torch.float64), torch.tensor(0.5, dtype=torch.float64))
        q, k, v = inputs()
        compiled = torch.compile(lambda q, k, v: tm.attention(q, k, v, mask), fullgraph=True, backend=BACKEND)
        with self.assertRaisesRegex(Exception, "mask.prepare\\(\\) does so"):
            compiled(q, k, v)
        mask.prepare()
        torch._dynamo.reset()
        self.close(compiled(q, k, v), tm.attention(q, k, v, mask))

    def test_weights_that_learn_are_those_of_now(self):
        """Outputs and gradients of edge weights, before and after steps of an optimiser in place."""
        graph, x = tm.Graph.grid(5, 6).to(torch.float64), torch.tensor(0.5, dtype=torch.float64)
        alpha = torch.tensor([1.0, 0.5, 0.2], dtype=torch.float64)
        for name, make in {
            "power series": lambda weighted: tm.PowerSeriesMask(weighted, alpha),
            "power series, basis": lambda weighted: tm.power_series_mask(tm.power_series_basis(weighted, 3), alpha),
            "power series, tokens": lambda weighted: tm.GlobalTokens(tm.PowerSeriesMask(weighted, alpha), 0),
            "diffusion": lambda weighted: tm.diffusion_mask(weighted, x),
            "weighted neighbours": lambda weighted: tm.weighted_neighbours_mask(weighted),
        }.items():
            for attend in (tm.attention, tm.softmax_attention):
                with self.subTest(name=name, attend=attend.__name__):
                    torch._dynamo.reset()
                    weights = torch.full((graph.num_entries,), 0.3, dtype=torch.float64, requires_grad=True)
                    mask = make(graph.with_weights(weights)).prepare()
                    q, k, v = inputs()
                    compiled = torch.compile(lambda q, k, v, m=mask, f=attend: f(q, k, v, m), fullgraph=True, backend=BACKEND)
                    for _ in range(3):
                        out, want = compiled(q, k, v), attend(q, k, v, make(graph.with_weights(weights)))
                        self.close(out, want, 1e-9)
                        (got,), (expected,) = (torch.autograd.grad(y.square().sum(), [weights]) for y in (out, want))
                        self.assertGreater(float(expected.abs().max()), 0)
                        self.close(got, expected, 1e-8)
                        with torch.no_grad():
                            weights.mul_(0.8)  # symmetric, as diffusion asks

    def test_walks_over_weights_that_learn(self):
        """A table of walks serves one backward pass, which reaches the weights through its loads."""
        graph = tm.Graph.grid(5, 6).to(torch.float64)
        for cls in (tm.GRFMask, tm.AsymmetricGRFMask, tm.TwoSidedGRFMask):
            with self.subTest(cls=cls.__name__):
                results = []
                for compiled in (False, True):
                    torch._dynamo.reset()
                    weights = torch.full((graph.num_entries,), 0.3, dtype=torch.float64, requires_grad=True)
                    mask = cls(graph.with_weights(weights), seed=3)
                    run = lambda q, k, v, m=mask: tm.attention(q, k, v, m)  # noqa: E731
                    out = (torch.compile(run, fullgraph=True, backend=BACKEND) if compiled else run)(*inputs())
                    results.append((out, *torch.autograd.grad(out.square().sum(), [weights, mask.f], retain_graph=compiled)))
                for eager, traced_ in zip(*results):
                    self.close(traced_, eager, 1e-8)

    def test_a_mask_that_was_frozen_is_found(self):
        """Freezing parameters makes the C++ mask again in eager mode; compiled functions find the new one."""
        for name in ("diffusion", "weighted neighbours", "tree"):
            with self.subTest(name=name):
                torch._dynamo.reset()
                mask = families()[name]
                q, k, v = inputs()
                compiled = torch.compile(lambda q, k, v, m=mask: tm.attention(q, k, v, m), fullgraph=True, backend=BACKEND)
                for learns in (True, False, True):
                    mask.requires_grad_(learns)
                    self.close(tm.attention(q, k, v, mask), compiled(q, k, v), 1e-9)

    def test_rows_too_wide_for_the_kernels_of_a_gpu_go_another_way(self):
        mask = families()["sparse"]
        q, k, v = inputs()
        for limit, form in ((4 * 8, True), (4 * 8 - 1, False)):
            with self.subTest(limit=limit):
                torch._dynamo.reset()
                mask._form.most_row_bytes = limit
                self.assertEqual(mask._form.chosen(How("attention"), q, v) is not None, form)
                compiled = torch.compile(lambda q, k, v: tm.attention(q, k, v, mask), fullgraph=True, backend=BACKEND)
                self.close(compiled(q, k, v), tm.attention(q, k, v, mask), 1e-9)

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_wide_rows_on_a_gpu(self):
        mask = tm.SparseMask(tm.Graph.grid(5, 6)).cuda()
        for width in (512, 513, 600):
            torch._dynamo.reset()
            q, k, v = (random(1, NODES, width, dtype=torch.float32).cuda() for _ in range(3))
            compiled = torch.compile(lambda q, k, v: tm.attention(q, k, v, mask), fullgraph=True, backend=BACKEND)
            self.close(compiled(q, k, v).cpu(), tm.attention(q, k, v, mask).cpu(), 1e-3)

    def test_eager_calls_of_a_mask_around_one_in_python_compile_nothing_again(self):
        mask = tm.GlobalTokens(Ring(NODES - 2), 2)
        q, k, v = inputs()
        compiled = torch.compile(lambda q, k, v: tm.attention(q, k, v, mask), fullgraph=True, backend=BACKEND)
        torch._dynamo.utils.counters.clear()
        for _ in range(3):
            results = []
            for attend in (compiled, lambda q, k, v: tm.attention(q, k, v, mask)):
                out = attend(q, k, v)
                results.append([out, *torch.autograd.grad(out.square().sum(), [q, k, v, *mask.parameters()])])
            for got, want in zip(*results):
                self.close(got, want, 1e-9)
            with torch.no_grad():
                mask.mask.a.mul_(0.8)
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)

    def test_parameters_that_were_replaced_are_noticed(self):
        mask = families()["diffusion"]
        q, k, v = inputs()
        compiled = torch.compile(lambda q, k, v: tm.attention(q, k, v, mask), fullgraph=True, backend=BACKEND)
        compiled(q, k, v)
        mask.lambda_ = torch.nn.Parameter(mask.lambda_.detach() * 2)
        with self.assertRaisesRegex(Exception, "were replaced"):
            compiled(q, k, v)
        mask.prepare()
        self.close(compiled(q, k, v), tm.attention(q, k, v, mask))


if __name__ == "__main__":
    unittest.main()
