"""Masks of decoders of transformers: no token attends to a later one."""

import unittest

import torch
from families import Ring, families
from support import Case, needs, tm
from test_hf import NO_DROPOUT, SIZES, text_model
from topomask import hf

TOKENS = 16
ENDS = {"bos_token_id": 0, "eos_token_id": 0}
REFUSED = "mask must be causal for .*, which asks for is_causal=True, got "

# Models whose modules have is_causal=True, and one, the encoder of texts in CLIP, that gives it in the call.
DECODERS = {
    "Llama": lambda: text_model("Llama", **SIZES, num_key_value_heads=1)[:2],
    "GPT2": lambda: text_model("GPT2", n_embd=24, n_layer=2, n_head=3, n_positions=TOKENS, **ENDS)[:2],
    "OPT": lambda: text_model(
        "OPT", hidden_size=24, num_hidden_layers=2, num_attention_heads=3, ffn_dim=48, word_embed_proj_dim=24
    )[:2],
    "Bert": lambda: text_model("Bert", **SIZES, **NO_DROPOUT, is_decoder=True)[:2],
    "CLIPText": lambda: text_model("CLIPText", **SIZES, **ENDS)[:2],
}


def line(nodes=TOKENS):
    """A path on which every node attends to the one before it."""
    return tm.Graph.from_edges(nodes, list(range(1, nodes)), list(range(nodes - 1)), directed=True)


def lower(*shape):
    return (torch.rand(*shape, TOKENS, TOKENS, dtype=torch.float64) + 0.1).tril()


def excluded():
    """0 where a token may attend, −∞ at later ones, to be added."""
    return torch.full((TOKENS, TOKENS), -torch.inf, dtype=torch.float64).triu(1)


def masks():
    """Causal masks and others, over 16 tokens, with one or three heads."""
    offsets, square = torch.rand(3, 31, dtype=torch.float64) + 0.1, torch.rand(7, 7, dtype=torch.float64)
    every = torch.tril_indices(TOKENS, TOKENS)
    return {
        "causal": tm.CausalMask(TOKENS),
        "toeplitz": tm.ToeplitzMask([TOKENS], offsets, causality="row_major"),
        "toeplitz over two axes": tm.ToeplitzMask([4, 4], square, causality="row_major"),
        "toeplitz, later columns of earlier rows": tm.ToeplitzMask([4, 4], square, causality="first_axis"),
        "toeplitz, one axis": tm.ToeplitzMask([TOKENS], offsets, causality="first_axis"),
        "toeplitz, one column": tm.ToeplitzDistanceMask([TOKENS, 1], torch.ones(TOKENS), causality="first_axis"),
        "toeplitz, both ways": tm.ToeplitzMask([TOKENS], offsets),
        "sparse": tm.SparseMask(every, heads=3, num_nodes=TOKENS),
        "sparse, both ways": tm.SparseMask(every.flip(0), heads=3, num_nodes=TOKENS),
        "neighbours": tm.NeighboursMask(line()),
        "neighbours, both ways": tm.NeighboursMask(tm.Graph.path(TOKENS)),
        "power series": tm.PowerSeriesMask(line(), heads=3),
        "grf": tm.GRFMask(line()),
        "grf, asymmetric": tm.AsymmetricGRFMask(line()),
        "dense": tm.DenseMask(lower(3)),
        "dense, both ways": tm.DenseMask(torch.rand(3, TOKENS, TOKENS)),
        "per head": tm.PerHeadMask([tm.CausalMask(TOKENS), tm.DenseMask(lower())]),
        "per head, one both ways": tm.PerHeadMask([tm.CausalMask(TOKENS), tm.DenseMask(lower().T)]),
        "global tokens": tm.GlobalTokens(tm.CausalMask(TOKENS - 1)),
    }


