"""Padded batches in models of transformers: what is hidden is not there."""

import copy
import unittest

import torch
from support import Case, needs, tm
from test_hf import MODERN_BERT, NO_DROPOUT, SIZES, text_model
from topomask._padding import padded_attention

KINDS = ("softmax", "additive", "kernel")
TOKENS = 16


def masks():
    """Masks by the routes that they take, over 16 tokens and three heads, with what learns in them."""
    generator = torch.Generator().manual_seed(3)

    def values(*shape):
        return torch.rand(shape, generator=generator, dtype=torch.float64) + 0.1

    line = tm.Graph.path(TOKENS)
    return {
        "none": (tm.NoneMask(TOKENS), ("operator", "dense")),
        "dense": (tm.DenseMask(values(3, TOKENS, TOKENS)), ("dense", "fused")),
        "power": (tm.PowerSeriesMask(line, values(3, 3)).double(), ("sparse", "operator", "dense")),
        "grf": (tm.GRFMask(line, heads=3, walkers=4).double(), ("sparse", "features", "operator")),
        "toeplitz": (tm.ToeplitzMask([TOKENS], values(3, 2 * TOKENS - 1)), ("fused", "operator", "dense")),
    }


def definition(q, k, v, matrix, kind, scale=None):
    if kind == "kernel":
        weights = matrix * (q.relu() @ k.relu().mT)
    else:
        scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
        weights = matrix * (scores - scores.amax(-1, keepdim=True)).exp() if kind == "softmax" else (scores + matrix).softmax(-1)
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-6) @ v


