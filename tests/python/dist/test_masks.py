"""Attention over ranks against one process: outputs and every gradient, in float64, to rounding."""

import unittest

import ranks
import topomask as tm
import torch

d = tm.dist
F64 = torch.float64
TOLERANCE = 1e-10


def graphs():
    """A grid; a directed graph with loops, negative weights and nodes without edges."""
    torch.manual_seed(1)
    edges = torch.randint(0, 31, (2, 90))
    weights = torch.randn(90, dtype=F64) * 0.3
    directed = tm.Graph.from_edges(37, edges[0], edges[1], weights, directed=True)
    return {"grid": tm.Graph.grid(5, 9).normalised().to(F64), "directed": directed}


def coefficients(heads):
    alpha = torch.tensor([[1.0, 0.6, 0.3, 0.15], [0.7, 0.9, 0.2, 0.05]], dtype=F64)
    return alpha if heads > 1 else alpha[0].clone()


def families(graph, layout, shard, heads):
    """name → (distributed mask, mask of one process, learned by the one, learned by the other, how to compare their gradients)"""
    nodes = layout.nodes

    def parameter(values):
        return torch.nn.Parameter(values.clone())

    walks = d.sample_walks(graph, layout, walkers=5, halting_probability=0.4, seed=3)
    table = tm.sample_walks(graph, walkers=5, halting_probability=0.4, seed=3)
    keys = d.sample_walks(graph, layout, walkers=3, coupling="repelling", seed=4)
    key_table = tm.sample_walks(graph, walkers=3, coupling="repelling", seed=4)

    def series(make, make_one):
        mine, whole = parameter(coefficients(heads)), parameter(coefficients(heads))
        return make(mine), make_one(whole), [(mine, whole, slice(None))]

    yield "neighbours", d.neighbours_mask(shard), tm.neighbours_mask(graph), []
    entries = torch.cat([torch.arange(int(graph.offsets[i]), int(graph.offsets[i + 1])) for i in nodes.tolist()])
    whole = torch.rand(heads, graph.num_entries, dtype=F64) + 0.1
    whole = parameter(whole if heads > 1 else whole[0])
    mine = parameter(whole.detach()[..., entries])
    yield "sparse", d.sparse_mask(shard, mine), tm.sparse_mask(graph.pattern, whole), [(mine, whole, entries)]
    yield "power series", *series(lambda a: d.power_series_mask(shard, a), lambda a: tm.power_series_mask(graph, a))
    yield "asymmetric", *series(lambda f: d.asymmetric_grf_mask(walks, f), lambda f: tm.asymmetric_grf_mask(table, f))
    yield "symmetric", *series(lambda f: d.grf_mask(walks, f), lambda f: tm.grf_mask(table, f))
    yield "two-sided", *series(lambda f: d.grf_mask(walks, f, key_walks=keys), lambda f: tm.grf_mask(table, f, key_walks=key_table))
    yield "none", d.none_mask(layout), tm.none_mask(graph.num_nodes), []
    left = parameter(torch.rand(heads, graph.num_nodes, 3, dtype=F64) if heads > 1 else torch.rand(graph.num_nodes, 3, dtype=F64))
    own = parameter(left.detach()[..., nodes, :])
    yield "low rank", d.free_features_mask(layout, own), tm.free_features_mask(left), [(own, left, nodes)]


def distance(got, want):
    got = got.cpu()
    assert got.shape == want.shape, (got.shape, want.shape)
    return float((got - want).abs().max()) / max(float(want.abs().max()), 1e-30) if want.numel() else 0.0