class Found(Case):
    def test_a_mask_is_causal_where_its_matrix_is(self):
        made = {**{f"{name}, of every family": mask for name, mask in families().items()}, **masks()}
        found = set()
        for name, mask in made.items():
            with self.subTest(mask=name):
                later = mask.dense().detach().triu(1)
                self.assertEqual(hf._is_causal(mask, "softmax"), bool((later == 0).all()))
                self.assertEqual(hf._is_causal(mask, "kernel"), hf._is_causal(mask, "softmax"))
                self.assertFalse(hf._is_causal(mask, "additive"))  # where 0 is added, a token attends
                found |= {name} if hf._is_causal(mask, "softmax") else set()
        self.assertGreater(len(found), 10)
        self.assertGreater(len(made), len(found) + 10)

    def test_values_do_not_count_where_they_learn(self):
        mask = tm.ToeplitzMask([TOKENS], torch.zeros(31))
        self.assertFalse(hf._is_causal(mask, "softmax"))
        edges = torch.tensor([[0, 1], [1, 0]])
        self.assertFalse(hf._is_causal(tm.SparseMask(edges, torch.zeros(1, 2), num_nodes=2), "softmax"))

    def test_added_masks_exclude_by_minus_infinity_alone(self):
        mask = tm.DenseMask(excluded())
        self.assertTrue(hf._is_causal(mask, "additive"))
        self.assertFalse(hf._is_causal(mask, "softmax"))
        self.assertTrue(hf._is_causal(tm.PerHeadMask([mask, tm.DenseMask(excluded() + lower())]), "additive"))
        self.assertFalse(hf._is_causal(tm.PerHeadMask([mask, tm.CausalMask(TOKENS)]), "additive"))
        nearly = excluded()
        nearly[3, 7] = -1e9
        self.assertFalse(hf._is_causal(tm.DenseMask(nearly), "additive"))

    def test_values_of_dense_masks_are_looked_at_again(self):
        alone, inside = tm.DenseMask(lower()), tm.DenseMask(lower())
        heads = tm.PerHeadMask([tm.CausalMask(TOKENS), inside])
        for mask, changed in ((alone, alone), (heads, inside)):
            self.assertTrue(hf._causal(mask, "softmax"))
            with torch.no_grad():
                changed.get_parameter("matrix")[0, 5] = 1e-9
            self.assertFalse(hf._causal(mask, "softmax"))
            with torch.no_grad():
                changed.get_parameter("matrix")[0, 5] = 0
            self.assertTrue(hf._causal(mask, "softmax"))

    def test_a_mask_of_your_own_says_it(self):
        class Before(tm.Mask):
            causal = True

            def matmul(self, x):
                return x.cumsum(-2)

        self.assertTrue(hf._is_causal(Before(TOKENS), "softmax"))
        self.assertFalse(hf._is_causal(Before(TOKENS), "additive"))
        mask = Ring(TOKENS)
        self.assertFalse(hf._causal(mask, "kernel"))
        mask.causal = True
        self.assertTrue(hf._causal(mask, "kernel"))


