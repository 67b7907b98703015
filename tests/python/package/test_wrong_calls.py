"""Calls with arguments of a wrong type, shape or value: every one is a TypeError or ValueError that names the argument, what it
must be and what it was, in Python's words."""

import math
import tempfile
import unittest

import torch
from support import Case, needs, tm
from topomask import _errors

NAN = math.nan
GRAPH = tm.Graph.grid(5, 6)
MASK = tm.NeighboursMask(GRAPH)
TWO = tm.GRFMask(GRAPH, heads=2)
WALKS = tm.sample_walks(GRAPH)
X = torch.rand(30, 4)
Q = torch.rand(1, 2, 30, 8)
F = torch.tensor([1.0, 0.5])
FOREST = tm.Forest(torch.tensor([-1, 0, 1]))
ONE_WAY = tm.Graph.from_edges(3, [0, 1], [1, 2], directed=True)
META = Q.to("meta")
CLOUDS = tm.cloud_neighbours(torch.rand(1, 30, 3))
CONV = tm.pyg.TransformerConv(4, 4)
OMEGA = "FeatureMap.favor: omega must be torch.float32 or torch.float64 [m, d_k], m, d_k >= 1, got "


class Wrong(tm.Mask):
    def __init__(self, result):
        super().__init__(30)
        self.result = result

    def matmul(self, x):
        return self.result


def attend(*arguments, **options):
    return tm.attention(*(arguments or (Q, Q, Q, TWO)), **options)


