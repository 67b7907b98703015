"""TransformerConv: against the definition, and against PyG where it is installed."""

import copy
import pickle
import unittest
import unittest.mock

import torch
from families import random
from support import Case, needs, tm, ways_of_writing

EDGES = torch.cat([tm.Graph.erdos_renyi(30, 0.2, seed=2).edge_index(), torch.tensor([[1, 1, 1], [2, 2, 1]])], 1)  # (1, 2) thrice


def definition(layer, x, edges, features=None):
    """TransformerConv edge by edge, without the kernel; also α [E, H]."""
    source, target = edges
    split = (-1, layer.heads, layer.out_channels)
    q, k, v = (linear(x).view(split) for linear in (layer.lin_query, layer.lin_key, layer.lin_value))
    extra = 0 if features is None else layer.lin_edge(features).view(split)
    scores = ((q[target] * (k[source] + extra)).sum(-1) / layer.out_channels**0.5).exp()
    total = torch.zeros(len(x), layer.heads, dtype=x.dtype).index_add(0, target, scores)
    weights = scores / total[target]
    out = torch.zeros_like(q).index_add(0, target, weights.unsqueeze(-1) * (v[source] + extra))
    out = out.flatten(1) if layer.concat else out.mean(1)
    skip = layer.lin_skip(x)
    if not layer.root_weight:
        return out, weights
    if layer.lin_beta is None:
        return out + skip, weights
    gate = layer.lin_beta(torch.cat([out, skip, out - skip], -1)).sigmoid()
    return gate * skip + (1 - gate) * out, weights


