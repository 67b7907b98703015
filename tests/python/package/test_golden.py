"""Every family against the reference values of tests/golden, to 1e-10, from Python."""

import math
import unittest

import torch
from support import Case, golden, golden_names, tm


def product(mask, x, cotangent):
    """M·x, and the gradients of the parameters for a cotangent."""
    y = mask(x)
    parameters = list(mask.parameters())
    return y, torch.autograd.grad(y, parameters, cotangent) if parameters else ()


def parameter(value):
    return torch.nn.Parameter(value.clone())


def graph_of(g, weights):
    nodes = len(weights)
    directed = not torch.equal(weights, weights.T)
    return tm.Graph.from_edges(nodes, g["src"], g["dst"], weights[g["src"], g["dst"]], directed=directed)


class Attention(Case):
    def test_kernel_attention_and_every_gradient_by_every_route(self):
        for name in golden_names("attention_"):
            g = golden(name)
            for route in ("automatic", "dense", "sparse", "features", "operator"):
                with self.subTest(name=name, route=route):
                    mask = tm.power_series_mask(graph_of(g, g["w"]), parameter(g["alpha"]))
                    self.close(mask.dense(), g["mask"])
                    q, k, v = (g[key].clone().requires_grad_() for key in "qkv")
                    out = tm.attention(q, k, v, mask, features=tm.FeatureMap.relu(1e-3), route=route)
                    self.close(out, g["out"])
                    out.backward(g["g"])
                    for got, key in ((q, "q"), (k, "k"), (v, "v"), (mask.alpha, "alpha")):
                        self.close(got.grad, g[f"grad_{key}"])

    def test_softmax_attention_and_every_gradient(self):
        for name in golden_names("attention_"):
            g = golden(name)
            mask = tm.power_series_mask(graph_of(g, g["w"]), parameter(g["alpha"]))
            q, k, v = (g[key].clone().requires_grad_() for key in "qkv")
            out = tm.softmax_attention(q, k, v, mask, mode="additive")
            self.close(out, g["softmax_out"])
            out.backward(g["g"])
            for got, key in ((q, "q"), (k, "k"), (v, "v"), (mask.alpha, "alpha")):
                self.close(got.grad, g[f"softmax_grad_{key}"])

    def test_linear_attention(self):
        for name in golden_names("attention_"):
            g = golden(name)
            out = tm.attention(g["q"], g["k"], g["v"], tm.none_mask(g["q"].shape[-2]), features=lambda x: x.relu() + 1e-3)
            self.close(out, g["linear_out"])


