"""Edges as people give them: duplicates and self-loops of PyG, no edges at all, PyG's own tensors, and values in their order."""

import types
import unittest

import torch
from families import random
from support import Case, needs, tm

F64 = torch.float64
NONE = {
    "float": torch.empty(2, 0),
    "double": torch.empty(2, 0, dtype=F64),
    "int64": torch.empty(2, 0, dtype=torch.int64),
    "int32": torch.empty(2, 0, dtype=torch.int32),
    "lists": [[], []],
}


def data_of(edges, weights=None, nodes=None):
    nodes = int(edges.max()) + 1 if nodes is None else nodes
    return types.SimpleNamespace(edge_index=edges, edge_weight=weights, num_nodes=nodes)


def several(*, symmetric):
    """Random edges of eight nodes, many of them twice or more, and their weights."""
    edges = torch.randint(8, (2, 60), generator=torch.Generator().manual_seed(4))
    weights = random(60)
    if symmetric:
        loops = edges[0] == edges[1]
        edges, weights = torch.cat([edges, edges.flip(0)[:, ~loops]], 1), torch.cat([weights, weights[~loops]])
    return edges, weights


def matrix_of(edges, weights, *, symmetric, duplicates, self_loops):
    """W by the definition, edge by edge; the first of an undirected edge is that of either direction."""
    matrix = torch.zeros(8, 8, dtype=F64)
    seen = set()
    for u, v, weight in zip(*edges.tolist(), weights.tolist()):
        if u == v and self_loops == "drop":
            continue
        if duplicates == "sum":
            matrix[u, v] += weight
        elif (u, v) not in seen:
            matrix[u, v] = weight
            if symmetric:
                matrix[v, u] = weight
        seen |= {(u, v), (v, u)} if symmetric else {(u, v)}
    return matrix


def shuffled(graph, seed=1):
    order = torch.randperm(graph.num_entries, generator=torch.Generator().manual_seed(seed))
    return graph.edge_index()[:, order]


def digraph(nodes=12, seed=3):
    matrix = torch.rand(nodes, nodes, generator=torch.Generator().manual_seed(seed), dtype=F64)
    edges = (matrix < 0.3).nonzero().T
    return tm.Graph.from_edge_index(edges, matrix[tuple(edges)] + 0.1, nodes, directed=True)