TYPES = {
    "attention: route must be a string, got 3": lambda: attend(route=3),
    "attention: eps must be a number, got str": lambda: attend(eps="x"),
    "attention: memory_budget must be an integer, got 1.5": lambda: attend(memory_budget=1.5),
    "attention: q must be a tensor, got a list with float": lambda: attend([1.0], Q, Q, TWO),
    "attention: features must be a name, a FeatureMap, a function or None, got int": lambda: attend(features=4),
    "attention: mask must be a topomask.Mask, got Tensor": lambda: attend(Q, Q, Q, torch.ones(30, 30)),
    "FeatureMap.custom: function must return a tensor, got str": lambda: attend(features=lambda x: "x"),
    "softmax_attention: scale must be a number or None, got str": lambda: tm.softmax_attention(Q, Q, Q, TWO, scale="a"),
    "softmax_attention: route must be a string, got None": lambda: tm.softmax_attention(Q, Q, Q, TWO, route=None),
    "explain: q must be a tensor, got str": lambda: tm.explain("q", Q, Q, TWO),
    "plan_attention: mask must be a Mask, got None": lambda: tm.plan_attention(None),
    "plan_attention: dtype must be a torch.dtype, got str": lambda: tm.plan_attention(TWO, dtype="float32"),
    "WalkOptions: walkers must be an integer, got 2.5": lambda: tm.GRFMask(GRAPH, walkers=2.5),
    "WalkOptions: halting_probability must be a number, got str": lambda: tm.GRFMask(GRAPH, halting_probability="x"),
    "WalkOptions: coupling must be a string, got 1": lambda: tm.GRFMask(GRAPH, coupling=1),
    "WalkOptions: survival must be a tensor or None, got a list": lambda: tm.WalkOptions(survival=[1.0]),
    "GRFMask: source must be a Graph or a WalkTable, got str": lambda: tm.GRFMask("x"),
    "GRFMask: heads must be an integer, got 1.5": lambda: tm.GRFMask(GRAPH, heads=1.5),
    "GRFMask: diagonal must be a string, got 3": lambda: tm.GRFMask(GRAPH, diagonal=3),
    "GRFMask: f must be a tensor, a sequence of numbers or None, got str": lambda: tm.GRFMask(GRAPH, "exp"),
    "grf_mask: walks must be a WalkTable, got Graph": lambda: tm.grf_mask(GRAPH, F),
    "grf_mask: f must be a tensor, got a list with float": lambda: tm.grf_mask(WALKS, [1.0]),
    "StitchedGRFMask: pairs must be an integer, got str": lambda: tm.StitchedGRFMask(GRAPH, pairs="a"),
    "stitched_grf_mask: walks must be a sequence of WalkTables, got WalkTable": lambda: tm.stitched_grf_mask(WALKS, F),
    "ProjectedMask: mask must be a Mask, got Graph": lambda: tm.ProjectedMask(GRAPH),
    "PerHeadMask: masks must be a sequence of Masks, got a list with Graph": lambda: tm.PerHeadMask([MASK, GRAPH]),
    "GlobalTokens: tokens must be an integer, got 1.5": lambda: tm.GlobalTokens(MASK, 1.5),
    "NoneMask: nodes must be an integer, got str": lambda: tm.NoneMask("a"),
    "DenseMask: matrix must be a tensor or a sequence of numbers, got str": lambda: tm.DenseMask("a"),
    "SparseMask: pattern, unless a Pattern or a Graph, must be a tensor, a sequence": lambda: tm.SparseMask("a"),
    "SparseMask: num_nodes must come with edges, got 30 with a Graph": lambda: tm.SparseMask(GRAPH, num_nodes=30),
    "SparseMask: num_nodes must come with edges, got 30 with a Pattern": lambda: tm.SparseMask(GRAPH.pattern, num_nodes=30),
    "GRFMask: normalise must come with a graph, got True with walks": lambda: tm.GRFMask(WALKS, normalise=True),
    "AsymmetricGRFMask: walkers must come with a graph, got 3 with walks": lambda: tm.AsymmetricGRFMask(WALKS, walkers=3),
    "AdHocMask: seed must come with a graph, got 1 with walks": lambda: tm.AdHocMask(WALKS, seed=1),
    "NodeKernelMask: walkers must come with a graph, got 100 with walks": lambda: tm.NodeKernelMask(WALKS, walkers=100),
    "NodeFrequencyMask: fixed_hops must come with a graph, got 2 with walks": lambda: tm.NodeFrequencyMask(WALKS, fixed_hops=2),
    "NeighboursMask: graph must be a Graph, got Tensor": lambda: tm.NeighboursMask(X),
    "PowerSeriesMask: terms must be an integer, got 2.0": lambda: tm.PowerSeriesMask(GRAPH, terms=2.0),
    "AutoMask: tolerance must be a number, got str": lambda: tm.AutoMask(GRAPH, F, "a"),
    "toeplitz_mask: dims must be a sequence of integers, got 5": lambda: tm.toeplitz_mask(5, torch.ones(9)),
    "TreeMask: f must be a DistanceFunction or None, got function": lambda: tm.TreeMask(FOREST, lambda x: x),
    "DistanceFunction.smooth: f must be a function, got 3": lambda: tm.DistanceFunction.smooth(3),
    "DistanceFunction.cosine: omega must be a number, got str": lambda: tm.DistanceFunction.cosine("a"),
    "unsupported operand": lambda: tm.DistanceFunction.cosine(1.0) * 3,
    "DiffusionMask: lambda_ must be a number, a tensor or a sequence of numbers, got str": lambda: tm.DiffusionMask(GRAPH, "a"),
    "ProductDiffusionMask: factors must be a sequence of Graphs, got Graph": lambda: tm.ProductDiffusionMask(GRAPH),
    "walking_mask: options must be a WalkOptions or None, got 4": lambda: tm.walking_mask(GRAPH, F, 4),
    "matmul: x must be a tensor, got str": lambda: MASK("x"),
    "Graph.path: nodes must be an integer, got 4.0": lambda: tm.Graph.path(4.0),
    "Graph.grid: wrap must be True or False, got str": lambda: tm.Graph.grid(3, wrap="x"),
    "Graph.knn: k must be an integer, got str": lambda: tm.Graph.knn(X, "3"),
    "Graph.from_edges: duplicates must be a string, got 1": lambda: tm.Graph.from_edges(2, [0], [1], duplicates=1),
    "Graph.from_pyg: data must have an edge_index": lambda: tm.Graph.from_pyg(3),
    "read_graph: path must be a string or a path, got None": lambda: tm.Graph.read(None),
    "write_graph: path must be a string or a path, got 3": lambda: GRAPH.write(3),
    "icosphere: level must be an integer, got 2.5": lambda: tm.icosphere(2.5),
    "GraphBatch.of: graphs must be a sequence of Graphs, got a list with int": lambda: tm.GraphBatch.of([GRAPH, 3]),
    "matmul: pattern must be a Pattern, got Graph": lambda: tm.matmul(GRAPH, torch.ones(98), X),
    "sample_walks: graph must be a Graph, got str": lambda: tm.sample_walks("g"),
    "extend_walks: more_walkers must be an integer, got str": lambda: tm.extend_walks(WALKS, GRAPH, "a"),
    "walkers_for: deviation must be a number, got str": lambda: tm.walkers_for("a", 1.0, 1.0),
    "mask_error: estimates must be a sequence of Masks or a Graph, got str": lambda: tm.mask_error("ab", torch.tensor([0])),
    "Forest.distances: node must be an integer, got str": lambda: FOREST.distances("a"),
    "NeighbourWalks: hops must be an integer, got str": lambda: tm.NeighbourWalks(CLOUDS, "a"),
    "MaskedAttention: mask must be a Mask, got None": lambda: tm.nn.MaskedAttention(192, heads=3, mask=None),
    "Block: mlp_ratio must be a number, got str": lambda: tm.nn.Block(8, 2, mask=MASK, mlp_ratio="a"),
    "GraphTransformer: masks must be a sequence of Masks": lambda: tm.nn.GraphTransformer(features=3, classes=2, masks=MASK),
    "ViT: mask must be a function": lambda: tm.nn.ViT(image_size=8, classes=2, mask=MASK),
    "TransformerConv: edge_index must be a tensor, got a list": lambda: CONV(X, [[0], [1]]),
    "TransformerConv: x must be a tensor or a pair of them, got str": lambda: CONV("x", GRAPH.edge_index()),
    "walks: there is no option walker; did you mean walkers": lambda: tm.pyg.GPSAttention(8, 2, walker=3),
    "Mask: size must be an integer, got str": lambda: tm.Mask("a"),
}

