"""Other libraries, where they are installed: NetworkX, SciPy, timm. transformers is in test_hf.py, PyG in test_pyg.py."""

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