class Structured(Case):
    def test_toeplitz(self):
        for name in golden_names("toeplitz_"):
            g = golden(name)
            dims = g["dims"].tolist()
            mask = tm.ToeplitzMask(dims, g["offsets"])
            self.close(mask.dense(), g["mask"])
            y, (grad,) = product(mask, g["x"], g["gy"])
            self.close(y, g["y"])
            self.close(mask.matmul_transposed(g["x"]), g["y_transposed"])
            self.close(grad, g["grad_offsets"])
            distance = tm.ToeplitzDistanceMask(dims, g["f_l1"])
            self.close(distance.dense(), g["mask_l1"])
            y, (grad,) = product(distance, g["x"], g["gy"])
            self.close(y, g["y_l1"])
            self.close(grad, g["grad_f_l1"])

    def test_forests(self):
        for name in golden_names("forest_"):
            g = golden(name)
            a, b, weight = (g[key].clone().requires_grad_() for key in ("a", "b", "weight"))
            mask = tm.tree_mask(tm.Forest(g["parent"], weight), tm.DistanceFunction.exponential(a, b))
            self.close(mask.dense(), g["mask_exp"])
            y = mask(g["x"])
            self.close(y, g["y_exp"])
            grads = torch.autograd.grad(y, [a, b, weight], g["gy"])
            for got, key in zip(grads, ("grad_a", "grad_b", "grad_weight")):
                self.close(got, g[key])
            forest = tm.Forest(g["parent"], g["weight_int"].double())
            table = tm.TreeMask(forest, tm.DistanceFunction.table(g["f"]))
            self.close(table.dense(), g["mask_f"])
            y, (grad,) = product(table, g["x"], g["gy"])
            self.close(y, g["y_f"])
            self.close(grad, g["grad_f"])

    def test_functions_of_real_distances_and_functions_in_python(self):
        for name in golden_names("forest_"):
            g = golden(name)
            forest = tm.Forest(g["parent"], g["weight"])
            rational = tm.TreeMask(forest, tm.DistanceFunction.smooth(lambda x: 1 / (1 + x * x), 1e-9))
            self.close(rational(g["x"]), g["y_rational"], 1e-7)
            cosine = tm.DistanceFunction.cosine(1.0) * tm.DistanceFunction.exponential(-0.2)
            self.close(tm.TreeMask(forest, cosine)(g["x"]), g["y_cosexp"])
            table = g["f"].tolist()
            on_integers = tm.DistanceFunction.on_integers(lambda x, t=table: t[int(x)] if x < len(t) else 0.0)
            whole = tm.Forest(g["parent"], g["weight_int"].double())
            self.close(tm.TreeMask(whole, on_integers)(g["x"]), g["y_f"])

    def test_diffusion(self):
        generators = {"adjacency": "adjacency", "laplacian": "laplacian", "normalised": "normalised_laplacian"}
        for name in golden_names("diffusion_"):
            g = golden(name)
            graph = tm.Graph.from_edges(int(g["n"]), g["src"], g["dst"]).to(torch.float64)
            for short, generator in generators.items():
                for time in ("0.3", "2.0"):
                    mask = tm.DiffusionMask(graph, float(time), generator=generator, tolerance=1e-13)
                    y, (grad,) = product(mask, g["x"], g["gy"])
                    self.close(y, g[f"{short}_{time}"])
                    self.close(grad, g[f"{short}_{time}_grad_lambda"])
                    self.assertGreater(tm.chebyshev_degree(mask), 0)

    def test_diffusion_in_closed_form(self):
        for dimensions in (1, 3, 4):
            g = golden(f"hypercube_{dimensions}")
            self.close(tm.HypercubeDiffusionMask(dimensions, g["lam"], dtype=torch.float64).dense(), g["mask"])
        g = golden("product_path4_cycle5")
        factors = [tm.Graph.path(4).to(torch.float64), tm.Graph.cycle(5).to(torch.float64)]
        for generator in ("laplacian", "adjacency"):
            mask = tm.ProductDiffusionMask(factors, g["lam"], generator=generator)
            self.close(mask.dense(), g[f"mask_{generator}"])
        g = golden("low_rank_diffusion")
        self.close(tm.LowRankDiffusionMask(g["u"], g["v"], g["lam"]).dense(), g["mask"])

    def test_encodings(self):
        g = golden("encodings_er30")
        nodes = len(g["centrality"])
        graph = tm.Graph.from_edges(nodes, g["src"], g["dst"]).to(torch.float64)
        self.close(tm.CentralityMask(graph, g["z"]).dense(), g["centrality"])
        self.assertTrue(torch.equal(tm.shortest_paths(graph).long(), g["shortest_path"]))
        g = golden("favor")
        self.close(tm.FeatureMap.favor(omega=g["omega"])(g["x"]), g["features"])


class Walks(Case):
    def setUp(self):
        self.g = golden("walks_grid5x6")
        graph = graph_of(self.g, self.g["w"])
        p = float(self.g["halting_probability"])
        self.walks = tm.walk_table_from_walks(graph, self.g["nodes"], halting_probability=p, max_hops=7, group_products=True)

    def test_estimators(self):
        f = self.g["f"]
        self.close(tm.grf_mask(self.walks, f).dense(), self.g["mask_shared"])
        self.close(tm.grf_mask(self.walks, f, diagonal="debiased").dense(), self.g["mask_debiased"])
        self.close(tm.asymmetric_grf_mask(self.walks, f).dense(), self.g["mask_asymmetric"])
        self.close(tm.ad_hoc_mask(self.walks, f).dense(), self.g["mask_adhoc"])
        features = tm.sparse_mask(self.walks.pattern, tm.walk_features(self.walks, f))
        self.close(features.dense(), self.g["phi"])

    def test_node_kernels(self):
        discount = self.g["gkat_discount"]
        frequencies = tm.sparse_mask(self.walks.pattern, tm.walk_frequencies(self.walks, discount))
        self.close(frequencies.dense(), self.g["gkat_frequency"])
        self.close(tm.NodeKernelMask(self.walks, discount, alpha=0).dense(), self.g["gkat_plain"])
        self.close(tm.NodeKernelMask(self.walks, discount).dense(), self.g["gkat_cosine"])
        self.close(tm.NodeKernelMask(self.walks, discount, p=1).dense(), self.g["gkat_l1"])
        self.close(tm.NodeFrequencyMask(self.walks, discount).dense(), self.g["gkat_rowwise"])


class Theory(Case):
    def test_coefficients(self):
        g = golden("coefficients")
        for name in ("exp_0.5", "geometric_0.6", "cosine", "random"):
            self.close(tm.deconvolve(g[f"{name}_alpha"]), g[f"{name}_f"])
            self.close(tm.convolve(g[f"{name}_f"]), g[f"{name}_alpha"])

    def test_bounds(self):
        g = golden("bounds")
        for walkers, deviation, constant, bound in g["concentration_rows"].tolist():
            self.close(tm.concentration_bound(int(walkers), deviation, constant), bound)
        for walkers, p, delta, entries in g["sparsity_rows"].tolist():
            self.assertEqual(tm.feature_entries_bound(int(walkers), p, delta), math.ceil(entries))


if __name__ == "__main__":
    unittest.main()
