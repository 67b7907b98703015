"""Ranks together: shards, bytes sent, ranks that die or stall, DDP."""

import os
import tempfile
import time
import unittest

import ranks
import topomask as tm
import torch
import torch.distributed as c10d

d = tm.dist
F64 = torch.float64


def refusal(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except (ValueError, TypeError) as error:
        return str(error)
    return "nothing was refused"


def laid_out(graph, message_bytes=1 << 28):
    group = d.Group(message_bytes=message_bytes)
    return d.Layout(d.partition(graph, group.size), group)


def shards_from_disk(folder):
    graph = tm.Graph.grid(6, 7).normalised().to(F64)
    group = d.Group()
    if group.rank == 0:
        d.write_shards(graph, d.partition(graph, group.size), folder)
    c10d.barrier()
    loaded = d.load_shard(folder, group)
    made = d.shard(graph, loaded.layout)
    assert all(torch.equal(getattr(loaded, name), getattr(made, name)) for name in ("offsets", "columns", "weights"))
    x = torch.randn(graph.num_nodes, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
    alpha = torch.tensor([1.0, 0.5, 0.25], dtype=F64)
    out = loaded.layout.gather(d.power_series_mask(loaded, alpha).matmul(loaded.layout.rows_of(x)))
    assert torch.allclose(out, tm.power_series_mask(graph, alpha).matmul(x), atol=1e-12)
    return loaded.layout.num_rows


def written_with_learnt_weights(folder):
    """The values of weights that require grad are written."""
    graph = tm.Graph.grid(4, 5).normalised()
    d.write_shards(graph.with_weights(graph.weights.clone().requires_grad_()), d.partition(graph, 1), folder)
    loaded = d.load_shard(folder)
    return torch.equal(loaded.weights, graph.weights) and not loaded.weights.requires_grad


def values_where_a_rank_has_none():
    """Values per head, on ranks of which the second owns no edge, against one process."""
    graph = tm.Graph.from_edges(6, torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3])).to(F64)  # 4 and 5 have no neighbours
    layout = d.Layout(d.Partition(torch.tensor([0, 0, 0, 0, 1, 1], dtype=torch.int32), 2))
    shard = d.shard(graph, layout)
    found = []
    for heads in (1, 2, 3):
        whole = torch.rand(heads, graph.num_entries, dtype=F64, generator=torch.Generator().manual_seed(heads))
        whole = whole if heads > 1 else whole[0]
        mine = torch.nn.Parameter(whole[..., : shard.columns.shape[0]].clone())
        mask, one = d.sparse_mask(shard, mine), tm.sparse_mask(graph.pattern, whole)
        x = torch.rand(max(heads, 2), graph.num_nodes, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
        own = layout.rows_of(x)
        out, want = tm.attention(own, own, own, mask), tm.attention(x, x, x, one)
        out.sum().backward()
        found.append(mask.heads == heads and torch.allclose(layout.gather(out), want) and mine.grad.shape == mine.shape)
    refused = refusal(d.sparse_mask, shard, torch.ones(2, shard.columns.shape[0]) if layout.group.rank else torch.ones(0, 6))
    return shard.columns.shape[0], found, refused


def sharing():
    """Two functions over the walks of one mask give the masks that are made from each function alone."""
    graph = tm.Graph.grid(6, 7).normalised().to(F64)
    layout = laid_out(graph)
    walks = d.sample_walks(graph, layout, walkers=3, seed=1)
    functions = [torch.nn.Parameter(torch.rand(2, 3, dtype=F64, generator=torch.Generator().manual_seed(s))) for s in (1, 2)]
    first = d.grf_mask(walks, functions[0])
    q = torch.rand(2, layout.num_rows, 4, dtype=F64)
    found = []
    for mask in (first.sharing(functions[1]), d.grf_mask(walks, functions[1])):
        functions[1].grad = None
        out = tm.attention(q, q, q, mask)
        out.square().sum().backward()
        found.append((out.detach(), functions[1].grad.clone(), [name for name, _ in mask.named_parameters()]))
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1]) and found[0][2] == found[1][2] == ["f"]
    assert first.f is functions[0] and functions[0].grad is None
    texts = refusal(first.sharing, torch.rand(3)), refusal(d.neighbours_mask(d.shard(graph, layout)).sharing, torch.rand(3))
    return texts, refusal(first.sharing, functions[0].detach() + layout.group.rank)


def bytes_of_attention():
    """What one layer sends, forward and forward with backward, and what the formula says."""
    graph = tm.Graph.grid(24, 24)
    layout = laid_out(graph)
    group, heads, m, dim = layout.group, 2, 8, 6
    mask = d.neighbours_mask(d.shard(graph, layout))
    q, k, v = (torch.randn(3, heads, layout.num_rows, c, requires_grad=True) for c in (m, m, dim))
    before = group.bytes_sent
    out = tm.softmax_attention(q, k, v, mask)
    forward = group.bytes_sent - before
    out.sum().backward()
    return forward, group.bytes_sent - before, mask.local.plan.total * 3 * heads * (m + dim) * 4


