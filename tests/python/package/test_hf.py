"""Masks in models of transformers."""

import copy
import unittest

import torch
from support import Case, needs, tm

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 48}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
MODERN_BERT = {  # no layer with a sliding window, and the numbers of special tokens among 20
    "global_attn_every_n_layers": 1,
    **dict(pad_token_id=0, bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2),
}
IMAGE = {"image_size": 16, "patch_size": 4}


def vision_model(name, tokens, **options):
    """A tiny model over images of 4 × 4 patches, its input and how many tokens come before the patches."""
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **IMAGE, **options)
    return getattr(transformers, f"{name}Model")(config).double().eval(), (torch.rand(2, 3, 16, 16).double(),), tokens


def text_model(name, **options):
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(vocab_size=20, **options)
    return getattr(transformers, f"{name}Model")(config).double().eval(), (torch.randint(20, (2, 16)),), 0


# Models whose attention modules have no layer_idx, by name, with two attention modules each.
MODELS = {
    "ViT": lambda: vision_model("ViT", 1, **NO_DROPOUT),
    "DeiT": lambda: vision_model("DeiT", 2, **NO_DROPOUT),
    "Dinov2": lambda: vision_model("Dinov2", 1),
    "CLIPVision": lambda: vision_model("CLIPVision", 1),
    "SiglipVision": lambda: vision_model("SiglipVision", 0),
    "Beit": lambda: vision_model("Beit", 1, **NO_DROPOUT, use_relative_position_bias=False),
    "DistilBert": lambda: text_model("DistilBert", dim=24, n_layers=2, n_heads=3, hidden_dim=48, attention_dropout=0.0),
    "Albert": lambda: text_model("Albert", **SIZES, embedding_size=24, num_hidden_groups=2, **NO_DROPOUT),
}

# Models whose attention modules have one, likewise.
NUMBERED = {
    "Bert": lambda: text_model("Bert", **SIZES, **NO_DROPOUT),
    "Roberta": lambda: text_model("Roberta", **SIZES, **NO_DROPOUT),
    "Electra": lambda: text_model("Electra", **SIZES, **NO_DROPOUT, embedding_size=24),
    "ModernBert": lambda: text_model("ModernBert", **SIZES, **MODERN_BERT),
}


def two_masks(tokens):
    """Two different masks with parameters, over 16 nodes and the tokens before them."""
    torch.manual_seed(1)
    near = tm.PowerSeriesMask(tm.Graph.grid(4, 4), torch.rand(3, 4) + 0.1)
    wide = tm.ToeplitzMask([4, 4], torch.rand(3, 7, 7) + 0.1)
    masks = [near.double(), wide.double()]
    return masks, [tm.GlobalTokens(mask, tokens).double() if tokens else mask for mask in masks]


def definition(kind, matrices):
    """Attention from whole matrices, one for each call in their order: the layers of a model are called one after the other."""
    calls = iter(matrices)

    def forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, **_):
        matrix, scores = next(calls), query @ key.mT * scaling
        if kind == "kernel":
            weights = matrix * (query.relu() @ key.relu().mT)
        elif kind == "softmax":
            weights = matrix * (scores - scores.amax(-1, keepdim=True)).exp()
        else:
            weights = (scores + matrix).softmax(-1)
        out = weights / weights.sum(-1, keepdim=True).clamp(min=1e-6) @ value  # a row may have features of zero alone
        return out.transpose(1, 2).contiguous(), None

    return forward


def output_and_gradients(model, inputs, parameters):
    out = model(*inputs).last_hidden_state
    torch.manual_seed(2)
    weights = torch.rand_like(out)
    return [out, *torch.autograd.grad((out * weights).sum(), parameters, allow_unused=True)]