class TransformerConv(Case):
    def test_it_is_the_definition_with_all_gradients(self):
        for options in ({}, {"concat": False}, {"beta": True}, {"root_weight": False, "bias": False}):
            for edge_dim in (None, 5):
                with self.subTest(edge_dim=edge_dim, **options):
                    torch.manual_seed(0)
                    layer = tm.pyg.TransformerConv(6, 4, heads=3, edge_dim=edge_dim, **options).double()
                    x = random(30, 6).requires_grad_()
                    features = None if edge_dim is None else random(EDGES.shape[1], edge_dim).requires_grad_()
                    inputs = [t for t in (x, features) if t is not None] + [p for p in layer.parameters()]
                    out, (edges, weights) = layer(x, EDGES, features, return_attention_weights=True)
                    want, want_weights = definition(layer, x, EDGES, features)
                    self.assertIs(edges, EDGES)
                    cotangent, other = random(*want.shape), random(*want_weights.shape)
                    got = torch.autograd.grad([out, weights], inputs, [cotangent, other], allow_unused=True)
                    expected = torch.autograd.grad([want, want_weights], inputs, [cotangent, other], allow_unused=True)
                    for a, b in zip([out, weights, *got], [want, want_weights, *expected]):
                        self.assertEqual(a is None, b is None)
                        if a is not None:
                            self.assertEqual(a.shape, b.shape)  # absolute: the gradient of the keys' bias is 0
                            self.assertLess(float((a - b).abs().max()), 1e-10)

    def test_a_sparse_matrix_is_the_same_edges(self):
        layer = tm.pyg.TransformerConv(6, 4, heads=3)
        edges = tm.Graph.erdos_renyi(30, 0.2, seed=2).edge_index()[:, ::2]
        x = torch.rand(30, 6)
        want = layer(x, edges)
        matrix = torch.sparse_coo_tensor(edges.flip(0), torch.ones(edges.shape[1]), (30, 30))
        for adjacency in (matrix, matrix.to_sparse_csr(), matrix.to_sparse_csc()):
            self.close(layer(x, adjacency), want, 1e-5)

    def test_dropout_is_of_the_weights_and_only_in_training(self):
        torch.manual_seed(0)
        layer = tm.pyg.TransformerConv(6, 4, heads=2, dropout=0.5, root_weight=False).double()
        x = random(30, 6)
        want, _ = definition(layer, x, EDGES)
        layer.eval()
        self.close(layer(x, EDGES), want, 1e-9)
        layer.train()
        samples = torch.stack([layer(x, EDGES) for _ in range(400)])
        spread = samples.std(0) / 400**0.5
        self.assertLess(float(((samples.mean(0) - want).abs() / spread.clamp(min=1e-12)).max()), 6)
        self.assertGreater(float(samples.std(0).max()), 0.01)

    def test_what_it_kept_follows_the_edges(self):
        layer = tm.pyg.TransformerConv(6, 4)
        for name, write in ways_of_writing().items():
            with self.subTest(name):
                edges, x = EDGES.clone(), torch.rand(30, 6)
                before = layer(x, edges)
                self.assertIs(layer._edges(edges, 30, 30, False), layer._edges(edges, 30, 30, False))
                write(edges, (0, 0), 7)
                write(edges, (1, 0), 9)
                fresh = copy.deepcopy(layer)(x, edges.clone())
                self.close(layer(x, edges), fresh, 1e-6)
                self.assertFalse(torch.allclose(before, fresh))
                self.close(pickle.loads(pickle.dumps(layer))(x, edges), fresh, 1e-6)

    def test_compiled_without_a_break_for_any_graph(self):
        for options in ({}, {"edge_dim": 3}, {"dropout": 0.0, "beta": True, "concat": False}):
            with self.subTest(**options):
                torch._dynamo.reset()
                layer = tm.pyg.TransformerConv(6, 4, heads=2, **options)
                compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
                with torch._dynamo.config.patch(error_on_recompile=True):
                    for nodes, density in ((30, 0.3), (17, 0.5), (50, 0.2)):  # for few edges a node it is compiled again
                        edges = tm.Graph.erdos_renyi(nodes, density, seed=2).edge_index()
                        edges = torch.cat([edges, edges[:, :3]], 1)  # some twice
                        features = torch.rand(edges.shape[1], 3) if "edge_dim" in options else None
                        results = []
                        for run in (layer, compiled):
                            x = torch.rand(nodes, 6, generator=torch.Generator().manual_seed(3)).requires_grad_()
                            out = run(x, edges, features)
                            results.append([out, *torch.autograd.grad(out.square().sum(), [x, layer.lin_key.weight])])
                        for a, b in zip(*results):
                            self.close(a, b, 1e-4)
        with self.assertRaisesRegex(Exception, r"source nodes in edge_index must be in \[0, 50\), got 50"):
            compiled(torch.rand(50, 6), torch.tensor([[50, 1], [0, 1]]))

    def test_nodes_without_edges_and_no_edges_at_all(self):
        layer = tm.pyg.TransformerConv(6, 4, edge_dim=2)
        x = torch.rand(5, 6)
        self.close(layer(x, torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0, 2)), layer.lin_skip(x), 1e-6)

    def test_bad_arguments(self):
        layer = tm.pyg.TransformerConv(6, 4)
        x = torch.rand(5, 6)
        self.refuses(ValueError, r"dropout must be in \[0, 1\), got 1.5", tm.pyg.TransformerConv, 6, 4, dropout=1.5)
        self.refuses(ValueError, r"source nodes in edge_index must be in \[0, 5\), got 5", layer, x, torch.tensor([[5], [0]]))
        self.refuses(ValueError, r"target nodes in edge_index must be in \[0, 5\), got -1", layer, x, torch.tensor([[0], [-1]]))
        self.refuses(ValueError, r"edge_index must be int64 \[2, E\]", layer, x, torch.rand(2, 3))
        self.refuses(ValueError, "edge_attr must come with edge_dim", layer, x, torch.tensor([[0], [1]]), torch.rand(1, 3))
        with_edges = tm.pyg.TransformerConv(6, 4, edge_dim=3)
        self.refuses(ValueError, r"edge_attr must be \[1, 3\], got None", with_edges, x, torch.tensor([[0], [1]]))

    def layers(self, inputs=6, **options):
        from torch_geometric.nn import TransformerConv

        theirs = TransformerConv(inputs, 4, heads=3, **options)
        ours = tm.pyg.TransformerConv(inputs, 4, heads=3, **options)
        ours.load_state_dict(theirs.state_dict())
        return ours, theirs

    @needs("torch_geometric")
    def test_it_is_pygs_layer(self):
        for options in ({}, {"concat": False}, {"beta": True}, {"edge_dim": 5}, {"root_weight": False, "bias": False}):
            with self.subTest(**options):
                ours, theirs = self.layers(**options)
                features = torch.rand(EDGES.shape[1], 5) if "edge_dim" in options else None
                results = []
                for layer in (ours, theirs):
                    x = torch.rand(30, 6, generator=torch.Generator().manual_seed(3)).requires_grad_()
                    out, (_, weights) = layer(x, EDGES, features, return_attention_weights=True)
                    grads = torch.autograd.grad(out.square().sum(), [x, layer.lin_key.weight, layer.lin_value.weight])
                    results.append([out, weights, *grads])
                for a, b in zip(*results):
                    self.close(a, b, 1e-4)
                self.assertEqual(str(ours), str(theirs))

    @needs("torch_geometric")
    def test_arguments_of_the_base_class(self):
        ours, theirs = self.layers(flow="target_to_source", aggr="add")
        x = torch.rand(30, 6)
        one_way = EDGES[:, ::3]
        self.close(ours(x, one_way), theirs(x, one_way), 1e-5)
        pair = torch.rand(10, 6), torch.rand(7, 6)
        edges = torch.stack([torch.randint(7, (20,)), torch.randint(10, (20,))])
        self.close(ours(pair, edges), theirs(pair, edges), 1e-5)
        got, (_, weights) = ours(x, one_way, return_attention_weights=True)
        self.close(weights, theirs(x, one_way, return_attention_weights=True)[1][1], 1e-5)
        make = tm.pyg.TransformerConv
        self.refuses(ValueError, "aggr must be add", make, 6, 4, aggr="mean")
        self.refuses(ValueError, "flow must be one of", make, 6, 4, flow="down")
        self.refuses(ValueError, "node_dim must be 0", make, 6, 4, node_dim=1)
        sparse = torch.eye(30).to_sparse_coo()
        self.refuses(ValueError, 'flow must be "source_to_target" for a sparse tensor', ours, x, sparse)

    @needs("torch_geometric")
    def test_between_two_kinds_of_nodes(self):
        ours, theirs = self.layers((6, 5))
        x = torch.rand(10, 6), torch.rand(7, 5)
        edges = torch.stack([torch.randint(10, (20,)), torch.randint(7, (20,))])
        self.close(ours(x, edges), theirs(x, edges), 1e-5)


if __name__ == "__main__":
    unittest.main()
