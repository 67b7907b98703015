"""Attention for PyG's GPSConv: against graphs one by one, and in PyG where it is installed."""

import copy
import unittest
import unittest.mock

import torch
from families import random
from support import Case, needs, tm, ways_of_writing
from topomask import gps


def three_graphs():
    return [tm.Graph.grid(3, 4), tm.Graph.cycle(7), tm.Graph.star(5)]


def padded(x, graphs):
    """[N, C] → [graphs, largest, C] and True at padding, as GPSConv hands it over."""
    sizes = [graph.num_nodes for graph in graphs]
    dense = torch.nn.utils.rnn.pad_sequence(x.split(sizes), batch_first=True)
    padding = torch.arange(max(sizes)).expand(len(sizes), -1) >= torch.tensor(sizes).unsqueeze(1)
    return dense, padding


def whole(graph, f):
    return tm.power_series_mask(graph.normalised(), f)


class GPS(Case):
    def test_edges_of_inference_mode(self):
        x = torch.rand(30, 8)
        conv, layer = tm.pyg.TransformerConv(8, 4), tm.pyg.GPSAttention(8, heads=2, mask="neighbours", features="elu")
        with torch.inference_mode():
            edges = tm.Graph.erdos_renyi(30, 0.2, seed=2).edge_index().clone()
            self.assertTrue(edges.is_inference())
            for call in (lambda e: conv(x, e), lambda e: (layer.set_graph(e, 30), layer(x[None]))[1][0]):
                before = call(edges)
                self.close(call(edges), before, 0)
                self.close(before, call(torch.tensor(edges.tolist())), 1e-6)
            edges[:, 0] = torch.tensor([0, 29])  # in place, and no version says so
            for call in (lambda e: conv(x, e), lambda e: (layer.set_graph(e, 30), layer(x[None]))[1][0]):
                self.close(call(edges), call(torch.tensor(edges.tolist())), 1e-6)

    def test_f_keeps_its_precision_and_half_models_work(self):
        edges = tm.Graph.grid(3, 4).edge_index()
        x = torch.rand(1, 12, 8)
        for mask in ("grf", "power_series", "neighbours", "none"):
            with self.subTest(mask=mask):
                torch.manual_seed(0)
                layer = tm.pyg.GPSAttention(8, heads=2, mask=mask, features="elu")
                layer.set_graph(edges, 12)
                want = layer(x)[0]
                low = copy.deepcopy(layer).bfloat16()
                low.set_graph(edges, 12)
                self.assertEqual({p.dtype for name, p in low.named_parameters() if name != "f"}, {torch.bfloat16})
                if hasattr(low, "f"):
                    self.assertEqual(low.f.dtype, torch.float32)
                    self.assertEqual(copy.deepcopy(layer).double().f.dtype, torch.float64)
                out = low(x.bfloat16())[0]
                self.assertEqual(out.dtype, torch.bfloat16)
                self.close(out, want, 0.05)
                out.float().sum().backward()
                low.half()
                exact = layer.double()
                exact.set_graph(edges, 12)
                self.close(exact(x.double())[0], want, 1e-5)

    def test_another_f_is_another_mask(self):
        edges, x = tm.Graph.grid(3, 4).edge_index(), torch.rand(1, 12, 8)
        for mask in ("grf", "power_series", whole):
            with self.subTest(mask=mask):
                layer = tm.pyg.GPSAttention(8, heads=2, mask=mask, features="elu")
                layer.set_graph(edges, 12)
                before = layer(x)[0]
                other = {"f": torch.rand(2, 4, requires_grad=True)}
                got = torch.func.functional_call(layer, other, (x,))[0]
                self.assertFalse(torch.allclose(got, before))
                got.sum().backward()
                self.assertGreater(float(other["f"].grad.abs().max()), 0)
                self.close(layer(x)[0], before, 1e-6)
                state = {**layer.state_dict(), "f": other["f"].detach()}
                layer.load_state_dict(state, assign=True)
                self.close(layer(x)[0], got, 1e-6)

    def test_layers_share_walks_unless_their_options_differ(self):
        edges, x = tm.Graph.grid(3, 4).edge_index(), torch.rand(1, 12, 8)
        layers = [tm.pyg.GPSAttention(8, walkers=3, seed=seed) for seed in (0, 0, 1)]
        for layer in layers:
            layer.set_graph(edges, 12)
        with unittest.mock.patch("topomask.gps.sample_walks", side_effect=tm.sample_walks) as sampled:
            for layer in layers:
                layer(x)
            self.assertEqual(sampled.call_count, 2)
            first, second, third = (layer._mask(x[0]).argument("walks") for layer in layers)
            self.assertTrue(torch.equal(first.columns, second.columns))
            self.assertFalse(torch.equal(first.columns, third.columns[: len(first.columns)]))
            for count, write in enumerate(ways_of_writing().values(), 3):
                write(edges, (0, 0), count)
                layers[0](x)
                self.assertEqual(sampled.call_count, count)
        kept = len(gps._SHARED._of)
        del edges
        for layer in layers:
            layer.set_graph(torch.zeros(2, 0, dtype=torch.int64), 12)
        self.assertLess(len(gps._SHARED._of), kept)

    def test_a_sparse_matrix_is_the_same_edges(self):
        edges = tm.Graph.erdos_renyi(12, 0.3, seed=2).edge_index()[:, ::2]
        matrix = torch.sparse_coo_tensor(edges.flip(0), torch.ones(edges.shape[1]), (12, 12))
        layer, x = tm.pyg.GPSAttention(8, heads=2, mask="neighbours", features="elu"), torch.rand(1, 12, 8)
        layer.set_graph(edges, 12)
        want = layer(x)[0]
        for adjacency in (matrix, matrix.to_sparse_csr(), matrix.to_sparse_csc()):
            layer.set_graph(adjacency, 12)
            self.close(layer(x)[0], want, 1e-6)
        self.refuses(TypeError, "edge_index must be a tensor, got a list", layer.set_graph, [[0], [1]], 12)

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_on_a_gpu(self):
        graphs = three_graphs()
        batch = tm.GraphBatch.of(graphs)
        x = random(batch.graph.num_nodes, 8)
        dense, padding = padded(x, graphs)
        edges = batch.graph.edge_index()
        for mask in ("grf", "power_series", "neighbours", "none", whole):
            with self.subTest(mask=mask):
                torch.manual_seed(0)
                layer = tm.pyg.GPSAttention(8, heads=2, mask=mask, features="elu").double()
                results = []
                for device in ("cpu", "cuda"):
                    layer = layer.to(device)
                    layer.set_graph(edges.to(device), len(x))
                    given = dense.to(device).requires_grad_()
                    out, _ = layer(given, key_padding_mask=padding.to(device))
                    grads = torch.autograd.grad(out.square().sum(), [given, *layer.parameters()])
                    results.append([tensor.cpu() for tensor in (out, *grads)])
                for a, b in zip(*results):
                    self.close(a, b, 1e-8)

    def test_a_batch_is_its_graphs_one_by_one(self):
        graphs = three_graphs()
        batch = tm.GraphBatch.of(graphs)
        x = random(batch.graph.num_nodes, 8)
        for mask in ("power_series", "neighbours", "none", whole):
            for kind in ("kernel", "softmax"):
                if mask == "none" and kind == "softmax":
                    continue
                with self.subTest(mask=mask, kind=kind):
                    torch.manual_seed(0)
                    layer = tm.pyg.GPSAttention(8, heads=2, mask=mask, kind=kind, features=tm.FeatureMap.elu()).double()
                    layer.set_graph(batch.graph.edge_index(), len(x))
                    dense, padding = padded(x, graphs)
                    out, _ = layer(dense, dense, dense, key_padding_mask=padding, need_weights=False)
                    self.assertEqual(float(out[padding].abs().max()), 0)
                    for place, graph in enumerate(graphs):
                        layer.set_graph(graph.edge_index(), graph.num_nodes)
                        alone, _ = layer(dense[place : place + 1, : graph.num_nodes])
                        self.close(out[place, : graph.num_nodes], alone[0], 1e-9)

    def test_nothing_leaks_from_graph_to_graph(self):
        graphs = three_graphs()
        edges = tm.GraphBatch.of(graphs).graph.edge_index()
        for mask in ("grf", "power_series", "neighbours", "none"):
            layer = tm.pyg.GPSAttention(8, heads=2, mask=mask, features="elu")
            layer.set_graph(edges, 24)
            dense, padding = padded(torch.rand(24, 8), graphs)
            dense.requires_grad_()
            out, _ = layer(dense, key_padding_mask=padding)
            (grad,) = torch.autograd.grad(out[1].square().sum(), dense)
            self.assertGreater(float(grad[1].abs().max()), 0)
            self.assertEqual(float(grad[[0, 2]].abs().max()), 0, mask)

    def test_padding_does_not_set_the_largest_exponent(self):
        """Of stabilised features: without padding the others would all be exp(−∞) = 0."""
        torch.manual_seed(0)
        features = tm.FeatureMap.favor(4, 8, seed=1, stabilised=True)
        layer = tm.pyg.GPSAttention(8, heads=2, mask="none", features=features)
        with torch.no_grad():
            layer.in_proj_weight.mul_(20)
        sizes = [5, 9]
        layer.set_graph(torch.empty(2, 0, dtype=torch.int64), 14)
        x = torch.randn(2, 9, 8)
        padding = torch.arange(9).expand(2, -1) >= torch.tensor(sizes).unsqueeze(1)
        dense = x.masked_fill(padding.unsqueeze(-1), 0.0)
        got = layer(dense, key_padding_mask=padding)[0]
        self.assertEqual(float(got[padding].abs().max()), 0)
        for place, size in enumerate(sizes):
            self.close(got[place, :size], layer(x[place : place + 1, :size])[0][0], 1e-4)

    def test_f_learns_and_the_mask_is_made_once(self):
        made = []

        def counted(graph, f):
            made.append(graph)
            return whole(graph, f)

        layer = tm.pyg.GPSAttention(8, heads=2, mask=counted, features="elu")
        edges = tm.Graph.grid(3, 4).edge_index()
        optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
        x, before = torch.rand(1, 12, 8), layer.f.detach().clone()
        for _ in range(3):
            layer.set_graph(edges, 12)
            layer(x)[0].square().sum().backward()
            optimiser.step()
        self.assertEqual(len(made), 1)
        self.assertFalse(torch.equal(layer.f, before))
        copied = copy.deepcopy(layer)
        copied.set_graph(edges, 12)
        self.close(copied(x)[0], layer(x)[0], 1e-6)

    def test_a_directed_edge_is_seen_from_its_target(self):
        layer = tm.pyg.GPSAttention(4, mask="neighbours", features="elu")
        layer.set_graph(torch.tensor([[0], [1]]), 2)
        x = torch.rand(1, 2, 4, requires_grad=True)
        (grad,) = torch.autograd.grad(layer(x)[0][0, 1].sum(), x)
        self.assertGreater(float(grad[0, 0].abs().max()), 0)
        (grad,) = torch.autograd.grad(layer(x)[0][0, 0].sum(), x)
        self.assertEqual(float(grad[0, 1].abs().max()), 0)

    def test_bad_arguments(self):
        make = tm.pyg.GPSAttention
        self.refuses(ValueError, "mask must be one of grf", make, 8, mask="tree")
        self.refuses(ValueError, "kind must be kernel with mask none", make, 8, mask="none", kind="softmax")
        self.refuses(TypeError, "walkers must come with mask grf", make, 8, mask="none", walkers=3)
        self.refuses(RuntimeError, "needs the graph of 3 nodes, got no graph", make(8), torch.rand(1, 3, 8))
        self.refuses(TypeError, "conv must be a GPSConv", tm.pyg.use_in_gps, torch.nn.Linear(2, 2), make(8))

    @needs("torch_geometric")
    def test_gps_conv_trains_with_it(self):
        from torch_geometric.data import Batch, Data
        from torch_geometric.nn import GINConv, GPSConv

        torch.manual_seed(0)
        data = [Data(x=torch.rand(g.num_nodes, 8), edge_index=g.edge_index()) for g in three_graphs()]
        batch = Batch.from_data_list(data)
        for mask in ("grf", "none"):
            conv = GPSConv(8, GINConv(torch.nn.Linear(8, 8)), heads=2, norm=None)
            attention = tm.pyg.GPSAttention(8, heads=2, mask=mask, features="elu")
            conv = copy.deepcopy(tm.pyg.use_in_gps(conv, attention))
            out = conv(batch.x, batch.edge_index, batch.batch)
            out.square().sum().backward()
            self.assertTrue(all(p.grad is not None for p in conv.attn.parameters()))
            if mask == "none":  # walks depend on the numbers of the nodes, nothing else does
                for place, one in enumerate(data):
                    self.close(out[batch.batch == place], conv(one.x, one.edge_index), 1e-5)
            conv.reset_parameters()

    @needs("torch_geometric")
    def test_data_and_batch(self):
        from torch_geometric.data import Batch, Data
        from torch_geometric.nn.conv.gcn_conv import gcn_norm
        from torch_geometric.transforms import ToSparseTensor

        graph = tm.Graph.grid(3, 4)
        data = Data(edge_index=graph.edge_index(), num_nodes=12)
        self.assertTrue(torch.equal(tm.Graph.from_pyg(data).dense(), graph.dense()))
        data.edge_weight = torch.rand(data.num_edges)
        self.assertTrue(tm.Graph.from_pyg(data).directed)
        one_way = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), edge_weight=torch.tensor([2.0, 3.0]), num_nodes=3)
        attends = tm.Graph.from_pyg(one_way).dense()
        self.assertEqual(attends.tolist(), [[0, 2, 0], [0, 0, 3], [0, 0, 0]])
        self.assertTrue(torch.equal(tm.Graph.from_pyg(one_way, flow="source_to_target").dense(), attends.T))
        self.refuses(ValueError, "flow must be one of", tm.Graph.from_pyg, one_way, flow="down")
        for layout in (torch.sparse_csr, torch.sparse_coo):
            sparse = ToSparseTensor(layout=layout)(one_way.clone())
            self.assertIsNone(sparse.edge_index)
            self.assertTrue(torch.equal(tm.Graph.from_pyg(sparse).dense(), attends))
        self.refuses(TypeError, "must have an edge_index or an adj_t", tm.Graph.from_pyg, Data(num_nodes=3))
        symmetric = torch.rand(12, 12)
        symmetric = (symmetric + symmetric.T)[tuple(data.edge_index)]
        normed = Data(edge_index=data.edge_index, num_nodes=12)
        normed.edge_weight = gcn_norm(data.edge_index, symmetric, 12, add_self_loops=False)[1] * (1 + 1e-7 * torch.rand(34))
        self.assertFalse(tm.Graph.from_pyg(normed).directed)
        batch = Batch.from_data_list([Data(edge_index=g.edge_index(), num_nodes=g.num_nodes) for g in three_graphs()])
        joint = tm.Graph.from_pyg(batch)
        self.assertTrue(torch.equal(joint.dense(), tm.GraphBatch.of(three_graphs()).graph.dense()))
        self.assertEqual(tm.connected_components(joint).labels.tolist(), batch.batch.tolist())


if __name__ == "__main__":
    unittest.main()