def bytes_of_sums():
    """What a layer of each mask without a halo sends, forward and forward with backward, and what the formula says for every rank."""
    layout = laid_out(tm.Graph.grid(12, 12))
    group, heads, m, dim = layout.group, 2, 8, 6
    left = torch.nn.Parameter(torch.rand(layout.num_rows, 3))
    found = []
    for mask, rank in ((d.none_mask(layout), 1), (d.free_features_mask(layout, left), 3)):
        q, k, v = (torch.rand(5, heads, layout.num_rows, c, requires_grad=True) for c in (m, m, dim))
        before = group.bytes_sent
        out = tm.attention(q, k, v, mask)
        forward = group.bytes_sent - before
        out.sum().backward()
        formula = 2 * (group.size - 1) * 5 * heads * rank * m * (dim + 1) * 4 // group.size
        found.append((forward, group.bytes_sent - before, formula))
    return found


def bytes_of_collectives():
    """What a broadcast from the second rank, an all-gather and an all-reduce count."""
    group, found = d.Group(), []
    for call in (
        lambda: group.broadcast(torch.ones(5), 1),
        lambda: group.all_gather([1, 2, 3]),
        lambda: group.all_reduce(torch.ones(6)),
    ):
        before = group.bytes_sent, group.messages
        call()
        found.append((group.bytes_sent - before[0], group.messages - before[1]))
    return found


def dies(who, how, calls):
    """Attention over and over; one rank stops after some calls."""
    graph = tm.Graph.grid(6, 7).to(F64)
    layout = laid_out(graph)
    mask = d.neighbours_mask(d.shard(graph, layout))
    q = torch.rand(layout.num_rows, 4, dtype=F64, requires_grad=True)
    began = time.monotonic()
    for call in range(10**6):
        if layout.group.rank == who and call == calls:
            if how == "dies":
                os._exit(1)
            began = time.monotonic()
            time.sleep(8)
        began = began if call > calls else time.monotonic()
        try:
            tm.attention(q, q, q, mask).sum().backward()
        except d.RankError as error:
            return time.monotonic() - began, str(error)


def asks_late(who):
    """One rank dies; the others ask who is to blame, one of them when the rest have asked and gone."""
    group = d.Group()
    group._heartbeat.sequence += 1
    if group.rank == who:
        os._exit(1)
    time.sleep(5 if group.rank == group.size - 1 else 1)
    return group._heartbeat.diagnosis()


