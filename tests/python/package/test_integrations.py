"""Other libraries, where they are installed: NetworkX, SciPy, timm. transformers is in test_hf.py, PyG in test_pyg.py and test_gps.py."""

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
        self.refuses(
            TypeError,
            r"weight of edge \('a', 'b'\) must be a number, got 'long'; weight= names another",
            tm.Graph.from_networkx,
            networkx.Graph([("a", "b", {"weight": "long"})]),
        )

    @needs("networkx")
    def test_parallel_edges_of_networkx(self):
        import networkx

        edges = [("a", "b", 2.0), ("a", "b", 3.0), ("b", "a", 5.0), ("b", "b", 1.0), ("b", "b", 4.0)]
        for kind, want in ((networkx.MultiGraph, [[0, 10], [10, 5]]), (networkx.MultiDiGraph, [[0, 5], [5, 5]])):
            graph = kind()
            graph.add_weighted_edges_from(edges)
            self.assertEqual(tm.Graph.from_networkx(graph, duplicates="sum").dense().tolist(), want)
            self.assertEqual(tm.Graph.from_networkx(graph, duplicates="first").dense()[0].tolist(), [0, 2])
            self.assertEqual(tm.Graph.from_networkx(graph, duplicates="sum", weight=None).dense()[1, 1].item(), 2)

    @needs("scipy", "numpy")
    def test_scipy(self):
        graph = tm.Graph.erdos_renyi(20, 0.3, seed=1).normalised().to(torch.float64)
        back = tm.Graph.from_scipy(graph.to_scipy())
        self.assertTrue(same(back, graph))
        self.assertFalse(back.directed)
        one_way = graph.to_scipy().tolil()
        one_way[0, 1], one_way[1, 0] = 3.0, 0.0
        self.assertTrue(tm.Graph.from_scipy(one_way.tocsr()).directed)
        self.assertTrue(tm.Graph.from_scipy(one_way.tocsr(), directed=True).directed)
        self.refuses(ValueError, "", tm.Graph.from_scipy, one_way.tocsr(), directed=False)

    @needs("scipy", "numpy")
    def test_scipy_in_every_format(self):
        import numpy
        import scipy.sparse

        dense = numpy.array([[0, 2, 0], [2, 1, 3], [0, 3, 0]])
        for dtype in (bool, numpy.int8, numpy.int64, numpy.float16, numpy.float32, numpy.float64):
            for form in ("coo", "csc", "csr", "lil", "dok", "dia", "bsr"):
                for family in (scipy.sparse.coo_array, scipy.sparse.coo_matrix):
                    if dtype == numpy.float16 and form != "coo":  # SciPy converts this type in no other format
                        continue
                    with self.subTest(dtype=dtype, form=form):
                        matrix = family(dense.astype(dtype if dtype != numpy.float16 else numpy.float32)).asformat(form)
                        graph = tm.Graph.from_scipy(matrix)
                        self.assertFalse(graph.directed)
                        self.assertEqual(graph.dtype, torch.float64 if dtype == numpy.float64 else torch.float32)
                        self.assertEqual(graph.dense().tolist(), dense.astype(dtype).astype(float).tolist())
        twice = scipy.sparse.coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [1, 1, 0])), (2, 2))
        self.assertEqual(tm.Graph.from_scipy(twice).dense().tolist(), [[0, 3], [3, 0]])
        self.refuses(ValueError, "real entries, got complex", tm.Graph.from_scipy, scipy.sparse.eye_array(3, dtype=complex))
        self.refuses(ValueError, r"square, got \[2, 3\]", tm.Graph.from_scipy, scipy.sparse.coo_array((2, 3)))

    @needs("scipy", "numpy")
    def test_zeros_of_scipy_are_no_edges(self):
        import scipy.sparse

        for form in ("coo", "csr", "csc"):
            matrix = scipy.sparse.coo_array(([2.0, 2.0, 0.0, 1.0, -1.0], ([0, 1, 1, 0, 0], [1, 0, 2, 2, 2])), (3, 3)).asformat(form)
            graph = tm.Graph.from_scipy(matrix)
            self.assertEqual((graph.directed, graph.edge_index().tolist()), (False, [[0, 1], [1, 0]]))

    @needs("scipy", "numpy")
    def test_duplicates_of_narrow_types_are_added_up_in_a_wide_one(self):
        import numpy
        import scipy.sparse

        for dtype, value, want in (
            (numpy.int8, 100, 300.0),
            (bool, 1, 3.0),
            (numpy.uint8, 200, 600.0),
            (numpy.int32, 2**30, 3.0 * 2**30),
        ):
            with self.subTest(dtype=dtype):
                entries = numpy.full(3, value, dtype=dtype), (numpy.zeros(3, int), numpy.zeros(3, int))
                self.assertEqual(tm.Graph.from_scipy(scipy.sparse.coo_array(entries, (1, 1))).dense().item(), want)
        swapped = scipy.sparse.csr_array(numpy.array([[0, 1 / 3], [1 / 3, 0]]))
        swapped.data = swapped.data.astype(">f8")
        graph = tm.Graph.from_scipy(swapped)
        self.assertEqual((graph.dtype, graph.dense()[0, 1].item()), (torch.float64, 1 / 3))

    @needs("scipy", "numpy")
    def test_what_is_symmetric_but_for_rounding_is_undirected(self):
        for dtype in (torch.float32, torch.float64):
            graph = tm.Graph.erdos_renyi(20, 0.3, seed=1).to(dtype)
            weights = (torch.rand(graph.num_entries, dtype=dtype) + 0.1) * 1e-3
            matrix = tm.Graph.from_csr(graph.offsets, graph.columns, weights, directed=True).to_scipy()
            matrix = matrix + matrix.T
            want = torch.as_tensor(matrix.toarray())
            matrix.data *= 1 + torch.linspace(-1, 1, matrix.nnz, dtype=dtype).numpy() * 8 * torch.finfo(dtype).eps
            made = tm.Graph.from_scipy(matrix)
            self.assertFalse(made.directed)
            self.close(made.dense(), want, 20 * torch.finfo(dtype).eps)
            self.assertTrue(tm.Graph.from_scipy(matrix, directed=True).directed)
            self.assertFalse(tm.Graph.from_scipy(matrix, directed=False).directed)
            matrix.data[3] *= 1 + 1e-3
            self.assertTrue(tm.Graph.from_scipy(matrix).directed)
            self.refuses(ValueError, "symmetric", tm.Graph.from_scipy, matrix, directed=False)


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
