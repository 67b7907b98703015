"""torch.compile without graph breaks, forward and backward, for every family; with inductor where TOPOMASK_INDUCTOR is set."""

import copy
import os
import unittest

import torch
from families import NODES, NOT_COMPILED, families, random
from support import Case, tm

BACKEND = "inductor" if os.environ.get("TOPOMASK_INDUCTOR") else "aot_eager"
AS_TENSORS = {
    "none",
    "sparse",
    "sparse in the user's order",
    "neighbours",
    "power series",
    "grf",
    "grf, one head",
    "grf, asymmetric",
    "ad hoc",
}


def inputs():
    return [random(3, 2, NODES, 4).roll(shift, -2).requires_grad_() for shift in (0, 1, 2)]


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
        for name in ("sparse", "grf", "power series", "dense", "toeplitz"):
            with self.subTest(name=name):
                torch._dynamo.reset()
                self.same(lambda q, k, v, m=masks[name]: tm.softmax_attention(q, k, v, m), masks[name])
        additive = masks["shortest path"]
        self.same(lambda q, k, v: tm.softmax_attention(q, k, v, additive, mode="additive"), additive)

    def test_a_route_asked_by_name(self):
        mask = families()["grf"]
        for route in ("dense", "sparse", "features", "operator"):
            with self.subTest(route=route):
                torch._dynamo.reset()
                self.same(lambda q, k, v, route=route: tm.attention(q, k, v, mask, route=route), mask, 1e-8)

    def test_the_features_route_is_operators_too(self):
        mask = families()["grf"]
        mask._route = "features"
        mask._form = mask._traced_form()
        self.assertEqual(type(mask._form).__name__, "WalkedFeatures")
        self.same(lambda q, k, v: tm.attention(q, k, v, mask), mask, 1e-8)

    def test_the_operator_of_any_mask_is_registered_in_full(self):
        for name in ("causal", "none"):  # opcheck copies parameters, and copies are not those of the mask
            mask = families()[name]
            q, k, v = inputs()
            parameters = list(mask.parameters())
            for what, given in (("attention", [q, k, v]), ("matmul", [q])):
                arguments = ([*given, *parameters], len(given), mask._number, what, "automatic", None, 1e-6, 1 << 32)
                torch.library.opcheck(tm.ops.apply_mask.default, arguments)

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
        mask = tm.toeplitz_mask([5, 6], random(9, 11))
        q, k, v = inputs()
        compiled = torch.compile(lambda q, k, v: tm.attention(q, k, v, mask), fullgraph=True, backend=BACKEND)
        with self.assertRaisesRegex(Exception, "mask.prepare\\(\\) does so"):
            compiled(q, k, v)
        mask.prepare()
        torch._dynamo.reset()
        self.close(compiled(q, k, v), tm.attention(q, k, v, mask))

    def test_parameters_that_were_replaced_are_noticed(self):
        mask = families()["toeplitz"]
        q, k, v = inputs()
        compiled = torch.compile(lambda q, k, v: tm.attention(q, k, v, mask), fullgraph=True, backend=BACKEND)
        compiled(q, k, v)
        mask.offsets = torch.nn.Parameter(mask.offsets.detach() * 2)
        with self.assertRaisesRegex(Exception, "were replaced"):
            compiled(q, k, v)
        mask.prepare()
        self.close(compiled(q, k, v), tm.attention(q, k, v, mask))


if __name__ == "__main__":
    unittest.main()