def trained(reduce, mesh):
    """One step of a model under DDP; gradients of the loss of all rows, on one process and over ranks."""
    graph = tm.Graph.grid(5, 6).normalised().to(F64)
    if mesh:  # data × graph
        cut = torch.distributed.device_mesh.init_device_mesh(
            "cpu", (2, c10d.get_world_size() // 2), mesh_dim_names=("data", "graph")
        )
        group, share, shares = d.Group(cut.get_group("graph")), cut.get_local_rank("data"), 2
    else:
        group, share, shares = d.Group(), 0, 1
    layout = d.Layout(d.partition(graph, group.size), group)
    walks = d.sample_walks(graph, layout, walkers=4, seed=1)
    table = tm.sample_walks(graph, walkers=4, seed=1)
    f = torch.tensor([1.0, 0.5, 0.2], dtype=F64)

    def model(mask):
        torch.manual_seed(0)
        return torch.nn.Sequential(tm.nn.Block(8, 2, mask=mask), tm.nn.Block(8, 2, mask=mask)).to(F64)

    whole = model(tm.grf_mask(table, torch.nn.Parameter(f.clone())))
    divided = model(d.grf_mask(walks, torch.nn.Parameter(f.clone()), reduce=reduce))
    x = torch.randn(4, graph.num_nodes, 8, dtype=F64, generator=torch.Generator().manual_seed(3))
    whole(x).square().sum().backward()
    batch = x.chunk(shares)[share]
    if reduce:
        divided(layout.rows_of(batch)).square().sum().backward()
        want, got = whole[0].attention.mask.f.grad, divided[0].attention.mask.f.grad
        assert torch.allclose(got, want, rtol=1e-9), (got, want)
        return True
    wrapped = torch.nn.parallel.DistributedDataParallel(divided)
    # DDP averages over all ranks: the loss times their number is the sum.
    (wrapped(layout.rows_of(batch)).square().sum() * c10d.get_world_size()).backward()
    for (name, a), b in zip(divided.named_parameters(), whole.parameters()):
        assert torch.allclose(a.grad, b.grad, rtol=1e-8, atol=1e-10), name
    return True


def every_training():
    """Without DDP, under DDP over the ranks of one graph, and on a mesh of data × graph."""
    return all([trained(True, False), trained(False, False), trained(False, True)])


class Ranks(unittest.TestCase):
    def test_shards_from_disk(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(sum(ranks.run(3, shards_from_disk, folder)), 42)

    def test_learnt_weights_are_written_as_they_are(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(ranks.run(1, written_with_learnt_weights, folder), [True])

    def test_a_rank_without_edges_has_values_of_every_head(self):
        found = ranks.run(2, values_where_a_rank_has_none)
        self.assertEqual([entries for entries, *_ in found], [6, 0])
        for _, heads, refused in found:
            self.assertEqual(heads, [True] * 3)
            self.assertRegex(
                refused, r"^sparse_mask: rank 0: .*values must be float32 or float64 \[K\] or \[H, K\], got .* \[0, 6\]"
            )

    def test_masks_share_their_structure(self):
        for texts, other in ranks.run(2, sharing):
            self.assertRegex(
                texts[0], r"Symmetric.sharing: rank 0: function must be torch.float64 \[2, 3\], got torch.float32 \[3\]"
            )
            self.assertRegex(texts[1], "function must be given to a mask that has one, got")
            self.assertRegex(other, "f must be the same on all ranks")

    def test_bytes_sent_are_those_of_the_formula(self):
        found = ranks.run(4, bytes_of_attention)
        total, formula = sum(forward for forward, _, _ in found), found[0][2]
        self.assertEqual(total, formula)
        self.assertEqual(sum(both for _, both, _ in found), 2 * formula)

    def test_masks_without_a_halo_send_their_sums_alone(self):
        for found in ranks.run(4, bytes_of_sums):
            for forward, both, formula in found:
                self.assertEqual((forward, both), (formula, 2 * formula))

    def test_every_collective_is_counted(self):
        for rank, found in enumerate(ranks.run(3, bytes_of_collectives)):
            self.assertEqual(found, [(2 * 5 * 4, 1) if rank == 1 else (0, 0), (2 * 3 * 8, 1), (2 * 2 * 6 * 4 // 3, 1)])

    def test_a_rank_that_dies_is_named(self):
        for who, calls in ((0, 0), (2, 23)):
            with self.subTest(rank=who):
                outcomes = ranks.start(3, dies, who, "dies", calls, timeout=8)
                self.assertIsNone(outcomes[who])
                for rank in {0, 1, 2} - {who}:
                    self.assertEqual(outcomes[rank][0], "result", outcomes[rank][-1])
                    seconds, text = outcomes[rank][1]
                    self.assertLess(seconds, 8 + 5)
                    self.assertIn(f"rank {who} stopped", text)

    def test_ranks_that_left_because_of_it_are_not_blamed(self):
        outcomes = ranks.start(4, asks_late, 1)
        for rank in (0, 2, 3):
            self.assertEqual(outcomes[rank], ("result", "rank 1 stopped: no sign of life for 1.5 seconds"))

    def test_a_rank_that_stalls_is_named(self):
        outcomes = ranks.start(3, dies, 1, "stalls", 5, timeout=3)
        for rank in (0, 2):
            self.assertEqual(outcomes[rank][0], "result", outcomes[rank][-1])
            seconds, text = outcomes[rank][1]
            self.assertLess(seconds, 3 + 5)
            self.assertIn("rank 1 did not come to this call", text)

    def test_layers_and_ddp_take_distributed_masks(self):
        self.assertEqual(ranks.run(4, every_training), [True] * 4)


class Alone(unittest.TestCase):
    def test_one_process_needs_no_group(self):
        graph = tm.Graph.grid(4, 5)
        layout = d.Layout(d.partition(graph, 1))
        q = torch.randn(20, 4)
        got, want = (
            tm.attention(q, q, q, d.neighbours_mask(d.shard(graph, layout))),
            tm.attention(q, q, q, tm.neighbours_mask(graph)),
        )
        self.assertTrue(torch.equal(got, want))
        self.assertEqual((layout.group.size, layout.group.bytes_sent), (1, 0))

    def test_what_a_distributed_mask_cannot_do_is_said(self):
        graph = tm.Graph.grid(4, 5)
        mask = d.neighbours_mask(d.shard(graph, d.Layout(d.partition(graph, 1))))
        q = torch.randn(20, 4)
        for pattern, function in (
            ("route must be automatic or sparse", lambda: tm.attention(q, q, q, mask, route="dense")),
            ("mode must be multiplicative", lambda: tm.softmax_attention(q, q, q, mask, mode="additive")),
            ("nothing to plan or explain", lambda: tm.explain(q, q, q, mask)),
            (r"q must be \[..., 20, C\]", lambda: tm.attention(q[:5], q, q, mask)),
            ("O\\(N²\\)", lambda: tm.softmax_attention(q, q, q, d.none_mask(mask.layout))),
        ):
            with self.subTest(pattern), self.assertRaisesRegex((ValueError, TypeError), pattern):
                function()


if __name__ == "__main__":
    unittest.main()
