"""Other libraries, where they are installed: NetworkX, SciPy, transformers, timm. PyG is in test_pyg.py."""

import unittest

import torch
from support import Case, needs, tm


def same(a, b):
    return torch.equal(a.dense(), b.dense())


class Conversions(Case):
    @needs("networkx")
    def test_networkx(self):
        import networkx

        graph = tm.Graph.erdos_renyi(20, 0.3, seed=1).normalised()
        self.assertTrue(same(tm.Graph.from_networkx(graph.to_networkx()), graph))
        directed = networkx.DiGraph([("a", "b"), ("b", "c")])
        self.assertEqual(tm.Graph.from_networkx(directed).edge_index().tolist(), [[0, 1], [1, 2]])
        self.refuses(ValueError, "multigraph", tm.Graph.from_networkx, networkx.MultiGraph())

    @needs("scipy", "numpy")
    def test_scipy(self):
        graph = tm.Graph.erdos_renyi(20, 0.3, seed=1).normalised().to(torch.float64)
        back = tm.Graph.from_scipy(graph.to_scipy())
        self.assertTrue(same(back, graph))
        self.assertFalse(back.directed)
        one_way = graph.to_scipy().tolil()
        one_way[0, 1], one_way[1, 0] = 3.0, 0.0
        self.assertTrue(tm.Graph.from_scipy(one_way.tocsr()).directed)


class Transformers(Case):
    @needs("transformers")
    def test_a_model_runs_with_a_mask_by_name(self):
        from transformers import ViTConfig, ViTModel

        config = ViTConfig(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            image_size=8,
            patch_size=2,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        images = torch.rand(2, 3, 8, 8)
        model = ViTModel(config).eval()
        want = model(images).last_hidden_state
        tm.hf.register(tm.NoneMask(17), name="topomask_all")
        model.set_attn_implementation("topomask_all")
        self.close(model(images).last_hidden_state, want, 1e-4)  # a mask of ones is softmax attention
        mask = tm.GlobalTokens(tm.GRFMask(tm.Graph.grid(4, 4), heads=2))
        tm.hf.register(mask, name="topomask_grf")
        model.set_attn_implementation("topomask_grf")
        out = model(images).last_hidden_state
        self.assertFalse(torch.allclose(out, want))
        out.sum().backward()
        self.assertIsNotNone(mask.get_submodule("mask").f.grad)

    @needs("transformers")
    def test_padding_is_refused(self):
        from transformers import BertConfig, BertModel

        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 20}
        model = BertModel(BertConfig(**sizes, attention_probs_dropout_prob=0.0)).eval()
        tokens = torch.randint(20, (2, 10))
        want = model(tokens).last_hidden_state
        tm.hf.register([tm.NoneMask(10)], name="topomask_bert")
        model.set_attn_implementation("topomask_bert")
        self.close(model(tokens, attention_mask=torch.ones(2, 10)).last_hidden_state, want, 1e-4)
        padding = torch.ones(2, 10)
        padding[0, 7:] = 0
        self.refuses(ValueError, "must not hide tokens", model, tokens, attention_mask=padding)


class Timm(Case):
    @needs("timm")
    def test_a_vision_transformer_with_a_mask(self):
        from timm.models.vision_transformer import VisionTransformer

        sizes = {"img_size": 8, "patch_size": 2, "embed_dim": 12, "depth": 2, "num_heads": 3, "num_classes": 2}
        plain = VisionTransformer(**sizes).eval()
        ones = VisionTransformer(**sizes, attn_layer=tm.timm.attn_layer(tm.NoneMask(17), kind="softmax")).eval()
        ones.load_state_dict(plain.state_dict(), strict=False)
        images = torch.rand(2, 3, 8, 8)
        self.close(ones(images), plain(images), 1e-4)
        mask = tm.GlobalTokens(tm.GRFMask(tm.Graph.grid(4, 4), heads=3))
        model = VisionTransformer(**sizes, attn_layer=tm.timm.attn_layer(mask))
        model(images).sum().backward()
        learnt = [name for name, p in model.named_parameters() if name.endswith("mask.mask.f") and p.grad is not None]
        self.assertEqual(len(learnt), 2)
        self.refuses(
            ValueError, "attn_drop must be 0", VisionTransformer, **sizes, attn_layer=tm.timm.attn_layer(mask), attn_drop_rate=0.1
        )


if __name__ == "__main__":
    unittest.main()