def rows(dtype=torch.float64):
    generator = torch.Generator().manual_seed(4)
    return [torch.randn(2, 3, TOKENS, 5, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for _ in range(3)]


def hidden_tokens():
    """Padding after the tokens and before them."""
    hidden = torch.zeros(2, TOKENS, dtype=torch.bool)
    hidden[0, 11:] = True
    hidden[1, :3] = True
    return hidden


class PaddedAttention(Case):
    """Compared with the definition over the tokens that are left: outputs and all gradients, by every route."""

    def want(self, inputs, matrix, hidden, kind, upstream):
        out = torch.zeros_like(inputs[2])
        for b, padded in enumerate(hidden):
            left = (~padded).nonzero().squeeze(-1)
            heads = matrix.expand(3, TOKENS, TOKENS)
            small = definition(*(x[b][:, left] for x in inputs), heads[:, left][:, :, left], kind)
            out = out.index_put((torch.tensor(b), torch.arange(3)[:, None], left), small)
        return out, (out * upstream).sum()

    def test_every_route_and_kind(self):
        from topomask import _padding

        hidden, inputs = hidden_tokens(), rows()
        upstream = torch.rand(2, 3, TOKENS, 5, dtype=torch.float64)
        for name, (mask, routes) in masks().items():
            for kind in KINDS:
                parameters = [*inputs, *mask.parameters()]
                want, loss = self.want(inputs, mask.dense().double(), hidden, kind, upstream)
                wanted = torch.autograd.grad(loss, parameters, allow_unused=True)
                taken = [
                    "automatic",
                    *(r for r in routes if kind == "kernel" or r in ("dense", "fused") or r == "sparse" and kind == "softmax"),
                ]
                for route in taken:
                    with self.subTest(mask=name, kind=kind, route=route):
                        originals = _padding.attention, _padding.softmax_attention
                        try:
                            _padding.attention = lambda *a, route=route, o=originals[0], **b: o(*a, **b, route=route)
                            _padding.softmax_attention = lambda *a, route=route, o=originals[1], **b: o(*a, **b, route=route)
                            got = padded_attention(*inputs, mask, hidden, kind=kind)
                        finally:
                            _padding.attention, _padding.softmax_attention = originals
                        self.close(got, want)
                        self.assertEqual(float(got.detach().masked_select(hidden[:, None, :, None]).abs().sum()), 0.0)
                        for mine, theirs in zip(torch.autograd.grad((got * upstream).sum(), parameters), wanted, strict=True):
                            self.close(mine, theirs, 1e-9)

    def test_nothing_leaks(self):
        """Bit for bit, whatever the hidden tokens hold."""
        hidden = hidden_tokens()
        where = hidden[:, None, :, None]
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            for name, (mask, _) in masks().items():
                mask = mask if dtype == torch.float64 else mask.float()
                for kind in KINDS:
                    with self.subTest(mask=name, kind=kind, dtype=dtype):
                        inputs = [x.detach() for x in rows(dtype)]
                        want = padded_attention(*inputs, mask, hidden, kind=kind)
                        for filling in (100.0, float("nan"), float("inf")):
                            other = [x.masked_fill(where, filling).requires_grad_() for x in inputs]
                            got = padded_attention(*other, mask, hidden, kind=kind)
                            self.assertTrue(torch.equal(got, want))
                            for gradient in torch.autograd.grad(got.double().square().sum(), other):
                                self.assertTrue(gradient.isfinite().all())
                                self.assertEqual(float(gradient.masked_select(where).abs().sum()), 0.0)

    def test_nothing_leaks_through_features_that_overflow(self):
        """exp(100) is infinite in float32; a sequence of padding alone among others."""
        hidden = torch.cat([hidden_tokens(), torch.ones(1, TOKENS, dtype=torch.bool)])
        where = hidden[:, None, :, None]
        for features in ("relu", "exp", "elu", tm.FeatureMap.favor(5, 8), lambda x: 1 / x.square()):
            for name, (mask, _) in masks().items():
                with self.subTest(mask=name, features=features):
                    inputs = [torch.cat([x, x[:1]]).detach().float() for x in rows()]
                    found = []
                    for filling in (0.5, 100.0, float("nan"), float("inf")):
                        other = [x.masked_fill(where, filling).requires_grad_() for x in inputs]
                        out = padded_attention(*other, copy.deepcopy(mask).float(), hidden, kind="kernel", features=features)
                        found.append([out, *torch.autograd.grad(out.square().sum(), other)])
                    sequences = 2 if callable(features) else 3  # a function that is infinite at 0 has no token to take instead
                    for got, want in zip((x for one in found[1:] for x in one), 3 * found[0]):
                        self.assertTrue(want[:sequences].isfinite().all())
                        self.assertTrue(torch.equal(got[:sequences], want[:sequences]))

    def test_rows_without_a_visible_key(self):
        """A sequence of padding alone, and a token whose neighbours are all hidden."""
        edges = torch.tensor([[0, 1, 2, 2], [1, 0, 2, 0]])
        mask = tm.SparseMask(edges, heads=3, num_nodes=3).double()
        q, k, v = (torch.rand(2, 3, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
        hidden = torch.tensor([[False, True, False], [True, True, True]])
        for kind in ("softmax", "kernel"):
            out = padded_attention(q, k, v, mask, hidden, kind=kind)
            self.assertEqual(float(out[0, :, :2].abs().sum() + out[1].abs().sum()), 0.0)
            self.assertGreater(float(out[0, :, 2].detach().abs().min()), 0.0)
            for gradient in torch.autograd.grad(out.sum(), [q, k, v, mask.values]):
                self.assertTrue(gradient.isfinite().all())

    def test_stabilised_features_subtract_the_largest_of_visible_keys(self):
        features = tm.FeatureMap.favor(5, 16, stabilised=True)
        q, k, v = (x.detach().float() for x in rows())
        k = k - 30  # exponents of −1000 that are equal to within a few
        hidden = hidden_tokens()
        mask = tm.NoneMask(TOKENS)
        got = padded_attention(q, k, v, mask, hidden, kind="kernel", features=features)
        for b in range(2):
            left = (~hidden[b]).nonzero().squeeze(-1)
            want = tm.attention(*(x[b : b + 1, :, left] for x in (q, k, v)), tm.NoneMask(len(left)), features=features)
            self.close(got[b : b + 1, :, left], want, 1e-4)


@unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
class PaddedOnGPU(Case):
    def test_beside_the_cpu(self):
        hidden = hidden_tokens()
        for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 5e-2), (torch.float16, 1e-2)):
            for name, (mask, _) in masks().items():
                for kind in KINDS:
                    with self.subTest(mask=name, kind=kind, dtype=dtype):
                        inputs = [x.detach() for x in rows(dtype)]
                        want = padded_attention(*(x.double() for x in inputs), mask, hidden, kind=kind)
                        narrow = copy.deepcopy(mask).float().cuda()
                        there = [x.cuda().requires_grad_() for x in inputs]
                        got = padded_attention(*there, narrow, hidden.cuda(), kind=kind)
                        self.close(got.cpu(), want.detach(), tolerance)
                        for gradient in torch.autograd.grad(got.float().square().sum(), there):
                            self.assertTrue(gradient.isfinite().all())
                            self.assertEqual(float(gradient.cpu().masked_select(hidden[:, None, :, None]).abs().sum()), 0.0)
                        other = [x.masked_fill(hidden.cuda()[:, None, :, None], 100.0) for x in there]
                        self.assertTrue(torch.equal(padded_attention(*other, narrow, hidden.cuda(), kind=kind), got))


@needs("transformers")
class PaddedModels(Case):
    def batch(self):
        padding = torch.ones(2, 16, dtype=torch.long)
        padding[0, 11:] = 0
        return padding

    def test_a_mask_of_ones_is_the_models_own_attention(self):
        for name, options in (
            ("Bert", SIZES),
            ("Roberta", SIZES),
            ("Electra", SIZES),
            ("ModernBert", {**SIZES, **MODERN_BERT}),
            ("Albert", {**SIZES, "embedding_size": 24}),
            ("DistilBert", {"dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 48}),
        ):
            with self.subTest(model=name):
                model, (tokens,), _ = text_model(name, **options)
                padding, want = self.batch(), {}
                tm.hf.register(tm.NoneMask(16), "topomask_ones")
                for implementation in ("sdpa", "topomask_ones"):
                    model.set_attn_implementation(implementation)
                    out = model(tokens, attention_mask=padding).last_hidden_state
                    loss = (out * padding[..., None]).square().sum()
                    parameters = list(model.parameters())
                    want[implementation] = out[padding.bool()], torch.autograd.grad(loss, parameters, allow_unused=True)
                self.close(want["topomask_ones"][0], want["sdpa"][0])
                for got, wanted in zip(want["topomask_ones"][1], want["sdpa"][1], strict=True):
                    if wanted is not None:
                        self.assertLess(float((got - wanted).abs().max()), 1e-8 * max(1.0, float(wanted.abs().max())))

    def test_padded_and_alone(self):
        """A short sentence alone, with the mask of its length, and padded in a batch; other padding tokens change nothing."""
        model, (tokens,), _ = text_model("Bert", **SIZES, **NO_DROPOUT)
        offsets = torch.rand(3, 31, dtype=torch.float64) + 0.1
        for kind in KINDS:
            with self.subTest(kind=kind):
                tm.hf.register(tm.ToeplitzMask([16], offsets), "topomask_padded", kind=kind)
                tm.hf.register(tm.ToeplitzMask([11], offsets[:, 5:-5]), "topomask_alone", kind=kind)
                model.set_attn_implementation("topomask_padded")
                out = model(tokens, attention_mask=self.batch()).last_hidden_state
                other = torch.where(self.batch().bool(), tokens, 0)
                self.assertTrue(torch.equal(model(other, attention_mask=self.batch()).last_hidden_state[0, :11], out[0, :11]))
                self.close(model(tokens).last_hidden_state[1], out[1])
                model.set_attn_implementation("topomask_alone")
                self.close(model(tokens[:1, :11]).last_hidden_state, out[:1, :11])

    def test_compiled(self):
        for kind in ("softmax", "kernel"):
            model, (tokens,), _ = text_model("Bert", **SIZES, **NO_DROPOUT)
            mask = tm.PowerSeriesMask(tm.Graph.path(16), heads=3).double()
            tm.hf.register(mask, "topomask_compiled_padding", model=model, kind=kind)
            model.set_attn_implementation("topomask_compiled_padding")
            compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
            full = torch.ones(2, 16, dtype=torch.long)
            for padding in (self.batch(), full):
                with self.subTest(kind=kind):
                    out = compiled(tokens, attention_mask=padding).last_hidden_state
                    self.close(out, model(tokens, attention_mask=padding).last_hidden_state)
                    (got,) = torch.autograd.grad(out.square().sum(), mask.alpha)
                    out = model(tokens, attention_mask=padding).last_hidden_state
                    self.close(got, torch.autograd.grad(out.square().sum(), mask.alpha)[0])


if __name__ == "__main__":
    unittest.main()