VALUES = {
    "attention: route must be automatic, dense, sparse, features, operator, fused or strips, got fast": lambda: attend(
        route="fast"
    ),
    "attention: eps must be > 0, got nan": lambda: attend(eps=NAN),
    "attention: memory_budget must be in [-2^63, 2^63), got 1180591620717411303424": lambda: attend(memory_budget=2**70),
    "attention: q must be on cpu or cuda, got Float[1, 2, 30, 8] on meta": lambda: attend(META, META, META, TWO),
    "got Float; mask.to(dtype) converts it": lambda: attend(*[Q.double()] * 3, TWO),
    "Mask.matmul: x must be Float as the mask is, got Double": lambda: MASK(X.double()),
    "Mask.matmul: x must be [..., N = 30, C], got Float[3, 3] on cpu": lambda: MASK(torch.rand(3, 3)),
    "softmax_attention: scale must be finite, got nan": lambda: tm.softmax_attention(Q, Q, Q, TWO, scale=NAN),
    "explain: q must be [..., N = 30, C], got [8]": lambda: tm.explain(Q[0, 0, 0], Q, Q, TWO),
    "plan_attention: device must be cpu or cuda, got tpu": lambda: tm.plan_attention(TWO, device="tpu"),
    "plan_softmax: features must be >= 0, got -1": lambda: tm.plan_softmax(TWO, features=-1),
    "GRFMask: heads must be >= 1, got -1": lambda: tm.GRFMask(GRAPH, heads=-1),
    "GRFMask: terms must be >= 1, got 0": lambda: tm.GRFMask(GRAPH, terms=0),
    "GRFMask: heads must be those of the initial values, [2, 4], got 3": lambda: tm.GRFMask(GRAPH, torch.ones(2, 4), heads=3),
    "grf_mask: f must be finite, got nan at 1": lambda: tm.GRFMask(GRAPH, [1.0, NAN]),
    "halting_probability must be in (0, 1), got nan": lambda: tm.GRFMask(GRAPH, halting_probability=NAN),
    'proposal_weights are for proposal="given" only': lambda: tm.GRFMask(GRAPH, proposal_weights=torch.ones(98)),
    "StitchedGRFMask: pairs must be >= 1, got 0": lambda: tm.StitchedGRFMask(GRAPH, pairs=0),
    "SparseMask: heads must be >= 1, got -2": lambda: tm.SparseMask(GRAPH, heads=-2),
    "SparseMask: dtype must be torch.float32 or torch.float64, got torch.float16": lambda: tm.SparseMask(
        GRAPH, dtype=torch.float16
    ),
    "Pattern.from_edge_index: num_nodes must be >= 0, got -1": lambda: tm.SparseMask(torch.tensor([[0], [1]]), num_nodes=-1),
    "ToeplitzMask: dims must be >= 1, got -1": lambda: tm.ToeplitzMask([0, -1]),
    "ToeplitzMask: dtype must be torch.float32 or torch.float64": lambda: tm.ToeplitzMask(5, dtype=torch.int32),
    "DiffusionMask: heads must be those of the initial values, [2], got 3": lambda: tm.DiffusionMask(GRAPH, [1.0, 2.0], heads=3),
    "diffusion_mask: graph must be undirected": lambda: tm.DiffusionMask(ONE_WAY),
    "ProductDiffusionMask: factors must be at least one graph, got none": lambda: tm.ProductDiffusionMask([]),
    "ShortestPathMask: max_distance must be >= 0, got -2": lambda: tm.ShortestPathMask(GRAPH, max_distance=-2),
    "FeatureMap.relu: offset must be finite and >= 0, got -1.0": lambda: tm.FeatureMap.relu(-1),
    OMEGA + "torch.float32 [3]": lambda: tm.FeatureMap.favor(omega=torch.ones(3)),
    OMEGA + "torch.int64 [3, 4]": lambda: tm.FeatureMap.favor(omega=torch.ones(3, 4, dtype=torch.int64)),
    OMEGA + "torch.float32 [0, 4]": lambda: tm.FeatureMap.favor(omega=torch.ones(0, 4)),
    OMEGA + "torch.float64 [3, 0]": lambda: tm.FeatureMap.favor(omega=torch.ones(3, 0, dtype=torch.float64)),
    "FeatureMap.favor: omega must be finite, got nan at [1, 0]": lambda: tm.FeatureMap.favor(omega=torch.tensor([[1.0], [NAN]])),
    "FeatureMap.favor: omega must be finite, got -inf at [0, 1]": lambda: tm.FeatureMap.favor(
        omega=torch.tensor([[0.0, -math.inf]])
    ),
    "FeatureMap: name must be one of identity, relu, elu, exp, squared_relu, got foo": lambda: tm.FeatureMap("foo"),
    "Pattern: offsets must run from 0 to 1": lambda: tm.Graph.from_csr(torch.tensor([0, 5]), torch.tensor([0], dtype=torch.int32)),
    "MaskedAttention: heads must be >= 1, got 0": lambda: tm.nn.MaskedAttention(8, heads=0, mask=MASK),
    "MaskedAttention: route must be one of automatic": lambda: tm.nn.MaskedAttention(8, heads=2, mask=MASK, route="x"),
    "features must be one of identity": lambda: tm.nn.MaskedAttention(8, heads=2, mask=MASK, features="x"),
    "Block: mlp_ratio must give a hidden layer of width >= 1, got -1.0": lambda: tm.nn.Block(8, 2, mask=MASK, mlp_ratio=-1.0),
    "ViT: patch_size must be >= 1, got 0": lambda: tm.nn.ViT(image_size=32, classes=2, patch_size=0),
    "attend: kind must be one of kernel, softmax, additive, got foo": lambda: tm.nn.attend(Q, Q, Q, TWO, kind="foo"),
    "TransformerConv: heads must be >= 1, got 0": lambda: tm.pyg.TransformerConv(4, 4, heads=0),
    "GPSAttention: channels must be a multiple of heads = 3, got 8": lambda: tm.pyg.GPSAttention(8, 3),
    "Wrong.matmul: the result must be [1, 30, 20] as x is, got None": lambda: attend(X, X, X, Wrong(None)),
    "Wrong.matmul: the result must be [1, 30, 20] as x is, got [3, 4]": lambda: attend(X, X, X, Wrong(torch.rand(3, 4))),
    "Mask: heads must be >= 1, got -1": lambda: tm.Mask(30, -1),
}


