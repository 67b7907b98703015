"""Families that tests/golden has no values of, against their formulas over dense matrices in plain torch, in double precision."""

import math
import unittest

import torch
from families import random
from support import Case, dense_attention, golden, tm

F64 = torch.float64
NODES = 30
PLACES = torch.cartesian_prod(torch.arange(5), torch.arange(6)).to(F64)
ADJACENCY = (torch.cdist(PLACES, PLACES, p=1) == 1).to(F64)  # of a grid of 5 × 6
W = ADJACENCY / (ADJACENCY.sum(0) * ADJACENCY.sum(1, keepdim=True)).sqrt()
ARROWS = (random(NODES, NODES) < 0.15).to(F64) * (random(NODES, NODES).T / 2 + 0.1) * (1 - torch.eye(NODES))


def graph_of(matrix, *, directed=False):
    rows, columns = matrix.nonzero().T
    return tm.Graph.from_edges(len(matrix), rows, columns, matrix[rows, columns], directed=directed)


GRID, DIRECTED = graph_of(W), graph_of(ARROWS, directed=True)


def parameter(*shape):
    return torch.nn.Parameter(random(*shape) + 0.1)


def powers(matrix, terms):
    """[terms, N, N]: I, W, W², …"""
    return torch.stack([torch.linalg.matrix_power(matrix, hops) for hops in range(terms)])


def visits(walks, terms):
    """[terms, N, N]: R_t[i, v] = load(i, v, t)/n, from the triples of a table."""
    rows = torch.repeat_interleave(walks.offsets.diff())
    found = torch.zeros(int(walks.hops.max()) + 1, walks.num_nodes, walks.num_nodes, dtype=walks.dtype)
    place = walks.hops.long(), rows, walks.columns.long()
    return found.index_put(place, walks.loads / walks.walkers, accumulate=True)[:terms]


def combined(f, matrices):
    """Σ_t f_t R_t, for every head."""
    return torch.einsum("...t,tij->...ij", f[..., : len(matrices)], matrices)


def hops_between(matrix):
    """Numbers of hops, −1 where there is no path."""
    reached = torch.eye(len(matrix), dtype=torch.bool)
    found = torch.where(reached, 0, -1)
    for hops in range(1, len(matrix)):
        beyond = (reached.to(F64) @ matrix > 0) & ~reached
        found, reached = torch.where(beyond, hops, found), reached | beyond
    return found


class References(Case):
    def holds(self, mask, matrix, tolerance=1e-10, added=False):
        """The mask is the matrix, a function of its parameters: M itself, products, kernel attention by every route that the mask
        has, softmax attention where scores are added to M, and all gradients."""
        learnt = list(mask.parameters())
        again = [parameter.detach().clone().requires_grad_() for parameter in learnt]
        want = matrix(*again)
        self.close(mask.dense(), want, tolerance)
        x = random(mask.heads, mask.size, 3)
        self.close(mask(x), want @ x, tolerance)
        self.close(mask.matmul_transposed(x), want.mT @ x, tolerance)
        cotangent = random(*x.shape) - 0.5
        self.gradients((mask(x), learnt), (matrix(*again) @ x, again), cotangent, tolerance)
        q, k, v = (random(2, mask.heads, mask.size, 4).roll(shift, -2).requires_grad_() for shift in range(3))
        cotangent = random(*v.shape) - 0.5
        plan = tm.explain(q, k, v, mask)
        routes = [estimate.route for estimate in plan.estimates if estimate.available]
        self.assertIn(plan.route, routes)
        for route in routes:
            with self.subTest(route=route):
                out, dense = tm.attention(q, k, v, mask, route=route), dense_attention(q, k, v, matrix(*again))
                self.close(out, dense, 10 * tolerance)
                self.gradients((out, [q, k, v, *learnt]), (dense, [q, k, v, *again]), cotangent, 100 * tolerance)
        if added:
            out = tm.softmax_attention(q, k, v, mask, mode="additive")
            dense = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + matrix(*again), -1) @ v
            self.close(out, dense, tolerance)
            self.gradients((out, [q, k, v, *learnt]), (dense, [q, k, v, *again]), cotangent, 10 * tolerance)

    def gradients(self, got, want, cotangent, tolerance):
        (out, tensors), (dense, others) = got, want
        if tensors:
            found, expected = (torch.autograd.grad(y, of, cotangent) for y, of in ((out, tensors), (dense, others)))
            for a, b in zip(found, expected):
                self.close(a, b, tolerance)


