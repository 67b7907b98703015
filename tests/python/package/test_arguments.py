"""Arguments as people write them, and what is said of those that mean nothing."""

import unittest

import torch
from support import Case, needs, tm


class Spellings(Case):
    def test_lists_are_tensors(self):
        graph = tm.Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
        self.assertEqual((graph.num_nodes, graph.num_edges), (4, 3))
        weighted = tm.Graph.from_edges(3, [0, 1], [1, 2], [2, 3])
        self.close(weighted.dense(), torch.tensor([[0.0, 2, 0], [2, 0, 3], [0, 3, 0]]), 0)
        self.assertEqual(tm.Pattern.from_edge_index([[0, 1], [1, 0]]).entries, 2)
        self.assertEqual(tm.Graph.knn([[0.0], [1.0], [3.0]], 1).num_edges, 2)
        for made in (tm.PowerSeriesMask(graph, [1, 0.5]), tm.PowerSeriesMask(graph, (1, 0.5), heads=3)):
            self.close(made.alpha, torch.tensor([1.0, 0.5]).expand(made.alpha.shape), 0)
        self.close(tm.GRFMask(graph, [1, 2], walkers=2).f, torch.tensor([1.0, 2.0]), 0)
        self.close(tm.DenseMask([[1, 2], [3, 4]]).dense(), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
        self.assertEqual(tm.DiffusionMask(graph, [1.0, 2.0]).lambda_.shape, (2,))

    @needs("numpy")
    def test_numpy_arrays_are_tensors(self):
        import numpy

        edges = numpy.array([[0, 1], [1, 2]])
        self.assertEqual(tm.Graph.from_edge_index(edges).num_edges, 2)
        self.assertEqual(tm.Graph.knn(numpy.arange(6.0).reshape(6, 1), 1).num_nodes, 6)

    def test_one_size_is_a_sequence_of_one(self):
        self.assertEqual(tm.ToeplitzMask(5).offsets.shape, (9,))
        self.assertEqual(tm.ToeplitzDistanceMask(5).f.shape, (5,))
        self.assertEqual(tm.Graph.grid(torch.Size([2, 3])).num_nodes, 6)


class Refusals(Case):
    def test_what_is_no_tensor(self):
        graph = tm.Graph.path(4)
        self.refuses(TypeError, "edge_index must be a tensor, a sequence of numbers or a NumPy array, got str",
                     tm.Graph.from_edge_index, "edges")  # fmt: skip
        self.refuses(TypeError, "coefficients must be a tensor", tm.PowerSeriesMask, graph, ["a"])
        self.refuses(TypeError, "points must be a tensor", tm.Graph.knn, None)
        self.refuses(TypeError, "dims must be an integer or a sequence of integers, got 3.5", tm.Graph.grid, 3.5)
        self.refuses(TypeError, "dims must be an integer", tm.ToeplitzMask, "88")

    def test_other_libraries_graphs(self):
        self.refuses(TypeError, "graph must be a networkx graph, got int", tm.Graph.from_networkx, 3)
        self.refuses(TypeError, "matrix must be a SciPy sparse matrix, got list", tm.Graph.from_scipy, [[0]])

    def test_unknown_options_name_the_nearest(self):
        graph = tm.Graph.path(4)
        self.refuses(TypeError, "walks: there is no option walker; did you mean walkers", tm.GRFMask, graph, walker=4)
        self.refuses(TypeError, "there is no option zzz; they are walkers, ", tm.sample_walks, graph, zzz=4)


if __name__ == "__main__":
    unittest.main()