def compared(name, mask, whole, learnt, rows, tokens, softmax, heads, device="cpu"):
    """The largest relative difference of the output and of each gradient. rows: what this rank has of the tensors of one process.
    device: of the distributed mask; `whole` is on the CPU."""
    size = whole.size
    generator = torch.Generator().manual_seed(5)
    q, k, v, grad = (torch.randn(2, max(heads, 2), size, c, dtype=F64, generator=generator) for c in (4, 4, 3, 3))
    if name in ("asymmetric", "two-sided", "sparse", "power series", "symmetric") and not softmax:
        q, k = q.abs() + 0.1, k.abs() + 0.1  # with weights of both signs denominators stay away from 0
    call = tm.softmax_attention if softmax else tm.attention
    one = [x.clone().requires_grad_() for x in (q, k, v)]
    out = call(*one, whole)
    out.backward(grad)
    mine = [x.index_select(-2, rows).to(device).requires_grad_() for x in (q, k, v)]
    local = call(*mine, mask)
    local.backward(grad.index_select(-2, rows).to(device))
    worst = {"out": distance(local, out.index_select(-2, rows))}
    for label, a, b in zip("qkv", mine, one):
        worst[f"grad {label}"] = distance(a.grad, b.grad.index_select(-2, rows))
    for p, w, index in learnt:
        dim = -2 if name.startswith("low rank") else -1
        want = w.grad if isinstance(index, slice) else w.grad.index_select(dim, index)
        worst["grad parameter"] = distance(p.grad, want)
        p.grad = w.grad = None
    x = torch.randn(3, max(heads, 2), size, 2, dtype=F64, generator=generator)
    worst["matmul"] = distance(mask.matmul(x.index_select(-2, rows).to(device)), whole.matmul(x).index_select(-2, rows))
    transposed = whole.matmul_transposed(x).index_select(-2, rows)
    worst["transposed"] = distance(mask.matmul_transposed(x.index_select(-2, rows).to(device)), transposed)
    return worst


def every_family(method, message_bytes, whole_grid):
    group = d.Group(message_bytes=message_bytes)
    found = {}
    for label, graph in graphs().items():
        cut = d.partition(graph, group.size, method)
        layout = d.Layout(cut, group)
        shard = d.shard(graph, layout)
        for heads in (1, 2) if whole_grid else (1 + (label == "directed"),):
            for name, mask, whole, learnt in families(graph, layout, shard, heads):
                for softmax in (False, True):
                    low_rank = name in ("none", "low rank")
                    if softmax and low_rank:
                        continue
                    key = f"{label} {name} heads={heads} softmax={softmax}"
                    found[key] = compared(name, mask, whole, learnt, layout.nodes, 0, softmax, heads)
                    if heads == 1 or group.size == 1:
                        held = torch.arange(2 if group.rank == 0 else 0)
                        rows = torch.cat([held, layout.nodes + 2])
                        pair = d.with_global_tokens(mask, 2), tm.with_global_tokens(whole, 2)
                        found[f"{key} tokens"] = compared(name, *pair, learnt, rows, 2, softmax, heads)
    return found