class Plain(References):
    def test_causal(self):
        self.holds(tm.CausalMask(NODES), lambda: torch.ones(NODES, NODES, dtype=F64).tril())

    def test_neighbours(self):
        for graph, matrix in ((GRID, W), (DIRECTED, ARROWS)):
            with self.subTest(directed=graph.directed):
                self.holds(tm.NeighboursMask(graph), lambda matrix=matrix: (matrix != 0).to(F64) + torch.eye(NODES))

    def test_weighted_neighbours(self):
        for graph, matrix in ((GRID, W), (DIRECTED, ARROWS)):
            with self.subTest(directed=graph.directed):
                ends = tuple(matrix.nonzero().T)  # entries are in the order of rows and columns
                self.holds(
                    tm.WeightedNeighboursMask(graph),
                    lambda weights, ends=ends: torch.eye(NODES, dtype=F64).index_put(ends, weights, accumulate=True),
                )

    def test_values_of_edges(self):
        order = torch.randperm(GRID.num_entries, generator=torch.Generator().manual_seed(3))
        edges = torch.cat([torch.arange(NODES).expand(2, -1), GRID.edge_index()[:, order]], 1)
        for heads in (1, 2):
            with self.subTest(heads=heads):
                values = random(heads, edges.shape[1])[0 if heads == 1 else slice(None)] + 0.1
                empty = torch.zeros(*values.shape[:-1], NODES, NODES, dtype=F64)
                place = tuple(edges) if heads == 1 else (slice(None), *edges)

                def matrix(values, empty=empty, place=place):
                    made = empty.clone()
                    made[place] = values
                    return made

                self.holds(tm.SparseMask(edges, values), matrix)

    def test_power_series_of_a_directed_graph(self):
        self.holds(tm.power_series_mask(DIRECTED, parameter(2, 4)), lambda alpha: combined(alpha, powers(ARROWS, 4)))

    def test_each_head_its_own_mask(self):
        walks = tm.sample_walks(GRID, walkers=5, seed=2)
        masks = [tm.power_series_mask(GRID, parameter(3)), tm.grf_mask(walks, parameter(4)), tm.CausalMask(NODES).double()]
        reached = visits(walks, 4)

        def matrix(alpha, f):
            features = combined(f, reached)
            return torch.stack([combined(alpha, powers(W, 3)), features @ features.mT, torch.ones(NODES, NODES).to(F64).tril()])

        self.holds(tm.PerHeadMask(masks), matrix)

    def test_global_tokens(self):
        for tokens in (1, 3):
            for inner in (tm.power_series_mask(GRID, parameter(2, 3)), tm.power_series_mask(DIRECTED, parameter(3))):
                with self.subTest(tokens=tokens, heads=inner.heads):
                    hops = powers(W if inner.heads == 2 else ARROWS, 3)
                    self.holds(
                        tm.GlobalTokens(inner, tokens),
                        lambda alpha, hops=hops, tokens=tokens: torch.nn.functional.pad(
                            combined(alpha, hops), (tokens, 0, tokens, 0), value=1.0
                        ),
                    )

    def test_shortest_paths(self):
        parts = torch.block_diag(torch.ones(3, 3, dtype=F64) - torch.eye(3), torch.eye(9, dtype=F64).roll(1, 0))
        for matrix, directed in ((parts, True), (torch.maximum(parts, parts.T), False)):
            hops = hops_between(matrix)
            for distances in (3, 12):  # longer ones share the last bias; the bias of pairs without a path comes after it
                place = torch.where(hops < 0, distances, hops.clamp(max=distances - 1))
                for shape in ((distances + 1,), (2, distances + 1)):
                    with self.subTest(directed=directed, distances=distances, heads=len(shape)):
                        mask = tm.ShortestPathMask(graph_of(matrix, directed=directed), parameter(*shape))
                        self.holds(mask, lambda bias, place=place: bias[..., place], added=True)

    def test_free_features(self):
        for shape in ((NODES, 4), (2, NODES, 4)):
            with self.subTest(heads=len(shape) - 1):
                left, right = random(*shape), random(*shape).roll(7, -2)
                self.holds(tm.FreeFeaturesMask(left, right), lambda left, right: left @ right.mT)
                self.holds(tm.FreeFeaturesMask(left), lambda left: left @ left.mT)

    def test_stochastic_positions(self):
        apart = torch.arange(NODES, dtype=F64).unsqueeze(1) - torch.arange(NODES, dtype=F64)

        def waves(frequencies, amplitudes, phases):
            angles = frequencies[..., None, None] * apart + phases[..., None, None]
            return (amplitudes[..., None, None].square() * angles.cos()).sum(-3)

        for shape in ((3,), (2, 3)):
            with self.subTest(heads=len(shape)):
                frequencies = random(*shape) * torch.tensor([0.0, 1.0, 1.0])  # the first is a constant, so that no sum vanishes
                amplitudes, phases = random(*shape) / 4 + torch.tensor([1.0, 0.1, 0.1]), random(*shape) * torch.tensor([0, 1, 1])
                given = [torch.nn.Parameter(tensor) for tensor in (frequencies, amplitudes, phases)]
                self.holds(tm.stochastic_positional_mask(NODES, *given, realisations=0), waves)
                self.holds(
                    tm.stochastic_positional_mask(NODES, *given[:2], realisations=0),
                    lambda frequencies, amplitudes: waves(frequencies, amplitudes, torch.zeros_like(frequencies)),
                )
        drawn = torch.stack([
            tm.stochastic_positional_mask(NODES, *(t.detach() for t in given), realisations=16, seed=seed).dense()
            for seed in range(400)
        ])  # fmt: skip
        self.assertEqual(int(torch.linalg.matrix_rank(drawn[0, 0])), 5)  # of two waves and a constant
        spread = drawn.std(0) / 400**0.5
        self.assertLess(float(((drawn.mean(0) - waves(*(t.detach() for t in given))) / spread).abs().max()), 6)


