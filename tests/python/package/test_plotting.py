"""Pictures of graphs and masks, and what things print as."""

import unittest

import torch
from families import NODES, Ring, families
from support import Case, needs, tm


class Rows(Case):
    def test_the_row_that_is_drawn_is_that_of_the_matrix(self):
        for name, mask in families().items():
            with self.subTest(name=name):
                matrix = mask.dense()
                for head in range(mask.heads):
                    row = matrix[head, 7] if mask.heads > 1 else matrix[7]
                    self.close(tm.plotting.mask_row(mask, 7, head), row, 1e-5 if row.dtype == torch.float32 else 1e-9)
        self.refuses(ValueError, r"node must be in \[0, 30\), got 30", tm.plotting.mask_row, Ring(NODES), 30, 0)
        self.refuses(ValueError, r"head must be in \[0, 1\), got 1", tm.plotting.mask_row, Ring(NODES), 0, 1)

    def test_grids_are_found_and_others_laid_out(self):
        self.assertEqual(tm.plotting.grid_shape(tm.Graph.grid(5, 6)), (5, 6))
        self.assertIsNone(tm.plotting.grid_shape(tm.Graph.grid(5, 6, wrap=True)))
        self.assertIsNone(tm.plotting.grid_shape(tm.Graph.cycle(12)))
        self.assertIsNone(tm.plotting.grid_shape(tm.Graph.erdos_renyi(20, 0.2, seed=1)))
        path = tm.plotting.layout(tm.Graph.path(9))
        along = path[:, 0] - path[:, 0].mean()  # distances along a path fit one coordinate
        self.close(along.diff().abs(), torch.ones(8, dtype=torch.float64), 1e-9)
        apart = tm.plotting.layout(tm.GraphBatch.of([tm.Graph.cycle(5), tm.Graph.path(4)]).graph)
        self.assertTrue(bool(torch.isfinite(apart).all()))
        self.refuses(ValueError, "positions .* must be given beyond 2000 nodes", tm.plotting.layout, tm.Graph.cycle(3000))


@needs("matplotlib")
class Pictures(Case):
    def setUp(self):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        self.addCleanup(pyplot.close, "all")

    def test_graphs(self):
        for graph in (
            tm.Graph.grid(4, 5),
            tm.Graph.star(6),
            tm.Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), directed=True),
        ):
            ax = graph.plot()
            self.assertEqual(len(ax.collections), 2)  # edges, nodes
            self.assertEqual(ax.get_title(), repr(graph))
        points, graph, _ = tm.icosphere(1)
        self.assertEqual(graph.plot(points, values=points[:, 0]).name, "3d")
        self.refuses(ValueError, r"positions must be \[42, 2\]", graph.plot, points[:3])
        self.assertEqual(graph.plot(points.numpy(), values=points[:, 0].numpy()).name, "3d")
        self.refuses(TypeError, "Graph.plot: positions must be a tensor, .* got str", graph.plot, "circle")

    def test_masks(self):
        from matplotlib import pyplot

        for mask in (tm.GRFMask(tm.Graph.grid(5, 6), heads=2), tm.NeighboursMask(tm.Graph.grid(5, 6))):
            ax = mask.plot(7)
            self.assertEqual(tuple(ax.images[0].get_array().shape), (5, 6))
            self.close(torch.tensor(ax.images[0].get_array().tolist()).flatten(), mask.dense().reshape(-1, 30, 30)[0, 7], 1e-5)
        self.assertEqual(len(tm.DiffusionMask(tm.Graph.star(9), 0.5).plot(0).images), 0)  # points
        self.assertEqual(len(Ring(NODES).plot(3).lines), 1)  # no graph: over the nodes
        figure, ax = pyplot.subplots()
        self.assertIs(Ring(NODES).plot(3, ax=ax), ax)
        for positions in (torch.rand(NODES, 2), torch.rand(NODES, 2).numpy(), torch.rand(NODES, 2).tolist()):
            self.assertIs(Ring(NODES).plot(3, positions=positions, ax=ax), ax)


class Printed(Case):
    def test_things_say_what_they_are(self):
        grid = tm.Graph.grid(5, 6)
        walks = tm.sample_walks(grid, walkers=3, seed=1)
        wanted = {
            "Graph(30 nodes, 49 edges, float32)": grid,
            "Pattern(30 × 30, 98 entries)": grid.pattern,
            "NeighboursMask(30)": tm.NeighboursMask(grid),
            "GRFMask(30, heads=2, diagonal=shared)": tm.GRFMask(grid, heads=2),
            "FeatureMap.relu()": tm.FeatureMap.relu(),
            "TransformerConv(3, 4, heads=2)": tm.pyg.TransformerConv(3, 4, heads=2),
        }
        for text, value in wanted.items():
            self.assertEqual(repr(value), text)
        for value in (
            walks,
            tm.Forest(torch.tensor([-1, 0])),
            tm.DistanceFunction.exponential(-0.1),
            tm.GraphBatch.of([grid, grid]),
        ):
            self.assertNotIn("object at 0x", repr(value))
            self.assertLess(len(repr(value)), 200)
        for name, mask in families().items():
            self.assertIn("30", repr(mask), name)
            self.assertNotIn("tensor(", repr(mask), name)


if __name__ == "__main__":
    unittest.main()