def apart():
    """Ranks 0 and 1 share edges; rank 2 has a component of its own, sends nothing and receives nothing."""
    group = d.Group()
    graph = tm.GraphBatch.of([tm.Graph.grid(4, 4), tm.Graph.cycle(6)]).graph.normalised().to(F64)
    owners = torch.cat([torch.arange(16) // 8, torch.full((6,), 2)])
    layout = d.Layout(d.partition(graph, 3, owners), group)
    found = {}
    for name, mask, whole, learnt in families(graph, layout, d.shard(graph, layout), 1):
        for softmax in (False,) if name in ("none", "low rank") else (False, True):
            found[f"{name} softmax={softmax}"] = compared(name, mask, whole, learnt, layout.nodes, 0, softmax, 1)
    return found


def gradients_of_some():
    """Of masks with global tokens: the largest relative difference of what torch.autograd.grad gives for some inputs alone."""
    group, found = d.Group(), {}
    graph = tm.Graph.grid(4, 6).normalised().to(F64)
    layout = d.Layout(d.partition(graph, group.size, "cuthill_mckee"), group)
    alpha = torch.tensor([1.0, 0.5], dtype=F64)
    masks = {
        "power series": (d.power_series_mask(d.shard(graph, layout), alpha), tm.power_series_mask(graph, alpha)),
        "none": (d.none_mask(layout), tm.none_mask(24)),
    }
    rows = torch.cat([torch.arange(2 if group.rank == 0 else 0), layout.nodes + 2])
    inputs = torch.rand(3, 2, 26, 4, dtype=F64, generator=torch.Generator().manual_seed(2)).unbind()
    for name, pair in masks.items():
        mask, whole = (make(one, 2) for make, one in zip((d.with_global_tokens, tm.with_global_tokens), pair))
        for wanted in ([0], [1], [2], [0, 1, 2]):
            mine, one = ([x.clone().requires_grad_() for x in xs] for xs in ([x[:, rows] for x in inputs], inputs))
            got, want = (
                torch.autograd.grad(tm.attention(*xs, m).square().sum(), [xs[i] for i in wanted]) for xs, m in ((mine, mask), (one, whole))
            )
            found[f"{name} {wanted}"] = max(distance(a, b[:, rows]) for a, b in zip(got, want))
    return found


def step(mask, inputs, softmax, learnt):
    """Attention and the gradients of its inputs and of what learns. The backward pass is outside of autocast, as torch asks."""
    given = [x.clone().requires_grad_() for x in inputs]
    out = (tm.softmax_attention if softmax else tm.attention)(*given, mask)

    def backward():
        out.float().square().sum().backward()
        gradients = [x.grad for x in (*given, *learnt)]
        for parameter in learnt:
            parameter.grad = None
        return gradients

    return out, backward


def under_autocast():
    """Of every mask: the relative differences from one process, of the output and of each gradient, whether their bits are those of
    inputs that were rounded before, and the largest relative difference that autocast makes to products with M."""
    group, found = d.Group(), {}
    graph = tm.Graph.grid(5, 9).normalised()
    layout = d.Layout(d.partition(graph, group.size, "cuthill_mckee"), group)
    walks = d.sample_walks(graph, layout, walkers=5, halting_probability=0.4, seed=3)
    table = tm.sample_walks(graph, walkers=5, halting_probability=0.4, seed=3)
    f = torch.tensor([[1.0, 0.6, 0.3], [0.7, 0.9, 0.2]])
    left = torch.rand(2, 45, 3, generator=torch.Generator().manual_seed(1))
    masks = {
        "power series": (lambda p: d.power_series_mask(d.shard(graph, layout), p), lambda p: tm.power_series_mask(graph, p), f, f),
        "symmetric": (lambda p: d.grf_mask(walks, p), lambda p: tm.grf_mask(table, p), f, f),
        "low rank": (lambda p: d.free_features_mask(layout, p), tm.free_features_mask, left[:, layout.nodes], left),
        "none": (lambda p: d.none_mask(layout), lambda p: tm.none_mask(45), None, None),
    }
    inputs = torch.rand(3, 2, 2, 47, 4, generator=torch.Generator().manual_seed(2)) + 0.1
    for name, (make, make_one, own, whole) in masks.items():
        learnt, expected = ([] if p is None else [torch.nn.Parameter(p.clone())] for p in (own, whole))
        plain, one = make(*learnt or [None]), make_one(*expected or [None])
        for tokens in (0, 2):
            rows = layout.nodes + tokens
            if tokens:
                rows = torch.cat([torch.arange(tokens if group.rank == 0 else 0), rows])
                plain, one = d.with_global_tokens(plain, tokens), tm.with_global_tokens(one, tokens)
            given = inputs[..., : 45 + tokens, :]
            mine = given.index_select(-2, rows)
            for softmax in (False, True) if name in ("power series", "symmetric") else (False,):
                with torch.autocast("cpu", torch.bfloat16):
                    out, backward = step(plain, mine, softmax, learnt)
                    want, expect = step(one, given, softmax, expected)
                got, wanted = [out, *backward()], [want, *expect()]
                before, others = step(plain, mine.bfloat16(), softmax, learnt)
                same = [torch.equal(x.to(y.dtype), y) for x, y in zip(got, [before, *others()])]
                worst = [distance(a.float(), b.float().index_select(-2, rows)) for a, b in zip(got[:4], wanted[:4])]
                if learnt:
                    rest = wanted[4] if own is whole else wanted[4].index_select(-2, layout.nodes)
                    worst.append(distance(got[4], rest))
                with torch.autocast("cpu", torch.bfloat16):
                    products = plain.matmul(mine[0]), plain.matmul_transposed(mine[0])
                exact = plain.matmul(mine[0]), plain.matmul_transposed(mine[0])
                rounded = max(distance(a, b) for a, b in zip(products, exact))
                found[f"{name} {tokens} softmax={softmax}"] = out.dtype, worst, same, rounded
    return found


class Masks(unittest.TestCase):
    def test_autocast_is_that_of_one_process(self):
        for rank, found in enumerate(ranks.run(2, under_autocast)):
            self.assertEqual(len(found), 12)
            for key, (dtype, worst, same, rounded) in found.items():
                with self.subTest(rank=rank, case=key):
                    self.assertEqual(dtype, torch.bfloat16)
                    self.assertLess(worst[0], 0.01)  # a rounding to bfloat16
                    self.assertLess(max(worst), 0.1)  # gradients of averages are small differences of what was rounded
                    self.assertTrue(all(same), same)
                    self.assertLess(rounded, 1e-6)

    def test_gradients_of_some_inputs_alone(self):
        for rank, found in enumerate(ranks.run(2, gradients_of_some)):
            self.assertEqual(len(found), 8)
            for key, difference in found.items():
                with self.subTest(rank=rank, case=key):
                    self.assertLess(difference, TOLERANCE)

    def test_a_rank_without_a_halo(self):
        for rank, found in enumerate(ranks.run(3, apart)):
            self.assertEqual(len(found), 14)
            for key, worst in found.items():
                for what, difference in worst.items():
                    with self.subTest(rank=rank, case=key, what=what):
                        self.assertLess(difference, TOLERANCE)

    def check(self, size, method="automatic", message_bytes=1 << 28, everything=False):
        for rank, found in enumerate(ranks.run(size, every_family, method, message_bytes, everything)):
            self.assertGreater(len(found), 80 if everything else 40)
            for key, worst in found.items():
                for what, difference in worst.items():
                    with self.subTest(ranks=size, rank=rank, case=key, what=what):
                        self.assertLess(difference, TOLERANCE)

    def test_one_rank(self):
        self.check(1, everything=True)

    def test_two_ranks(self):
        self.check(2, "cuthill_mckee", everything=True)

    def test_three_ranks_with_messages_cut_into_pieces(self):
        self.check(3, "ranges", 400)

    def test_four_ranks(self):
        self.check(4)


class Learned(unittest.TestCase):
    def test_values_of_a_learned_function_come_from_lists(self):
        graph = tm.Graph.grid(9, 11).normalised().to(F64)
        layout = d.Layout(d.partition(graph, 1))
        walks = d.sample_walks(graph, layout, walkers=3, halting_probability=0.5, max_hops=6, seed=3)
        keys = d.sample_walks(graph, layout, walkers=2, halting_probability=0.5, max_hops=6, seed=4)
        for key_walks in (None, keys):
            f = torch.nn.Parameter(coefficients(2))
            first = d.grf_mask(walks, f, key_walks=key_walks)
            other = first.sharing(torch.nn.Parameter(2 * coefficients(2)))
            values = first.values()
            slope = torch.autograd.grad(values.square().sum(), f)[0]
            self.assertIsNotNone(other._lists.lists)
            torch.testing.assert_close(other.values(), 4 * values, rtol=1e-12, atol=1e-12)
            with torch.no_grad():  # by the product
                torch.testing.assert_close(first.values(), values.detach(), rtol=1e-12, atol=1e-12)
            first._lists = None
            want = torch.autograd.grad(first.values().square().sum(), f)[0]
            torch.testing.assert_close(slope, want, rtol=1e-12, atol=1e-12)


if __name__ == "__main__":
    unittest.main()