@needs("transformers")
class Transformers(Case):
    def test_a_model_runs_with_a_mask_by_name(self):
        model, inputs, tokens = MODELS["ViT"]()
        want = model(*inputs).last_hidden_state
        tm.hf.register(tm.NoneMask(17), name="topomask_all")
        model.set_attn_implementation("topomask_all")
        self.close(model(*inputs).last_hidden_state, want)  # a mask of ones is softmax attention
        mask = tm.GlobalTokens(tm.GRFMask(tm.Graph.grid(4, 4), heads=3), tokens).double()
        tm.hf.register(mask, name="topomask_grf")
        model.set_attn_implementation("topomask_grf")
        out = model(*inputs).last_hidden_state
        self.assertFalse(torch.allclose(out, want))
        out.sum().backward()
        self.assertIsNotNone(mask.get_submodule("mask").f.grad)

    def test_what_changes_attention_is_refused(self):
        model, (tokens,), _ = text_model("Bert", **SIZES, **NO_DROPOUT)
        tm.hf.register(tm.NoneMask(16), name="topomask_refuses")
        model.set_attn_implementation("topomask_refuses")
        forward = tm.hf.register(tm.NoneMask(16), name="topomask_refuses")
        module, q = model.encoder.layer[0].attention.self, torch.rand(2, 3, 16, 8).double()
        forward(module, q, q, q, None, sliding_window=None, softcap=None, is_causal=False)
        given = {"sliding_window": 4, "softcap": 30.0, "s_aux": q[0], "position_bias": q, "cu_seq_lens_q": tokens}
        for name, value in given.items():
            self.refuses(ValueError, f"{name} must be None, got", forward, module, q, q, q, None, **{name: value})
        self.refuses(
            ValueError, r"key must have as many tokens as query, 16, got 7", forward, module, q, q[:, :, :7], q[:, :, :7], None
        )
        for wrong in (
            torch.zeros(2, 3, 16, 16),
            torch.zeros(2, 1, 1, 16),
            torch.ones(2, 1, 16, 16).bool(),
            torch.ones(2, 16).bool(),
        ):
            self.refuses(ValueError, r"attention_mask must be padding, bool \[2, 1, 1, 16\]", forward, module, q, q, q, wrong)
        self.refuses(ValueError, "attention_mask must be", model, tokens, attention_mask=torch.ones(2, 16, 16))
        self.refuses(ValueError, "output_attentions", lambda: setattr(model.config, "output_attentions", True))

    def test_dropout_names_the_field_to_set(self):
        for name, field, options in (
            ("Bert", "attention_probs_dropout_prob", SIZES),
            ("DistilBert", "attention_dropout", {"dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 48}),
        ):
            model, (tokens,), _ = text_model(name, **options, **{field: 0.125})
            tm.hf.register(tm.NoneMask(16).double(), "topomask_dropout", model=model)
            model.set_attn_implementation("topomask_dropout")
            model(tokens)
            self.refuses(ValueError, rf"dropout .* got 0.125; .* Set config.{field} = 0.0 before the model", model.train(), tokens)

    def test_names_and_masks_are_checked(self):
        model, _, _ = text_model("Bert", **SIZES)
        for name in ("sdpa", "eager"):
            self.refuses(ValueError, f"must not be one of transformers' own, got '{name}'", tm.hf.register, tm.NoneMask(16), name)
        for name in ("a.b", "", "keys"):
            self.refuses(ValueError, f"without dots, got '{name}'", tm.hf.register, tm.NoneMask(16), name, model=model)
        self.refuses(TypeError, r"mask\[1\] must be a topomask.Mask, got int", tm.hf.register, [tm.NoneMask(16), 3])
        self.refuses(TypeError, "mask must be a topomask.Mask, got NoneType", tm.hf.register, None)
        self.refuses(ValueError, "got a function", tm.hf.register, tm.NoneMask, model=model)
        self.refuses(ValueError, "features must be one of", tm.hf.register, tm.NoneMask(16), features="square")
        for other in (torch.nn.Linear(1, 1), *(text_model(name, **SIZES)[0] for name in ("MPNet", "Deberta"))):
            text = rf"must have attention modules that look .* by name .*, got {type(other).__name__}, which has none"
            self.refuses(ValueError, text, tm.hf.register, tm.NoneMask(16), "topomask_without", model=other)

    def test_lengths(self):
        model, (tokens,), _ = text_model("Bert", **SIZES, **NO_DROPOUT)
        made = []

        def mask(n):
            made.append(n)
            return tm.ToeplitzMask([n], torch.rand(3, 2 * n - 1, generator=torch.Generator().manual_seed(n))).double()

        tm.hf.register(mask, "topomask_lengths")
        tm.hf.register(tm.NoneMask(16), "topomask_length")
        for n in (16, 5, 16, 7, 5, 1):
            model.set_attn_implementation("topomask_lengths")
            out = model(tokens[:, :n]).last_hidden_state
            tm.hf.register(mask(n), f"topomask_length_{n}")
            made.pop()
            model.set_attn_implementation(f"topomask_length_{n}")
            self.close(out, model(tokens[:, :n]).last_hidden_state)
        self.assertEqual(made, [16, 5, 7, 1])
        model.set_attn_implementation("topomask_length")
        self.refuses(ValueError, "over the 7 tokens of the batch, got one over 16; pad to 16", model, tokens[:, :7])
        tm.hf.register(lambda n: n, "topomask_wrong")
        model.set_attn_implementation("topomask_wrong")
        self.refuses(TypeError, "must be a function N -> Mask, got int for N = 16", model, tokens)


@needs("transformers")
class OneMaskPerLayer(Case):
    def setUp(self):
        from transformers import AttentionMaskInterface

        AttentionMaskInterface.register("topomask_definition", lambda **_: None)

    def compare(self, model, inputs, tokens, **options):
        """The output and the gradients of the weights and of both masks' parameters, compared with the definition."""
        from transformers import AttentionInterface

        masks, around = two_masks(tokens)
        parameters = [masks[0].alpha, masks[1].offsets, *model.parameters()]
        matrices = [mask.dense() for mask in around]
        AttentionInterface.register("topomask_definition", definition(options.get("kind", "softmax"), matrices))
        model.set_attn_implementation("topomask_definition")
        want = output_and_gradients(model, inputs, parameters)
        tm.hf.register(around, "topomask_layers", model=model, **options)
        model.set_attn_implementation("topomask_layers")
        for index, (got, wanted) in enumerate(zip(output_and_gradients(model, inputs, parameters), want, strict=True)):
            self.assertEqual(got is None, wanted is None)
            self.assertFalse(index < 3 and wanted is None)  # both masks learn
            if wanted is not None:
                scale = max(1.0, float(wanted.abs().max()))  # the gradient of a bias of keys is 0 but for rounding
                self.assertLess(float((got - wanted).abs().max()) / scale, 1e-11)

    def test_every_model(self):
        for name, make in {**MODELS, **NUMBERED}.items():
            with self.subTest(model=name):
                self.compare(*make())

    def test_every_kind_of_attention(self):
        for kind in ("softmax", "additive", "kernel"):
            with self.subTest(kind=kind):
                self.compare(*MODELS["ViT"](), kind=kind)

    def test_the_order_is_that_of_the_layers(self):
        for name, make in {**MODELS, **NUMBERED}.items():
            with self.subTest(model=name):
                model, inputs, _ = make()
                seen = []
                found = tm.hf.attention_modules(model)
                for layer, module in found.items():
                    module.register_forward_pre_hook(lambda *_, layer=layer, seen=seen: seen.append(layer))
                model(*inputs)
                self.assertEqual(seen, list(found))

    def test_sliding_windows_are_refused(self):
        windows = {**MODERN_BERT, "global_attn_every_n_layers": 2}
        model, inputs, _ = text_model("ModernBert", **SIZES, **windows)
        tm.hf.register(tm.NoneMask(16), "topomask_window", model=model)
        model.set_attn_implementation("topomask_window")
        self.refuses(ValueError, "sliding_window must be None, got", model, *inputs)

    def test_copies_and_several_names(self):
        model, inputs, tokens = MODELS["ViT"]()
        _, masks = two_masks(tokens)
        tm.hf.register(torch.nn.ModuleList(masks), "topomask_here", model=model)
        tm.hf.register(masks[::-1], "topomask_turned", model=model)
        outs = {}
        for name in ("topomask_here", "topomask_turned"):
            model.set_attn_implementation(name)
            outs[name] = model(*inputs).last_hidden_state
            self.close(copy.deepcopy(model)(*inputs).last_hidden_state, outs[name])
        self.assertFalse(torch.allclose(*outs.values()))

    def test_compiled(self):
        model, inputs, tokens = MODELS["ViT"]()
        tm.hf.register(
            [tm.PowerSeriesMask(tm.Graph.grid(17), heads=3).double() for _ in range(2)], "topomask_compiled", model=model
        )
        model.set_attn_implementation("topomask_compiled")
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        self.close(compiled(*inputs).last_hidden_state, model(*inputs).last_hidden_state)

    def test_errors(self):
        model, inputs, tokens = MODELS["ViT"]()
        _, masks = two_masks(tokens)
        self.refuses(ValueError, r"one entry for each of the 2 attention modules of ViTModel \(.*\), got 1",
                     tm.hf.register, masks[:1], "topomask_short", model=model)  # fmt: skip
        tm.hf.register(masks, "topomask_unnumbered")
        model.set_attn_implementation("topomask_unnumbered")
        self.refuses(ValueError, "model must be given to register .* since ViT(Self)?Attention has no layer_idx", model, *inputs)
        tm.hf.register(masks, "topomask_other", model=MODELS["ViT"]()[0])
        model.set_attn_implementation("topomask_other")
        self.refuses(ValueError, "this ViT(Self)?Attention is no part of the model given to register", model, *inputs)
        model, inputs, _ = text_model("Bert", **SIZES, **NO_DROPOUT)
        tm.hf.register([tm.NoneMask(16)], "topomask_one")
        model.set_attn_implementation("topomask_one")
        self.refuses(ValueError, "mask must have one entry per layer, got 1 and layer 1", model, *inputs)
        self.refuses(ValueError, "kind must be one of", tm.hf.register, masks, kind="hard")


if __name__ == "__main__":
    unittest.main()
