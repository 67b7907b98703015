"""Batches of point clouds: neighbours, graphs of them, and attention over all walks."""

import torch
from support import Case, tm


class Clouds(Case):
    def setUp(self):
        generator = torch.Generator().manual_seed(1)
        self.points = torch.rand(2, 12, 3, generator=generator, dtype=torch.float64)
        self.neighbours = tm.cloud_neighbours(self.points, 3)
        self.f = torch.tensor([1.0, 0.5, 0.2, 0.1], dtype=torch.float64, requires_grad=True)

    def test_neighbours_are_the_nearest_of_each_cloud(self):
        apart = torch.cdist(self.points, self.points)
        apart.diagonal(dim1=1, dim2=2).fill_(float("inf"))
        self.assertTrue(torch.equal(self.neighbours.long(), apart.topk(3, largest=False, sorted=True).indices))

    def test_graphs_have_no_edge_between_clouds(self):
        graph = tm.cloud_graph(self.neighbours)
        self.assertEqual((graph.num_nodes, graph.directed), (24, True))
        rows, columns = graph.edge_index()
        self.assertTrue(torch.equal(rows // 12, columns // 12))
        both = tm.symmetric_cloud_graph(self.neighbours)
        dense = torch.zeros(24, 24)
        dense[rows, columns] = 1
        rows, columns = both.edge_index()
        symmetric = torch.zeros(24, 24)
        symmetric[rows, columns] = 1
        self.assertTrue(torch.equal(symmetric, torch.maximum(dense, dense.T)))

    def test_attention_is_that_of_the_dense_mask(self):
        walks = tm.NeighbourWalks(self.neighbours, 3)
        self.assertTrue(tm.NeighbourWalks.takes(27, 3, 3))
        self.assertFalse(tm.NeighbourWalks.takes(26, 3, 3))
        self.assertIn("24 nodes", repr(walks))
        step = torch.zeros(24, 24, dtype=torch.float64)
        rows, columns = tm.cloud_graph(self.neighbours).edge_index()
        step[rows, columns] = 1 / 3
        mask = sum(value * torch.linalg.matrix_power(step, power) for power, value in enumerate(self.f))
        self.close(walks.dense(self.f), mask, 1e-12)
        self.assertEqual(walks.values(self.f).numel(), walks.nodes * walks.paths)
        q, k, v = (torch.rand(2, 12, 5, dtype=torch.float64).requires_grad_() for _ in range(3))
        out = tm.neighbour_attention(q, k, v, walks, self.f)
        weights = mask * (q.flatten(0, 1) @ k.flatten(0, 1).T)
        want = (weights @ v.flatten(0, 1) / weights.sum(1, keepdim=True)).view_as(v)
        self.close(out, want, 1e-10)
        leaves = [q, k, v, self.f]
        for a, b in zip(torch.autograd.grad(out.square().sum(), leaves), torch.autograd.grad(want.square().sum(), leaves)):
            self.close(a, b, 1e-8)

    def test_bad_input_is_refused(self):
        with self.assertRaisesRegex(ValueError, "cloud_neighbours"):
            tm.cloud_neighbours(self.points[0], 3)
        with self.assertRaisesRegex(ValueError, "cloud_graph: neighbours must be int32"):
            tm.cloud_graph(self.neighbours.long())
