"""Masks in models of transformers."""

import copy
import unittest

import torch
from support import Case, needs, tm

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 48}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
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

    def test_padding_is_refused(self):
        model, (tokens,), _ = text_model("Bert", **SIZES, **NO_DROPOUT)
        want = model(tokens).last_hidden_state
        tm.hf.register([tm.NoneMask(16), tm.NoneMask(16)], name="topomask_bert")  # BERT's layers have a layer_idx
        model.set_attn_implementation("topomask_bert")
        self.close(model(tokens, attention_mask=torch.ones(2, 16)).last_hidden_state, want)
        padding = torch.ones(2, 16)
        padding[0, 7:] = 0
        self.refuses(ValueError, "must not hide tokens", model, tokens, attention_mask=padding)


@needs("transformers")
class OneMaskPerLayer(Case):
    def setUp(self):
        from transformers import AttentionMaskInterface

        AttentionMaskInterface.register("topomask_definition", lambda **_: None)

    def compare(self, model, inputs, tokens, **options):
        """The output and the gradients of the weights and of both masks' parameters, beside the definition."""
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

    def test_models_without_numbers_of_layers(self):
        for name, make in MODELS.items():
            with self.subTest(model=name):
                self.compare(*make())

    def test_every_kind_of_attention(self):
        for kind in ("softmax", "additive", "kernel"):
            with self.subTest(kind=kind):
                self.compare(*MODELS["ViT"](), kind=kind)

    def test_the_order_is_that_of_the_layers(self):
        for name, make in MODELS.items():
            with self.subTest(model=name):
                model, inputs, _ = make()
                seen = []
                found = tm.hf.attention_modules(model)
                for layer, module in found.items():
                    module.register_forward_pre_hook(lambda *_, layer=layer, seen=seen: seen.append(layer))
                model(*inputs)
                self.assertEqual(seen, list(found))

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
        self.refuses(ValueError, "model must be given to register .* since ViTAttention has no layer_idx", model, *inputs)
        tm.hf.register(masks, "topomask_other", model=MODELS["ViT"]()[0])
        model.set_attn_implementation("topomask_other")
        self.refuses(ValueError, "this ViTAttention is no part of the model given to register", model, *inputs)
        model, inputs, _ = text_model("Bert", **SIZES, **NO_DROPOUT)
        tm.hf.register([tm.NoneMask(16)], "topomask_one")
        model.set_attn_implementation("topomask_one")
        self.refuses(ValueError, "mask must have one entry per layer, got 1 and layer 1", model, *inputs)
        self.refuses(ValueError, "kind must be one of", tm.hf.register, masks, kind="hard")


if __name__ == "__main__":
    unittest.main()