@needs("transformers")
class Decoders(Case):
    def run_with(self, model, tokens, mask, **options):
        tm.hf.register(mask, "topomask_decoder", model=model, **options)
        model.set_attn_implementation("topomask_decoder")
        return model(tokens).last_hidden_state

    def test_a_causal_mask_of_ones_is_the_models_own_attention(self):
        ones = torch.ones(TOKENS, TOKENS, dtype=torch.float64)
        given = (
            (tm.CausalMask(TOKENS), "softmax"),
            (tm.ToeplitzMask([TOKENS], torch.ones(31, dtype=torch.float64), causality="row_major"), "softmax"),
            (tm.SparseMask(torch.tril_indices(TOKENS, TOKENS), num_nodes=TOKENS).double(), "softmax"),
            (tm.DenseMask(ones.tril()), "softmax"),
            (tm.DenseMask(excluded()), "additive"),
            (tm.PerHeadMask([tm.DenseMask(excluded()) for _ in range(3)]), "additive"),
        )
        for name, make in DECODERS.items():
            model, (tokens,) = make()
            parameters = list(model.parameters())

            def results(out, parameters=parameters):
                return [out, *torch.autograd.grad(out.square().sum(), parameters, allow_unused=True)]

            want = results(model(tokens).last_hidden_state)
            for mask, kind in given if name == "Llama" else given[:1]:
                with self.subTest(model=name, mask=mask, kind=kind):
                    for got, wanted in zip(results(self.run_with(model, tokens, mask, kind=kind)), want, strict=True):
                        self.assertEqual(got is None, wanted is None)
                        if wanted is not None:
                            self.assertLess(float((got - wanted).abs().max()), 1e-9 * max(1.0, float(wanted.abs().max())))

    def test_no_token_sees_a_later_one(self):
        made = masks()
        model, (tokens,) = DECODERS["Llama"]()
        other = tokens.clone()
        other[:, 9:] = (other[:, 9:] + 1) % 20
        for name in ("toeplitz", "toeplitz over two axes", "sparse", "power series", "grf, asymmetric", "dense", "added"):
            mask = tm.DenseMask(excluded() + lower()) if name == "added" else made[name].double()
            for kind in ("additive",) if name == "added" else ("softmax", "kernel"):
                with self.subTest(mask=name, kind=kind):
                    out = self.run_with(model, tokens, mask, kind=kind)
                    changed = model(other).last_hidden_state
                    self.close(changed[:, :9], out[:, :9])
                    self.assertFalse(torch.allclose(changed[:, 9:], out[:, 9:]))

    def test_others_are_refused(self):
        for name, make in DECODERS.items():
            with self.subTest(model=name):
                model, (tokens,) = make()
                self.refuses(ValueError, f"{REFUSED}NoneMask with kind=softmax", self.run_with, model, tokens, tm.NoneMask(TOKENS))
        made = masks()
        for name in ("toeplitz, both ways", "neighbours, both ways", "grf", "per head, one both ways", "global tokens"):
            for kind in ("softmax", "kernel"):
                with self.subTest(mask=name, kind=kind):
                    got = type(made[name]).__name__
                    text = f"got {got} with kind={kind}, by which tokens attend to later ones; .* set is_causal=False in its config"
                    self.refuses(ValueError, text, self.run_with, model, tokens, made[name], kind=kind)
        text = "got CausalMask with kind=additive, .*; where the mask is added, only a DenseMask with -inf above the diagonal is"
        self.refuses(ValueError, text, self.run_with, model, tokens, tm.CausalMask(TOKENS), kind="additive")

    def test_each_layer_and_length_has_a_mask_of_its_own(self):
        model, (tokens,) = DECODERS["Llama"]()
        layers = [tm.CausalMask(TOKENS), tm.NoneMask(TOKENS)]
        self.refuses(ValueError, f"{REFUSED}NoneMask", self.run_with, model, tokens, layers)
        self.run_with(model, tokens, layers[:1] * 2)
        tm.hf.register(lambda n: tm.CausalMask(n) if n > 4 else tm.NoneMask(n), "topomask_decoder_lengths")
        model.set_attn_implementation("topomask_decoder_lengths")
        model(tokens)
        self.refuses(ValueError, f"{REFUSED}NoneMask", model, tokens[:, :4])
        model(tokens[:, :1])  # which has no later token

    def test_values_that_change(self):
        model, (tokens,) = DECODERS["Llama"]()
        mask = tm.DenseMask(lower(3))
        out = self.run_with(model, tokens, mask)
        with torch.no_grad():
            mask.matrix[1, 2, 3] = 0.5
        self.refuses(ValueError, f"{REFUSED}DenseMask", model, tokens)
        with torch.no_grad():
            mask.matrix[1, 2, 3] = 0
        self.close(model(tokens).last_hidden_state, out)

    def test_encoders_and_decoders_that_attend_both_ways_take_any_mask(self):
        model, (tokens,), _ = text_model("Bert", **SIZES, **NO_DROPOUT)
        want = model(tokens).last_hidden_state
        self.close(self.run_with(model, tokens, tm.NoneMask(TOKENS)), want)
        for name in ("Llama", "CLIPText"):
            model, (tokens,) = DECODERS[name]()
            causal = model(tokens).last_hidden_state
            self.refuses(ValueError, REFUSED, self.run_with, model, tokens, tm.NoneMask(TOKENS))
            model.config.is_causal = False
            out = model(tokens).last_hidden_state
            self.assertFalse(torch.allclose(out, causal))
            if name == "Llama":
                model.set_attn_implementation("sdpa")
                self.close(out, model(tokens).last_hidden_state)
            self.close(self.run_with(model, tokens, tm.CausalMask(TOKENS)), causal)

    def test_what_a_call_asks_for_comes_before_what_the_module_has(self):
        model, _ = DECODERS["Llama"]()
        module, q = model.layers[0].self_attn, torch.rand(2, 3, TOKENS, 8).double()
        forward = tm.hf.register(tm.NoneMask(TOKENS), "topomask_asked")
        self.refuses(ValueError, REFUSED, forward, module, q, q, q, None)
        self.refuses(ValueError, REFUSED, forward, module, q, q, q, None, is_causal=True)
        forward(module, q, q, q, None, is_causal=False)
        module.is_causal = False
        forward(module, q, q, q, None)
        self.refuses(ValueError, REFUSED, forward, module, q, q, q, None, is_causal=True)

    def test_padded_batches(self):
        model, (tokens,) = DECODERS["Llama"]()
        padding = torch.ones(2, TOKENS, dtype=torch.long)
        padding[0, 11:] = 0
        want = model(tokens, attention_mask=padding).last_hidden_state
        self.run_with(model, tokens, tm.CausalMask(TOKENS))
        got = model(tokens, attention_mask=padding).last_hidden_state
        self.close(got[padding.bool()], want[padding.bool()])
        tm.hf.register(tm.NoneMask(TOKENS), "topomask_decoder", model=model)
        self.refuses(ValueError, REFUSED, model, tokens, attention_mask=padding)