class WrongCalls(Case):
    def check(self, error, cases):
        for text, call in cases.items():
            with self.subTest(text=text):
                with self.assertRaises(error) as caught:
                    call()
                self.assertIs(type(caught.exception), error)
                self.assertIn(text, str(caught.exception))
                for leak in ("::", "->", "argument '_", "Exception raised from", "__torch__"):
                    self.assertNotIn(leak, str(caught.exception))
                self.assertIsNone(caught.exception.__cause__)

    def test_types(self):
        self.check(TypeError, TYPES)

    def test_values(self):
        self.check(ValueError, VALUES)

    def test_texts_of_the_library_name_things_as_python_does(self):
        texts = {
            "mask->to(dtype) converts it": "mask.to(dtype) converts it",
            "Mask::matmul: x must be given": "Mask.matmul: x must be given",
            "the walks need WalkOptions::group_products": "the walks need group_products=True",
            "weights are for Proposal::given only": 'weights are for proposal="given" only',
            "more than limits.max_edges allows (ReadLimits::max_edges)": "more than max_edges allows (max_edges)",
            "SparsePattern: offsets must be Long": "Pattern: offsets must be Long",
        }
        for text, expected in texts.items():
            self.assertEqual(_errors.in_python(text), expected)

    def test_limits_of_readers_have_the_names_of_the_arguments(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/a.txt"
            GRAPH.write(path)
            self.refuses(ValueError, r"(?<!limits\.)max_nodes allows", tm.read_graph, path, max_nodes=3)
            self.refuses(ValueError, r": max_edges must be >= 0, got -1", tm.read_graph, path, max_edges=-1)

    def test_errors_of_python_itself_pass(self):
        self.refuses(TypeError, "unexpected keyword argument 'foo'", tm.Graph.from_edge_index, [[0], [1]], foo=1)
        self.refuses(TypeError, "missing 1 required positional argument", tm.Graph.path)
        with self.assertRaises(ZeroDivisionError):
            tm.attention(X, X, X, MASK, features=lambda x: x / (1 // 0))

    def test_errors_of_torch_keep_their_class(self):
        class Failing(tm.Mask):
            def matmul(self, x):
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

        self.refuses(torch.OutOfMemoryError, "CUDA out of memory", tm.attention, X, X, X, Failing(30), route="operator")
        for error in (torch.AcceleratorError("CUDA error: an illegal memory access was encountered"), NotImplementedError("x: y")):
            self.assertIs(_errors.translated(error), error)
        for text in ("CUDA error: device-side assert triggered", "NCCL Error 3: internal error", "cuFFT error: CUFFT_INVALID_SIZE"):
            self.assertIs(type(_errors.translated(RuntimeError(text))), RuntimeError, text)
        self.assertIs(type(_errors.translated(RuntimeError("attention: q must be [30, C], got []"))), ValueError)

    @needs("numpy")
    def test_numbers_of_numpy_are_numbers(self):
        import numpy

        self.assertEqual(tm.Graph.path(numpy.int64(4)).num_nodes, 4)
        mask = tm.GRFMask(GRAPH, walkers=numpy.int64(2), heads=numpy.int32(2), halting_probability=numpy.float32(0.25))
        self.assertEqual(mask.heads, 2)
        self.assertEqual(tm.DiffusionMask(GRAPH, numpy.float64(0.5)).lambda_.item(), 0.5)
        self.refuses(TypeError, "attention: q must be a tensor, got ndarray", tm.attention, X.numpy(), X, X, MASK)

    def test_values_for_one_head_are_repeated(self):
        self.assertEqual(tm.SparseMask(GRAPH, torch.ones(98), heads=3).values.shape, (3, 98))
        self.assertEqual(tm.ToeplitzMask(5, torch.ones(9), heads=2).offsets.shape, (2, 9))
        self.assertEqual(tm.DiffusionMask(GRAPH, torch.tensor(0.5), heads=2).lambda_.tolist(), [0.5, 0.5])


if __name__ == "__main__":
    unittest.main()