class FromPyG(Case):
    def test_duplicates_and_self_loops(self):
        for symmetric in (False, True):
            edges, weights = several(symmetric=symmetric)
            for duplicates in ("first", "sum"):
                for self_loops in ("keep", "drop"):
                    with self.subTest(symmetric=symmetric, duplicates=duplicates, self_loops=self_loops):
                        options = {"duplicates": duplicates, "self_loops": self_loops}
                        want = matrix_of(edges, weights, symmetric=symmetric, **options)
                        graph = tm.Graph.from_pyg(data_of(edges, weights), **options)
                        self.assertEqual(graph.directed, not symmetric)
                        self.close(graph.dense(), want, 1e-12)
                        received = tm.Graph.from_pyg(data_of(edges, weights), flow="source_to_target", **options)
                        self.close(received.dense(), want.T, 1e-12)
                        told = tm.Graph.from_pyg(data_of(edges, weights), directed=True, **options)
                        self.assertTrue(told.directed)
                        self.close(told.dense(), matrix_of(edges, weights, symmetric=False, **options), 1e-12)

    def test_the_two_directions_of_an_edge_are_no_duplicates(self):
        graph = tm.Graph.grid(3, 4)
        data = data_of(shuffled(graph))
        for duplicates in ("first", "sum", "refuse"):
            made = tm.Graph.from_pyg(data, duplicates=duplicates)
            self.assertFalse(made.directed)
            self.assertTrue(torch.equal(made.dense(), graph.dense()))
            self.assertTrue(torch.equal(tm.Graph.from_pyg(data, duplicates=duplicates, directed=False).dense(), graph.dense()))

    def test_edges_without_weights_are_counted(self):
        edges = torch.tensor([[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]])
        graph = tm.Graph.from_pyg(data_of(edges), duplicates="sum")
        self.assertEqual((graph.directed, graph.dense().tolist()), (False, [[0, 2, 0], [2, 0, 1], [0, 1, 0]]))
        self.assertEqual(tm.Graph.from_pyg(data_of(edges)).dense().tolist(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
        whole = tm.Graph.from_pyg(data_of(edges, torch.arange(6).unsqueeze(1)), duplicates="sum")
        self.assertEqual((whole.directed, whole.dense().tolist()), (True, [[0, 2, 0], [4, 0, 4], [0, 5, 0]]))

    def test_how_often_an_edge_is_given_does_not_make_it_directed(self):
        edges = torch.tensor([[0, 0, 1], [1, 1, 0]])
        for weights in (None, torch.tensor([2.0, 2.0, 2.0])):
            for duplicates in ("first", "sum"):
                graph = tm.Graph.from_pyg(data_of(edges, weights), duplicates=duplicates)
                self.assertEqual(graph.directed, duplicates == "sum")  # sums differ
        self.assertTrue(tm.Graph.from_pyg(data_of(edges, torch.tensor([2.0, 2.0, 3.0]))).directed)
        self.assertTrue(tm.Graph.from_pyg(data_of(torch.tensor([[0, 0], [1, 1]]))).directed)

    def test_what_is_refused(self):
        twice, loop = torch.tensor([[0, 1, 0], [1, 0, 1]]), torch.tensor([[0, 1, 2], [1, 0, 2]])
        make = tm.Graph.from_pyg
        self.refuses(ValueError, r"got \(0, 1\) at positions 0 and 2", make, data_of(twice), duplicates="refuse")
        self.refuses(ValueError, r"self-loops are refused, got \(2, 2\) at position 2", make, data_of(loop), self_loops="refuse")
        self.assertEqual(make(data_of(loop), duplicates="refuse", self_loops="drop").num_entries, 2)
        self.refuses(ValueError, "duplicates must be first, sum or refuse, got last", make, data_of(loop), duplicates="last")
        self.refuses(ValueError, "self_loops must be keep, drop or refuse, got no", make, data_of(loop), self_loops="no")
        weights = torch.ones(3, requires_grad=True)
        for duplicates in ("first", "sum"):
            self.refuses(ValueError, "must not require grad", make, data_of(loop, weights), duplicates=duplicates)


class NoEdges(Case):
    def test_they_have_any_type(self):
        for name, edges in NONE.items():
            with self.subTest(name=name):
                for graph in (
                    tm.Graph.from_edge_index(edges, num_nodes=3),
                    tm.Graph.from_edge_index(edges, [], 3, directed=True),
                    tm.Graph.from_edges(3, edges[0], edges[1]),
                ):
                    self.assertEqual((graph.num_nodes, graph.num_entries), (3, 0))
                    self.assertEqual(graph.entries_of(edges).tolist(), [])
                    self.assertEqual(graph.edge_of_entry(edges).tolist(), [])
                    self.assertEqual(graph.edge_of_entry([[0], [0]]).tolist(), [])
                self.assertEqual(tm.Graph.from_edge_index(edges).num_nodes, 0)
                self.assertEqual(tm.Pattern.from_edge_index(edges, 3).shape, (3, 3))
                self.assertEqual(tm.SparseMask(edges, num_nodes=3).dense().tolist(), torch.zeros(3, 3).tolist())
                if name != "lists":
                    for duplicates in ("first", "sum", "refuse"):
                        graph = tm.Graph.from_pyg(data_of(edges, nodes=3), duplicates=duplicates)
                        self.assertEqual((graph.num_nodes, graph.num_entries, graph.directed), (3, 0, False))

    def test_layers_take_them(self):
        x = torch.rand(5, 8)
        conv = tm.pyg.TransformerConv(8, 4)
        for name, edges in NONE.items():
            if name == "lists":
                continue
            with self.subTest(name=name):
                self.close(conv(x, edges), conv.lin_skip(x), 1e-6)
                for mask in ("grf", "power_series", "neighbours"):
                    torch.manual_seed(0)
                    layer = tm.pyg.GPSAttention(8, mask=mask, features="elu")
                    layer.set_graph(edges, 5)
                    alone = layer(x[None])[0]
                    layer.set_graph(torch.arange(5).expand(2, -1), 5)
                    if mask == "neighbours":  # a node attends to itself, with or without an edge
                        self.close(layer(x[None])[0], alone, 1e-6)

    def test_edges_that_are_no_numbers_of_nodes_are_refused(self):
        some = torch.rand(2, 3)
        self.refuses(ValueError, "source must be int64 or int32", tm.Graph.from_edge_index, some)
        self.refuses(ValueError, "source must be int64 or int32", tm.Graph.from_edges, 3, some[0], some[1])
        self.refuses(ValueError, r"edge_index must be int64 or int32 \[2, E\]", tm.Pattern.from_edge_index, some)
        self.refuses(ValueError, r"edge_index must be \[2, E\], got \[3, 0\]", tm.Graph.from_edge_index, torch.empty(3, 0))
        self.refuses(ValueError, "source must be int64 or int32", tm.Graph.from_pyg, data_of(some, nodes=3))


class Places(Case):
    """Graph.entries_of and Graph.edge_of_entry."""

    def graphs(self):
        undirected = tm.Graph.erdos_renyi(12, 0.3, seed=2)
        undirected = undirected.normalised().to(F64)
        self.assertGreater(len(undirected.weights.unique()), 5)
        return {"undirected": undirected, "directed": digraph(), "one node": tm.Graph.from_edges(1, [0], [0], [3.0]).to(F64)}

    def test_weights_of_given_edges(self):
        for name, graph in self.graphs().items():
            with self.subTest(name=name):
                edges = shuffled(graph)
                edges = torch.cat([edges, edges[:, :3]], 1)  # some twice
                for given in (edges, edges.int(), edges.tolist()):
                    places = graph.entries_of(given)
                    self.assertEqual(places.dtype, torch.int64)
                    self.assertTrue(torch.equal(graph.edge_index()[:, places], edges))
                    self.assertTrue(torch.equal(graph.weights[places], graph.dense()[tuple(edges)]))
                self.assertEqual(graph.entries_of(edges[:, :0]).tolist(), [])

    def test_a_reversed_graph_has_the_edges_flipped(self):
        edges = shuffled(digraph())
        weights = random(edges.shape[1])
        graph = tm.Graph.from_pyg(data_of(edges, weights), flow="source_to_target")
        self.assertTrue(torch.equal(graph.weights[graph.entries_of(edges.flip(0))], weights))
        self.assertTrue(torch.equal(weights[graph.edge_of_entry(edges.flip(0))], graph.weights))
        self.refuses(ValueError, "must hold edges of the graph alone", graph.entries_of, edges)
        self.refuses(ValueError, "must hold every edge of the graph", graph.edge_of_entry, edges)

    def test_values_of_edges_become_the_weights(self):
        """In the order of any edge_index, with the gradients of a dense matrix."""
        alpha = torch.tensor([1.0, 0.5, 0.3], dtype=F64)
        for name, graph in self.graphs().items():
            with self.subTest(name=name):
                edges = shuffled(graph)
                values = random(edges.shape[1]).requires_grad_()
                rows, columns = edges
                if not graph.directed:  # the first of the two has the value of both
                    first = {}
                    for place, edge in enumerate(zip(*edges.tolist())):
                        first.setdefault(tuple(sorted(edge)), place)
                    place = torch.tensor([first[tuple(sorted(edge))] for edge in zip(*edges.tolist())])
                else:
                    place = torch.arange(len(values))
                edge = graph.edge_of_entry(edges)
                mask = tm.power_series_mask(graph.with_weights(values.index_select(0, edge)), alpha)
                dense = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=F64).index_put((rows, columns), values[place])
                want = torch.eye(graph.num_nodes) + 0.5 * dense + 0.3 * dense @ dense
                self.close(mask.dense(), want, 1e-12)
                cotangent = random(*want.shape)
                got, expected = (torch.autograd.grad(y, values, cotangent)[0] for y in (mask.dense(), want))
                self.close(got, expected, 1e-12)

    def test_duplicates_and_edges_that_are_not_in_the_graph(self):
        edges = torch.tensor([[3, 1, 0, 1, 2, 0, 2], [3, 0, 1, 2, 1, 1, 2]])  # with self-loops and (0, 1) thrice
        for self_loops, extra in (("drop", []), ("keep", [(2, 2), (3, 3)])):
            with self.subTest(self_loops=self_loops):
                graph = tm.Graph.from_edge_index(edges, num_nodes=4, self_loops=self_loops)
                of_entry = dict(zip(zip(*graph.edge_index().tolist()), graph.edge_of_entry(edges).tolist()))
                expected = {(0, 1): 1, (1, 0): 1, (1, 2): 3, (2, 1): 3, (2, 2): 6, (3, 3): 0}
                self.assertEqual(of_entry, {edge: place for edge, place in expected.items() if edge[0] != edge[1] or edge in extra})
        directed = tm.Graph.from_edge_index(edges, num_nodes=4, directed=True, self_loops="drop")
        of_entry = dict(zip(zip(*directed.edge_index().tolist()), directed.edge_of_entry(edges).tolist()))
        self.assertEqual(of_entry, {(0, 1): 2, (1, 0): 1, (1, 2): 3, (2, 1): 4})
        beyond = torch.cat([edges, torch.tensor([[-1, 9, 2**40], [0, 0, 1]])], 1)
        self.assertTrue(torch.equal(directed.edge_of_entry(beyond), directed.edge_of_entry(edges)))

    def test_many_nodes(self):
        nodes = 70_000  # the square of which is beyond int32
        edges = torch.tensor([[0, 69_999, 7, 46_341], [69_999, 0, 46_341, 7]], dtype=torch.int32)
        graph = tm.Graph.from_edge_index(edges, num_nodes=nodes)
        self.assertTrue(torch.equal(graph.edge_index()[:, graph.entries_of(edges)], edges.long()))
        self.assertEqual(sorted(graph.edge_of_entry(edges).tolist()), [0, 0, 2, 2])

    def test_what_is_missing_is_named(self):
        graph = tm.Graph.path(4)
        edges = graph.edge_index()
        for bad in ((0, 2), (0, 0), (-1, 0), (0, 4), (2**40, 1)):
            given = torch.cat([edges, torch.tensor([[bad[0]], [bad[1]]]), torch.tensor([[3], [0]])], 1)
            sentence = rf"entries_of: edge_index must hold edges of the graph alone, got \({bad[0]}, {bad[1]}\) at 6"
            self.refuses(ValueError, sentence, graph.entries_of, given)
        sentence = r"edge_of_entry: edge_index must hold every edge of the graph, got none for \(1, 2\)"
        self.refuses(ValueError, sentence, graph.edge_of_entry, edges[:, (edges.sum(0) != 3)])
        self.refuses(ValueError, sentence.replace("1, 2", "0, 1"), graph.edge_of_entry, [[], []])
        for method, name in ((graph.entries_of, "entries_of"), (graph.edge_of_entry, "edge_of_entry")):
            self.refuses(ValueError, rf"Graph.{name}: edge_index must be int64 or int32 \[2, E\]", method, edges.float())
            self.refuses(ValueError, rf"Graph.{name}: edge_index must be \[2, E\], got \[6, 2\]", method, edges.T)
            self.refuses(ValueError, "must be on cpu, where the graph is, got meta", method, edges.to("meta"))
            self.refuses(TypeError, "must be a tensor, a sequence of numbers or a NumPy array", method, "edges")

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_on_a_gpu(self):
        for graph in self.graphs().values():
            edges = shuffled(graph)
            there = graph.to("cuda")
            self.assertTrue(torch.equal(there.entries_of(edges.cuda()).cpu(), graph.entries_of(edges)))
            self.assertTrue(torch.equal(there.edge_of_entry(edges.cuda()).cpu(), graph.edge_of_entry(edges)))
            self.refuses(ValueError, "must be on cuda", there.entries_of, edges)


@needs("torch_geometric")
class TensorsOfPyG(Case):
    def setUp(self):
        from torch_geometric import EdgeIndex, Index

        self.graph = tm.Graph.erdos_renyi(12, 0.3, seed=2)
        self.plain = self.graph.edge_index()
        self.edges = EdgeIndex(self.plain, sparse_size=(12, 12), sort_order="row", is_undirected=True)
        self.index = Index(self.plain[0]), Index(self.plain[1])
        self.x = torch.rand(12, 8)

    def test_graphs_and_patterns(self):
        from torch_geometric.data import Data

        want = self.graph.dense()
        for graph in (
            tm.Graph.from_edge_index(self.edges),
            tm.Graph.from_edge_index(self.edges, num_nodes=12, directed=True),
            tm.Graph.from_edges(12, *self.index),
            tm.Graph.from_edges(12, self.edges[0], self.edges[1]),
            tm.Graph.from_pyg(Data(edge_index=self.edges, num_nodes=12)),
            tm.Graph.from_pyg(Data(edge_index=self.edges, num_nodes=12), duplicates="refuse", self_loops="refuse"),
        ):
            self.assertTrue(torch.equal(graph.dense(), want))
            self.assertIs(type(graph.columns), torch.Tensor)
        self.assertTrue(torch.equal(self.graph.entries_of(self.edges), torch.arange(self.graph.num_entries)))
        self.assertTrue(torch.equal(self.graph.edge_of_entry(self.edges), self.graph.edge_of_entry(self.plain)))
        pattern = tm.Pattern.from_edge_index(self.edges)
        self.assertTrue(torch.equal(pattern.edge_index(), self.plain))
        self.assertTrue(torch.equal(tm.SparseMask(self.edges).dense(), want))

    def test_no_edges(self):
        from torch_geometric import EdgeIndex

        empty = EdgeIndex(torch.empty(2, 0, dtype=torch.int64), sparse_size=(3, 3))
        self.assertEqual(tm.Graph.from_edge_index(empty, num_nodes=3).num_entries, 0)
        conv = tm.pyg.TransformerConv(8, 4)
        self.close(conv(self.x, empty), conv.lin_skip(self.x), 1e-6)

    def test_transformer_conv(self):
        from torch_geometric import EdgeIndex

        for options in ({}, {"edge_dim": 3}, {"flow": "target_to_source"}):
            with self.subTest(**options):
                conv = tm.pyg.TransformerConv(8, 4, heads=2, **options)
                features = torch.rand(self.plain.shape[1], 3) if "edge_dim" in options else None
                one_way = EdgeIndex(self.plain[:, ::3].contiguous(), sparse_size=(12, 12))
                features = None if features is None else features[::3]
                out, (edges, weights) = conv(self.x, one_way, features, return_attention_weights=True)
                self.assertIs(edges, one_way)
                want, (_, others) = conv(self.x, self.plain[:, ::3], features, return_attention_weights=True)
                self.close(out, want, 1e-6)
                self.close(weights, others, 1e-6)
                self.assertIs(type(out), torch.Tensor)
                conv(self.x, one_way, features)
                kept = conv._kept
                conv(self.x, one_way, features)
                self.assertIs(conv._kept, kept)
                torch._dynamo.reset()
                compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
                self.close(compiled(self.x, one_way, features), want, 1e-5)

    def test_gps(self):
        from torch_geometric.nn import GINConv, GPSConv

        for mask in ("grf", "power_series", "neighbours", "none"):
            with self.subTest(mask=mask):
                torch.manual_seed(0)
                layer = tm.pyg.GPSAttention(8, heads=2, mask=mask, features="elu")
                results = []
                for edges in (self.edges, self.plain):
                    layer.set_graph(edges, 12)
                    results.append(layer(self.x[None])[0])
                self.close(*results, 1e-6)
                conv = GPSConv(8, GINConv(torch.nn.Linear(8, 8)), heads=2, norm=None, dropout=0.0)
                conv = tm.pyg.use_in_gps(conv, layer)
                self.close(conv(self.x, self.edges), conv(self.x, self.plain), 1e-5)
                kept = [one.mask for one in layer._kept]
                conv(self.x, self.edges)
                self.assertEqual([id(one.mask) for one in layer._kept], [id(one) for one in kept])
                conv(self.x, self.edges).sum().backward()


if __name__ == "__main__":
    unittest.main()