@needs("transformers")
class CompiledDecoders(Case):
    def setUp(self):
        torch._dynamo.reset()

    def compiled(self, model, **options):
        return torch.compile(model, backend="aot_eager", **options)

    def test_masks_of_a_model_are_known_when_they_are_registered(self):
        made = masks()
        for name, kind in (("causal", "softmax"), ("toeplitz", "kernel"), ("power series", "softmax"), ("dense", "softmax")):
            with self.subTest(mask=name, kind=kind):
                torch._dynamo.reset()
                model, (tokens,) = DECODERS["Llama"]()
                tm.hf.register(made[name].double(), "topomask_compiled_decoder", model=model, kind=kind)
                model.set_attn_implementation("topomask_compiled_decoder")
                out = self.compiled(model, fullgraph=True)(tokens, use_cache=False).last_hidden_state
                self.close(out, model(tokens).last_hidden_state)

    def test_others_are_known_after_a_run_without_compiling(self):
        for name, shared in (("Llama", True), ("CLIPText", False)):  # CLIP says that it is causal when it calls
            with self.subTest(model=name):
                torch._dynamo.reset()
                model, (tokens,) = DECODERS[name]()
                mask = tm.CausalMask(TOKENS)
                tm.hf.register(mask, "topomask_unknown", model=None if shared else model)
                model.set_attn_implementation("topomask_unknown")
                options = {"use_cache": False} if shared else {}
                text = "needs to know beforehand whether its masks are causal; run the model once without compiling"
                self.refuses(ValueError, text, self.compiled(model), tokens, **options)
                want = model(tokens).last_hidden_state
                torch._dynamo.reset()
                self.close(self.compiled(model, fullgraph=True)(tokens, **options).last_hidden_state, want)

    def test_masks_that_are_not_causal_are_refused(self):
        model, (tokens,) = DECODERS["Llama"]()
        tm.hf.register(tm.NoneMask(TOKENS), "topomask_compiled_decoder", model=model)
        model.set_attn_implementation("topomask_compiled_decoder")
        self.refuses(ValueError, f"{REFUSED}NoneMask", self.compiled(model), tokens, use_cache=False)


if __name__ == "__main__":
    unittest.main()
