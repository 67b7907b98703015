"""Arguments as people write them, and what is said of those that mean nothing."""

import unittest

import torch
from support import Case, needs, tm
from topomask._values import tensor


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

    @needs("numpy")
    def test_numpy_arrays_of_any_strides_and_byte_order(self):
        import numpy

        numbers = numpy.arange(12.0).reshape(4, 3)
        for array in (
            numbers[::-1],
            numbers[:, ::-1],
            numbers.T,
            numbers[::2],
            numbers[:1][::-1],
            numbers[:0][::-1],
            numbers.astype(">f8"),
            numbers.astype(">f4")[::-1],
            numbers.astype(">i4"),
            numpy.float64(3.0),
        ):
            got = tensor("x", array)
            self.assertEqual(got.tolist(), array.tolist())
            self.assertEqual(got.element_size(), array.dtype.itemsize)
        self.assertEqual(tensor("x", numbers).data_ptr(), numbers.__array_interface__["data"][0])  # no copy where none is needed
        edges = numpy.array([[2, 1], [1, 0]])
        self.assertTrue(torch.equal(tm.Graph.from_edge_index(edges[:, ::-1]).dense(), tm.Graph.path(3).dense()))
        self.refuses(TypeError, "points must be a tensor, .* got ndarray", tm.Graph.knn, numpy.array(["a"]))

    @needs("numpy")
    def test_numpy_arrays_where_a_tensor_may_be_left_out(self):
        import numpy

        graph = tm.Graph.path(3)
        csr = [x.numpy() for x in (graph.offsets, graph.columns, 2 * graph.weights)]
        self.close(tm.Graph.from_csr(*csr).dense(), 2 * graph.dense(), 0)
        weights = numpy.full(4, 0.5, dtype=numpy.float32)
        self.close(tm.weighted_neighbours_mask(graph, weights).dense(), torch.eye(3) + graph.dense() / 2, 0)
        edges = numpy.array([[0, 1, 2], [1, 2, 2]])
        for given in (edges, edges.tolist()):
            self.assertEqual(tm.SparseMask(given, num_nodes=4).dense().nonzero().T.tolist(), edges.tolist())
        walks = tm.sample_walks(graph, seed=1)
        ones = numpy.ones(2, dtype=numpy.float32)
        for text, call in {
            "grf_mask: f_key must be a tensor or None, got ndarray": lambda: tm.grf_mask(
                walks, torch.ones(2), key_walks=walks, f_key=ones
            ),
            "node_kernel_mask: discount must be a tensor or None, got ndarray": lambda: tm.node_kernel_mask(walks, ones),
            "free_features_mask: right must be a tensor or None, got ndarray": lambda: tm.free_features_mask(
                torch.ones(3, 2), numpy.ones((3, 2))
            ),
            "DistanceFunction.exponential: a must be a number or a tensor, got ndarray": lambda: tm.DistanceFunction.exponential(
                ones
            ),
        }.items():
            self.refuses(TypeError, text, call)

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
