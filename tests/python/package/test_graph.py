"""Graphs, patterns, walks and files as values: builders, conversions, pickling, workers."""

import copy
import math
import pathlib
import pickle
import tempfile
import types
import unittest
import warnings

import torch
from support import Case, tm
from topomask import modules
from torch.utils import _pytree


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a._tensors().values(), b._tensors().values()))


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        graph = tm.Graph.grid(index + 2, 3)
        return graph, tm.sample_walks(graph, walkers=2, seed=index)


class Graphs(Case):
    def test_neighbourhoods(self):
        directed = tm.Graph.from_edge_index(torch.tensor([[0, 1, 3], [1, 2, 0]]), num_nodes=5, directed=True)
        for graph in (tm.Graph.grid(4, 5), tm.Graph.erdos_renyi(25, 0.08, seed=3), directed, tm.Graph.path(0)):
            reach = (graph.dense() != 0) | torch.eye(graph.num_nodes, dtype=torch.bool)
            for hops in (0, 1, 2, 5):
                want = torch.linalg.matrix_power(reach.double(), hops) > 0
                pattern = graph.neighbourhoods(hops)
                got = torch.zeros_like(want)
                got[tuple(pattern.edge_index())] = True
                self.assertTrue(torch.equal(got, want), (graph, hops))
                self.assertEqual(pattern.entries, int(want.sum()))
        self.refuses(ValueError, "hops must be >= 0, got -1", tm.Graph.path(3).neighbourhoods, -1)
        self.refuses(ValueError, "max_entries must allow", tm.Graph.grid(20, 20).neighbourhoods, 3, max_entries=1000)
        self.assertEqual(tm.Graph.icosphere(2).neighbourhoods(2).offsets.diff().max(), 19)  # a hexagon's 1 + 6 + 12

    def test_builders(self):
        sizes = {
            tm.Graph.path(5): (5, 4),
            tm.Graph.cycle(5): (5, 5),
            tm.Graph.grid(3, 4): (12, 17),
            tm.Graph.grid([3, 4], wrap=True): (12, 24),
            tm.Graph.complete(5): (5, 10),
            tm.Graph.star(5): (5, 4),
            tm.Graph.hypercube(3): (8, 12),
            tm.Graph.tree(2, 3): (15, 14),
            tm.Graph.forest(torch.tensor([-1, 0, -1])): (3, 1),
            tm.Graph.icosphere(2): (162, 480),
            tm.Graph.from_edges(3, torch.tensor([0, 1]), torch.tensor([1, 2])): (3, 2),
            tm.Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]])): (3, 2),
        }
        for graph, (nodes, edges) in sizes.items():
            self.assertEqual((graph.num_nodes, graph.num_edges), (nodes, edges), graph)
            self.assertEqual(graph.dense().count_nonzero(), graph.num_entries)
        self.assertEqual(repr(tm.Graph.path(5)), "Graph(5 nodes, 4 edges, float32)")
        points = tm.icosphere(1).points
        self.assertEqual(repr(tm.icosphere(1)), "Icosphere(42 nodes, 120 edges, 80 faces)")
        self.close(points.norm(dim=1), torch.ones(42))
        self.assertEqual(tm.Graph.knn(points, 3, directed=True).num_entries, 126)
        self.assertTrue(same(tm.Graph.erdos_renyi(50, 0.2, seed=3), tm.Graph.erdos_renyi(50, 0.2, seed=3)))

    def test_transformations(self):
        graph = tm.Graph.grid(3, 4)
        self.close(graph.normalised().dense().sum(), graph.normalised().weights.sum(), 1e-6)
        self.assertEqual(graph.to(torch.float64).dtype, torch.float64)
        order = tm.reverse_cuthill_mckee(graph)
        self.assertEqual(sorted(order.tolist()), list(range(12)))
        self.assertTrue(torch.equal(tm.permuted(graph, order).dense(), graph.dense()[order][:, order]))
        self.assertEqual(tm.induced_subgraph(graph, torch.tensor([0, 1, 5])).num_edges, 2)
        self.assertEqual(tm.cartesian_product(tm.Graph.path(3), tm.Graph.path(4)).num_edges, graph.num_edges)
        batch = tm.GraphBatch.of([graph, tm.Graph.path(2)])
        self.assertEqual((len(batch), batch.offsets, tm.connected_components(batch.graph).count), (2, (0, 12, 14), 2))
        self.assertEqual([len(part) for part in batch.split(torch.ones(14, 1))], [12, 2])

    def test_values_are_made_on_the_cpu_whatever_the_default_device_is(self):
        """Graphs, walks and the values of masks follow what they are made of; without that they are on the CPU."""
        waves = [[0.0, 0.1], [1.0, 0.3]]
        with torch.device("meta"):
            grid = tm.Graph.grid(5, 6)
            made = [
                grid,
                tm.Graph.tree(2, 3),
                tm.Graph.knn([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], 1),
                tm.Graph.from_edges(3, [0, 1], [1, 2], [1.0, 2.0]),
                tm.Graph.from_edge_index([[0, 1], [1, 2]]),
                tm.icosphere(1).graph,
                tm.sample_walks(grid),
                tm.Forest.from_graph(tm.Graph.path(4)).to(torch.float64),
            ]
            masks = [
                tm.NoneMask(30), tm.CausalMask(30), tm.DenseMask([[1.0, 2.0], [3.0, 4.0]]), tm.SparseMask(grid, heads=2),
                tm.NeighboursMask(grid), tm.WeightedNeighboursMask(grid), tm.PowerSeriesMask(grid), tm.GRFMask(grid, heads=2),
                tm.TwoSidedGRFMask(grid), tm.HybridGRFMask(grid), tm.StitchedGRFMask(grid), tm.WalkingMask(grid),
                tm.NodeKernelMask(grid), tm.NodeFrequencyMask(grid), tm.AutoMask(grid, [1.0, 0.5], 0.1), tm.ToeplitzMask([5, 6]),
                tm.ToeplitzDistanceMask([5, 6]), tm.TreeMask(tm.Graph.path(4)), tm.DiffusionMask(grid), tm.CentralityMask(grid),
                tm.HypercubeDiffusionMask(3), tm.ProductDiffusionMask([tm.Graph.path(3)]), tm.StochasticPositionalMask(9, *waves),
                tm.FreeFeaturesMask([[1.0], [2.0]]), tm.ShortestPathMask(grid), tm.GlobalTokens(tm.GRFMask(grid)),
                tm.LowRankDiffusionMask([[1.0], [2.0]], [[1.0], [2.0]]),
            ]  # fmt: skip
            tm.TreeMask(tm.Forest(torch.tensor([-1, 0, 1], device="cpu")), tm.DistanceFunction.smooth(math.exp))
        for value in made:
            self.assertEqual({tensor.device.type for tensor in value._tensors().values()}, {"cpu"}, value)
        for mask in masks:
            tensors = [*mask.parameters(), *mask.buffers()]
            self.assertLessEqual({tensor.device.type for tensor in tensors}, {"cpu"}, mask)
            x = torch.rand(1, mask.heads, mask.size, 2)
            self.assertTrue(bool(tm.attention(x, x, x, mask).isfinite().all()), mask)
            self.assertEqual(mask.dense().shape[-1], mask.size)

    def test_default_device_of_a_process(self):
        torch.set_default_device("meta")
        try:
            mask = tm.GRFMask(tm.Graph.grid(3, 3), heads=2)
            layer = tm.nn.MaskedAttention(8, heads=2, mask=mask)
        finally:
            torch.set_default_device(None)
        self.assertEqual((mask.f.device.type, layer.qkv.weight.device.type), ("cpu", "meta"))

    def test_initial_values_go_where_the_graph_is(self):
        for value in (0.5, torch.tensor(0.5), torch.tensor([0.5, 0.5])):
            self.assertEqual(modules._per_head(value, 2, torch.float64, torch.device("meta")).device.type, "meta")
        for made in (
            modules._parameter([1.0, 2.0], torch.float64, torch.device("meta")),
            modules._initial("values", [1.0, 2.0], 2, 1, torch.device("meta")),
            modules._coefficients(None, 3, 2, torch.float64, torch.device("meta")),
        ):
            self.assertEqual(made.device.type, "meta")
        given = torch.ones(3)
        for made in (modules._parameter(given), modules._initial("values", given, None, 1)):
            self.assertNotEqual(made.data_ptr(), given.data_ptr())

    def test_edges_of_int32_and_of_many_nodes(self):
        nodes = 50_000  # the square of which is beyond int32
        edges = torch.tensor([[0, 49_999, 7, 46_341], [49_999, 0, 46_341, 7]], dtype=torch.int32)
        data = types.SimpleNamespace(edge_index=edges, num_nodes=nodes)
        graph = tm.Graph.from_pyg(data)
        self.assertFalse(graph.directed)
        self.assertEqual(sorted(graph.edge_index().T.tolist()), sorted(edges.T.tolist()))
        data.edge_index = torch.tensor([[65_536], [0]], dtype=torch.int32)  # the key of its mirror image is the same in 32 bits
        data.num_nodes = 65_537
        self.assertTrue(tm.Graph.from_pyg(data).directed)
        conv = tm.pyg.TransformerConv(2, 2)
        x = torch.rand(nodes, 2)
        self.close(conv(x, edges), conv(x, edges.long()), 0)

    def test_values_pickle_copy_and_are_frozen(self):
        graph = tm.Graph.grid(3, 4)
        walks = tm.sample_walks(graph, walkers=3, group_products=True, seed=2**63 + 5)
        forest = tm.Forest.from_graph(tm.Graph.tree(2, 2))
        for value in (graph, graph.pattern, walks, forest):
            for other in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
                self.assertTrue(same(value, other))
                self.assertEqual(repr(value), repr(other))
            leaves, tree = _pytree.tree_flatten({"here": value})
            self.assertTrue(same(value, _pytree.tree_unflatten(leaves, tree)["here"]))
            with self.assertRaises(AttributeError):
                value.offsets = None
        again = pickle.loads(pickle.dumps(walks))
        self.assertEqual(again.options.seed, 2**63 + 5)
        f = torch.rand(4)
        self.close(tm.grf_mask(again, f, diagonal="debiased").dense(), tm.grf_mask(walks, f, diagonal="debiased").dense(), 0)
        self.assertTrue(same(tm.extend_walks(again, graph, 2), tm.sample_walks(graph, walks.options, walkers=5)))

    def test_they_come_out_of_workers_of_a_data_loader(self):
        loader = torch.utils.data.DataLoader(Squares(), batch_size=None, num_workers=2)
        for index, (graph, walks) in enumerate(loader):
            self.assertTrue(same(graph, tm.Graph.grid(index + 2, 3)))
            self.assertEqual(walks.num_nodes, graph.num_nodes)

    def test_batches_come_out_of_spawned_workers(self):
        loader = torch.utils.data.DataLoader(
            [tm.Graph.path(n) for n in (2, 3, 4)],
            batch_size=3,
            num_workers=1,
            collate_fn=tm.GraphBatch.of,
            multiprocessing_context="spawn",
        )
        (batch,) = loader
        self.assertEqual(batch.offsets, (0, 2, 5, 9))
        self.assertTrue(torch.equal(batch.graph.dense(), tm.GraphBatch.of([tm.Graph.path(n) for n in (2, 3, 4)]).graph.dense()))

    def test_a_batch_moves_and_is_a_tree_of_tensors(self):
        batch = tm.GraphBatch.of([tm.Graph.path(2), tm.Graph.cycle(3)])
        exact = batch.to(torch.float64)
        self.assertEqual((exact.graph.dtype, exact.offsets, exact.membership.tolist()), (torch.float64, (0, 2, 5), [0, 0, 1, 1, 1]))
        leaves, tree = _pytree.tree_flatten(batch)
        self.assertEqual(len(leaves), 4)
        again = _pytree.tree_unflatten(leaves, tree)
        self.assertTrue(same(again.graph, batch.graph))
        self.assertEqual(again.offsets, batch.offsets)
        self.assertTrue(torch.equal(_pytree.tree_map(lambda t: t.clone(), batch).membership, batch.membership))
        if torch.cuda.is_available():
            self.assertTrue(batch.pin_memory().graph.weights.is_pinned())
            self.assertEqual(batch.to("cuda").membership.device.type, "cuda")

    def test_torch_load_takes_values_with_weights_only(self):
        graph = tm.Graph.grid(3, 4)
        walks = tm.sample_walks(graph, walkers=3, group_products=True)
        values = {
            "graph": graph,
            "pattern": graph.pattern,
            "walks": walks,
            "options": walks.options,
            "forest": tm.Forest(torch.tensor([-1, 0, 0])),
            "batch": tm.GraphBatch.of([graph, graph]),
        }
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/values.pt"
            torch.save(values, path)
            loaded = torch.load(path, weights_only=True)
            for name in ("graph", "pattern", "walks", "forest"):
                self.assertTrue(same(loaded[name], values[name]))
            self.assertEqual(loaded["options"]._fields(), walks.options._fields())
            self.assertTrue(same(loaded["batch"].graph, values["batch"].graph))
            broken = tm.Graph._unchecked({**graph._fields(), "columns": graph.columns + 100})
            torch.save(broken, path)
            self.refuses(ValueError, "column", lambda: torch.load(path, weights_only=True).normalised())
            sentence = "Graph: a saved value must have the fields .*, got _kept"
            self.refuses(ValueError, sentence, broken.__setstate__, {"_kept": 3})

    def test_bad_input_is_refused_where_it_is_given(self):
        self.refuses(ValueError, "grid: dims must not be negative", tm.Graph.grid, -1, 2)
        self.refuses(TypeError, "int", tm.Graph.path, "three")
        offsets, columns = torch.tensor([0, 1, 2]), torch.tensor([1, 5], dtype=torch.int32)
        self.refuses(ValueError, "column", tm.Pattern, offsets, columns, 2)
        self.refuses(ValueError, "", tm.Graph, offsets, columns, torch.ones(2))
        self.refuses(ValueError, "must be given once, got \\(0, 1\\)", tm.Pattern.from_edge_index, torch.tensor([[0, 0], [1, 1]]))
        self.refuses(ValueError, "in \\[0, 2\\), got 7", tm.Pattern.from_edge_index, torch.tensor([[0], [7]]), 2)
        self.refuses(ValueError, "coupling must be", tm.sample_walks, tm.Graph.path(3), coupling="pairs")
        self.refuses(TypeError, "walker", tm.sample_walks, tm.Graph.path(3), walker=3)
        self.refuses(ValueError, "seed must be", tm.sample_walks, tm.Graph.path(3), seed=2**64)
        self.refuses(FileNotFoundError, "nowhere.txt", tm.read_graph, "nowhere.txt")