class Walked(References):
    """Masks over tables of walks: the triples of a table are added up here, what follows from them is computed densely."""

    def test_two_sided(self):
        for graph, directed in ((GRID, False), (DIRECTED, True)):
            options = {"walkers": 6, "halting_probability": 0.3, "seed": 4}
            queries = visits(tm.sample_walks(graph, **options), 5)
            keys = visits(tm.sample_walks(graph.reversed(), **options, first_walker=6), 5)
            with self.subTest(directed=directed):
                self.holds(
                    tm.TwoSidedGRFMask(graph, parameter(2, 5), parameter(5, 2).T.contiguous(), normalise=False, **options),
                    lambda f, f_key, queries=queries, keys=keys: combined(f, queries) @ combined(f_key, keys).mT,
                )
                self.holds(
                    tm.TwoSidedGRFMask(graph, parameter(5), normalise=False, **options),
                    lambda f, queries=queries, keys=keys: combined(f, queries) @ combined(f, keys).mT,
                )

    def test_hybrid(self):
        options = {"walkers": 6, "halting_probability": 0.4, "seed": 5}
        for exact in (0, 1, 2):
            for graph, matrix in ((GRID, W), (DIRECTED, ARROWS)):
                with self.subTest(exact=exact, directed=graph.directed):
                    walks = tm.sample_walks(graph, **options, exact_hops=exact)
                    reached = visits(walks, 5)
                    reached[: exact + 1] = powers(matrix, exact + 1)

                    def square(f, reached=reached):
                        features = combined(f, reached)
                        return features @ features.mT

                    self.holds(tm.HybridGRFMask(graph, parameter(2, 5), exact_hops=exact, normalise=False, **options), square)
                    self.holds(tm.hybrid_grf_mask(walks, graph, parameter(5)), square)

    def test_stitched(self):
        options = {"walkers": 5, "halting_probability": 0.4, "seed": 6}
        for graph in (GRID, DIRECTED):
            for pairs in (1, 2):
                with self.subTest(directed=graph.directed, pairs=pairs):
                    sides = (graph, graph.reversed())
                    tables = [tm.sample_walks(sides[i % 2], **options, first_walker=5 * i) for i in range(2 * pairs)]
                    reached = [visits(table, 4) for table in tables]

                    def matrix(f, reached=reached):
                        made = torch.eye(NODES, dtype=F64)
                        for query, key in zip(reached[::2], reached[1::2]):
                            made = made @ combined(f, query) @ combined(f, key).mT
                        return made

                    self.holds(tm.StitchedGRFMask(graph, parameter(2, 4), pairs=pairs, normalise=False, **options), matrix)
                    self.holds(tm.stitched_grf_mask(tables, parameter(4)), matrix)

    def test_walking(self):
        options = {"walkers": 6, "halting_probability": 0.3, "seed": 7}
        for graph in (GRID, DIRECTED):
            reached = visits(tm.sample_walks(graph, **options), 5)
            for shape in ((5,), (2, 5)):
                with self.subTest(directed=graph.directed, heads=len(shape)):
                    mask = tm.WalkingMask(graph, parameter(*shape), normalise=False, **options)
                    self.holds(mask, lambda f, reached=reached: combined(f, reached))

    def test_features_are_the_sums_of_the_triples(self):
        walks = tm.sample_walks(DIRECTED, walkers=6, seed=8)
        f = random(2, 5)
        self.close(tm.sparse_mask(walks.pattern, tm.walk_features(walks, f)).dense(), combined(f, visits(walks, 5)))
        counts = tm.sample_walks(graph_of((ARROWS != 0).to(F64), directed=True), walkers=6, seed=8).counts
        self.assertTrue(torch.equal(counts, walks.counts))  # where walks go does not depend on the weights

    def test_projected(self):
        """P is found from the projection of the identity: f = (1, 0, …) makes Φ = I."""
        walks = tm.sample_walks(GRID, walkers=5, seed=9)
        reached = visits(walks, 4)
        for width, seed in ((64, 0), (256, 11)):
            with self.subTest(width=width):
                first = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=F64)
                signs = tm.projected_mask(tm.grf_mask(walks, first), width=width, seed=seed).dense().detach()  # PPᵀ
                whole = (signs * width - width) / 2
                self.close(whole, whole.round(), 1e-12)  # a sum of `width` signs has the parity of the width
                self.close(signs.diagonal(), torch.ones(NODES, dtype=F64), 1e-12)
                off = signs - torch.eye(NODES)
                self.assertLess(abs(float(off.square().sum() / (NODES * (NODES - 1)) * width) - 1), 0.3)

                def matrix(f, signs=signs):
                    features = combined(f, reached)
                    return features @ signs @ features.mT

                self.holds(tm.ProjectedMask(tm.grf_mask(walks, parameter(4)), width=width, seed=seed), matrix, 1e-9)

    def test_projected_two_sided(self):
        tables = [tm.sample_walks(graph, walkers=5, seed=seed) for seed, graph in enumerate((DIRECTED, DIRECTED.reversed()))]
        queries, keys = (visits(table, 4) for table in tables)
        first = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=F64)
        signs = tm.projected_mask(tm.grf_mask(tables[0], first), width=256, seed=3).dense().detach()
        mask = tm.projected_mask(tm.grf_mask(tables[0], parameter(4), key_walks=tables[1]), width=256, seed=3)
        self.holds(mask, lambda f: combined(f, queries) @ signs @ combined(f, keys).mT, 1e-9)

    def test_auto(self):
        alpha = [1.0, 0.5, 0.2, 0.1]
        exact = tm.AutoMask(GRID, alpha, 1e-12, normalise=False)
        self.assertIn("exact series, 4 terms", exact.name)
        self.holds(exact, lambda alpha: combined(alpha, powers(W, 4)))
        tolerance = 0.2
        loose = tm.AutoMask(GRID, alpha, tolerance, normalise=False)  # fewer terms, or walks
        want = combined(torch.tensor(alpha, dtype=F64), powers(W, 4))
        self.assertLess(float((loose.dense() - want).norm() / want.norm()), 1.5 * tolerance)


class Layers(Case):
    def test_transformer_conv(self):
        g = golden("layer_transformer")
        layer = tm.pyg.TransformerConv(6, 4, heads=int(g["heads"])).double()
        layer.load_state_dict({name: g["p_" + name.replace(".", "_")] for name in layer.state_dict()})
        x = g["x"].clone().requires_grad_()
        out = layer(x, g["edge"])
        self.close(out, g["out"])
        out.backward(g["g"])
        self.close(x.grad, g["grad_x"])
        for name, parameter in layer.named_parameters():  # that of the keys' bias is 0 but for rounding
            want = g["grad_p_" + name.replace(".", "_")]
            self.assertLessEqual(float((parameter.grad - want).abs().max()), 1e-10 * (1 + float(want.abs().max())), name)
        pooled = torch.stack([out[g["batch"] == graph].mean(0) for graph in range(3)])
        self.close(pooled, g["pooled"])


if __name__ == "__main__":
    unittest.main()