class Files(Case):
    def test_every_format_reads_what_was_written(self):
        graph = tm.Graph.grid(4, 5)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a.txt", "a.txt.gz", "a.graph", "a.mtx", "a.npz"):
                path = pathlib.Path(folder) / name
                graph.write(path)
                self.assertTrue(same(tm.Graph.read(path), graph), name)
            tm.write_snap(graph, f"{folder}/b")
            self.assertTrue(same(tm.read_snap(f"{folder}/b"), graph))
            tm.write_metis(graph, f"{folder}/c")
            self.assertTrue(same(tm.read_metis(f"{folder}/c"), graph))
            tm.write_matrix_market(graph, f"{folder}/d")
            self.assertTrue(same(tm.read_matrix_market(f"{folder}/d"), graph))
            tm.write_npz(graph, f"{folder}/e.npz")
            self.assertTrue(same(tm.read_npz(f"{folder}/e.npz"), graph))
            self.refuses(ValueError, "max_nodes|nodes", tm.read_graph, f"{folder}/a.txt", max_nodes=3)
            self.refuses(ValueError, "path must end in", graph.write, f"{folder}/a.xyz")
            walks = tm.sample_walks(graph)
            tm.save_walks(walks, f"{folder}/w.bin")
            self.assertTrue(same(tm.load_walks(f"{folder}/w.bin"), walks))

    def test_ids_that_begin_at_one(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.txt"
            path.write_text("1 2\n2 3\n")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                as_it_stands = [tm.Graph.read(path), tm.read_graph(path), tm.read_snap(path)]
            self.assertEqual([graph.num_nodes for graph in as_it_stands], [4, 4, 4])
            self.assertEqual([str(w.message) for w in caught], [
                f"{op}: {path}: node ids run from 1 to 3, so that node 0 has no edge; the option one_based reads id 1 as node 0"
                for op in ("read_snap", "read_snap", "read_snap")
            ])  # fmt: skip
            self.assertEqual({w.category for w in caught}, {UserWarning})
            self.assertEqual({w.filename for w in caught}, {__file__})  # the line of the user
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for read in (tm.Graph.read, tm.read_graph, tm.read_snap):
                    self.assertTrue(same(read(path, one_based=True), tm.Graph.path(3)))
                tm.write_npz(as_it_stands[0], f"{folder}/b.npz")
                counted = tm.Graph.from_edges(4, [0, 1], [1, 2])  # the archive says that there are four nodes
                self.assertTrue(same(tm.read_npz(f"{folder}/b.npz", one_based=True), counted))
            path.write_text("0 1\n")
            text = "a.txt:1: a node id must be >= 1 in a file that is read as one_based, got 0"
            self.refuses(ValueError, text, tm.read_snap, path, one_based=True)


class Walks(Case):
    def test_options_by_name_or_as_a_value(self):
        graph = tm.Graph.grid(4, 5).normalised()
        options = tm.WalkOptions(walkers=3, halting_probability=0.2, seed=9, coupling="antithetic")
        by_name = tm.sample_walks(graph, walkers=3, halting_probability=0.2, seed=9, coupling="antithetic")
        self.assertTrue(same(tm.sample_walks(graph, options), by_name))
        self.assertEqual(by_name.options._fields(), options._fields())
        self.assertEqual((by_name.walkers, by_name.max_hops, by_name.groups), (3, 100, 2))
        self.assertTrue(torch.equal(by_name.kept_loads, by_name.loads))
        self.assertIn("3 walkers", repr(by_name))

    def test_resampling_and_exact_heads(self):
        before, after = tm.Graph.path(50), tm.Graph.cycle(50)
        table = tm.sample_walks(before, seed=4)
        again = tm.resample_walks(table, before, after)
        self.assertTrue(same(again.table, tm.sample_walks(after, seed=4)))
        self.assertLess(again.rows, 50)
        graph = tm.Graph.grid(4, 4).to(torch.float64).normalised(0.9)
        walks = tm.with_exact_head(tm.sample_walks(graph, exact_hops=2, max_hops=2), graph)
        f = torch.tensor([1.0, 0.5, 0.25], dtype=torch.float64)
        self.close(tm.asymmetric_grf_mask(walks, f).dense(), tm.power_series_mask(graph, f).dense())


class Theory(Case):
    def test_suggestions_and_errors(self):
        graph = tm.Graph.grid(6, 6).normalised()
        f = tm.diffusion_coefficients(6).float()
        suggestion = tm.suggest(graph, f, 0.2, max_walkers=64)
        self.assertIn(suggestion.estimator, ("symmetric", "one_sided"))
        self.assertGreater(suggestion.terms, 0)
        self.assertIn("exact", str(suggestion))
        error = tm.mask_error(graph, f=f, walkers=16)
        self.assertEqual(error.mean.shape, (32, 36))
        masks = [tm.grf_mask(tm.sample_walks(graph, seed=s), f) for s in range(3)]
        self.assertGreater(tm.mask_error(masks, torch.arange(4)).relative, 0)
        constant = tm.walk_constant(graph, f, 0.5)
        walkers = tm.walkers_for(0.1, 0.05, constant)
        self.assertLessEqual(tm.concentration_bound(walkers, 0.1, constant), 0.05)
        self.assertGreater(constant, tm.telescoping_walk_constant(graph, f, 0.5) * 0.1)
        flops = tm.attention_flops(tm.sample_walks(graph), 8, 8)
        self.assertEqual(flops.softmax, 4 * 36 * 36 * 8)
        self.assertTrue(math.isfinite(flops.grf))

    def test_points_and_memory(self):
        factors = tm.random_fourier_factors(torch.rand(10, 3), features=8)
        self.assertEqual(factors.u.shape, (10, 16))
        tm.release_kept_memory()
        self.assertEqual(tm.kept_memory(), 0)
        limit = tm.kept_memory_limit()
        self.addCleanup(tm.set_kept_memory_limit, limit)
        tm.set_kept_memory_limit(12345)
        self.assertEqual(tm.kept_memory_limit(), 12345)
        embedding = tm.degree_embedding(tm.Graph.path(3), torch.eye(3))
        self.assertEqual(embedding.argmax(1).tolist(), [1, 2, 1])


if __name__ == "__main__":
    unittest.main()
