"""Ranks together: shards, what is refused and by whom, bytes sent, ranks that die or stall, DDP."""

import os
import pathlib
import tempfile
import time
import unittest

import ranks
import torch
import torch.distributed as c10d
from torch.utils._python_dispatch import TorchDispatchMode

import topomask as tm

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


def refusals(folder):
    graph = tm.Graph.grid(6, 7)
    group = d.Group()
    rank = group.rank
    cut = d.partition(graph, group.size)
    layout = d.Layout(cut, group)
    shard = d.shard(graph, layout)
    other = tm.Graph.grid(6, 7).normalised() if rank == 1 else graph
    wrong = cut if rank != 1 else d.Partition(torch.arange(42) % group.size, group.size)
    alpha = torch.tensor([1.0, 0.5 + rank])
    if rank == 0:
        d.write_shards(graph, cut, folder + "/a")
        d.write_shards(graph.normalised(), cut, folder + "/b")
        d.write_shards(graph, d.partition(graph, group.size + 1), folder + "/c")
        d.write_shards(graph, cut, folder + "/e")
        damaged = pathlib.Path(folder, "e", f"shard-00001-of-{group.size:05}.tmshard")
        content = bytearray(damaged.read_bytes())
        content[120] ^= 1
        damaged.write_bytes(content)
    c10d.barrier()
    return [
        refusal(d.Layout, d.partition(graph, group.size + 1), group),
        refusal(d.Layout, wrong, group),
        refusal(d.shard, tm.Graph.grid(5, 5), layout),
        refusal(d.shard, other, layout),
        refusal(d.sample_walks, graph, layout, seed=rank),
        refusal(d.sample_walks, graph, layout, walkers=0 if rank == 1 else 4),
        refusal(d.sample_walks, graph, layout, halting_probability=0.5 + 0.1 * rank),
        refusal(d.power_series_mask, shard, alpha),
        refusal(d.power_series_mask, shard, torch.ones(3), max_sparse_entries=10),
        refusal(d.sparse_mask, shard, torch.ones(3) if rank == 1 else None),
        refusal(d.free_features_mask, layout, torch.ones(1, 2)),
        refusal(d.with_global_tokens, d.none_mask(layout), 0),
        refusal(d.load_shard, folder + ("/b" if rank == 1 else "/a"), group),
        refusal(d.load_shard, folder + "/c", group),
        refusal(d.load_shard, folder + "/e", group),
        refusal(d.load_shard, folder + ("/none" if rank == 1 else "/a"), group),
    ]


REFUSED = [
    r"Layout: rank 0: partition must have a part for each of the 2 ranks, got 3 parts",
    r"Layout: partition must be the same on all ranks, got .* on rank 0 and .* on rank 1",
    r"shard: rank 0: graph must have the 42 nodes of the partition, got 25",
    r"shard: weights must be the same on all ranks",
    r"sample_walks: seed must be the same on all ranks, got 0 on rank 0 and 1 on rank 1",
    r"sample_walks: rank 1: .*walkers must be",
    r"sample_walks: options must be the same on all ranks",
    r"power_series_mask: alpha must be the same on all ranks",
    r"power_series_mask: rank 0: max_sparse_entries must be at least \d+ for this rank, got 10",
    r"sparse_mask: rank 1: values must have \d+ entries, those of this rank's rows, got 3",
    r"free_features_mask: rank 0: left and right must be \[\d+, r\] or .*, the rows of this rank, got \[1, 2\]",
    r"with_global_tokens: rank 0: tokens must be >= 1, got 0",
    r"load_shard: graph must be the same on all ranks",
    r"load_shard: rank 0: .*expected a shard for each of the 2 ranks, got 3",
    r"load_shard: rank 1: .*the content is damaged",
    r"load_shard: rank 1: .*No such file or directory",
]


def other_version():
    """The second rank has another version of the library, which differs after its first eight characters."""
    from topomask import _library, train

    _library.build_of = lambda path: {"version": f"0.1.0+local.{c10d.get_rank()}"}
    graph = tm.Graph.grid(6, 7)
    group = d.Group()
    worked = []
    d.partition = lambda *arguments: worked.append("partition")
    trained = refusal(train.train, train.parse_config('{"data": {"path": "roads.txt"}}'), "/nowhere")
    return refusal(d.Layout, tm.dist.Partition(torch.arange(graph.num_nodes) % group.size, group.size), group), trained, worked


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


class _Mark(torch.autograd.Function):
    """x; says when its gradient has been computed."""

    @staticmethod
    def forward(ctx, x, told):
        ctx.told = told
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ctx.told()
        return grad, None


def order_of_work():
    """What happens in one layer, forward and backward, one after the other."""
    from topomask.dist import exchange, rows

    happened, softmax = [], rows._ops.sparse_softmax_attention
    start, finish = exchange._Way.start, exchange._Way.finish

    def watched(q, *rest):
        name = ("inside", "border")[sum(what.startswith(("inside", "border")) for what in happened)]
        happened.append(name)
        return softmax(_Mark.apply(q, lambda: happened.append(f"{name}, backward")), *rest)

    rows._ops.sparse_softmax_attention = watched
    exchange._Way.start = lambda self, x, back: (happened.append("send back" if back else "send"), start(self, x, back))[1]
    exchange._Way.finish = lambda self: (happened.append("receive"), finish(self))[1]
    graph = tm.Graph.grid(12, 12)
    layout = laid_out(graph)
    mask = d.neighbours_mask(d.shard(graph, layout))
    q = torch.rand(layout.num_rows, 4, requires_grad=True)
    happened.clear()
    tm.softmax_attention(q, q, q, mask).sum().backward()
    return happened


class _Largest(TorchDispatchMode):
    """The most numbers that a call of torch.cat or of zeros makes."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        made = function(*arguments, **(options or {}))
        if any(name in str(function) for name in ("aten.cat", "aten.new_zeros", "aten.zeros")):
            self.numbers = max(self.numbers, made.numel())
        return made


def parts_of_gradients():
    """Exchanges of two tensors, one or both with gradients; and that no tensor of all rows is joined or zeroed for them."""
    from topomask.dist.exchange import Exchange

    graph = tm.Graph.grid(30, 30)
    layout = laid_out(graph)
    local = d.neighbours_mask(d.shard(graph, layout)).local
    plan, used = local.plan, local.pieces[1].used
    generator = torch.Generator().manual_seed(layout.group.rank)
    k, v = (torch.rand(2, layout.num_rows, width, dtype=F64, generator=generator) for width in (3, 5))
    results = []
    for wanted in ((True, True), (True, False), (False, True)):
        xs = [x.clone().requires_grad_(needs) for x, needs in zip((k, v), wanted)]
        with _Largest() as largest:
            exchange = Exchange(plan, xs, used)
            own, halo = exchange.own, exchange.end()
            loss = sum((x.sin() * x).sum() + (y * y).sum() + (h**3).sum() for x, y, h in zip(own, exchange.used, halo))
            loss.backward()
        for x, needs, h in zip(xs, wanted, halo):
            assert torch.equal(h, layout.gather(x)[:, plan.halo])
            expected = x.detach().sin() + x.detach() * x.detach().cos()
            expected[:, used] += 2 * x.detach()[:, used]
            expected.index_add_(1, plan.send_index, 3 * x.detach()[:, plan.send_index] ** 2)
            assert (x.grad is None) != needs and (not needs or torch.allclose(x.grad, expected, atol=1e-12))
        results.append(largest.numbers < k.numel())
    return results


def operators():
    """The exchange and the sum as operators with a group's name, as C++ calls them, give what those of the package give."""
    from topomask.dist.exchange import all_sum, halo_of

    graph = tm.Graph.grid(7, 8)
    layout = laid_out(graph)
    group, plan = layout.group, d.neighbours_mask(d.shard(graph, layout)).local.plan
    splits = plan.send_index, plan.send_splits, plan.recv_splits
    results = []
    pairs = (
        (lambda x: halo_of(plan, x), lambda x: torch.ops.topomask.halo_exchange(x, *splits, group.name)),
        (lambda x: all_sum(group, x), lambda x: torch.ops.topomask.sum_over_ranks(x, group.name)),
    )
    for ours, operator in pairs:
        found = []
        for function in (ours, operator):
            x = torch.randn(2, layout.num_rows, 3, dtype=F64, generator=torch.Generator().manual_seed(1)).requires_grad_()
            if function in pairs[1]:
                x = x.detach()[:, :4].clone().requires_grad_()
            out = function(x)
            out.backward(torch.arange(out.numel(), dtype=F64).view(out.shape) + group.rank)
            found.append((out.detach(), x.grad))
        results += [torch.allclose(a, b) for a, b in zip(*found)]
    wrong = {
        "send_splits": (x, splits[0], [0] * group.size, splits[2], group.name),
        "recv_splits": (x, *splits[:2], [0], group.name),
        "send_index": (x, splits[0].int(), *splits[1:], group.name),
        "largest": (x, *splits, group.name, 0),
        "message_bytes": (x, *splits, group.name, plan.largest, 0),
        "x": (x[0, 0], *splits, group.name),
    }
    return results, {name: refusal(_raised, torch.ops.topomask.halo_exchange, *bad) for name, bad in wrong.items()}


class _Calls(TorchDispatchMode):
    """Exchanges that begin and that are awaited, and sines and their gradients, one after the other."""

    names = {"all_to_all_single": "send", "wait_tensor": "receive", "sin": "local", "cos": "local, backward"}

    def __init__(self):
        super().__init__()
        self.happened = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        name = function._schema.name.split("::")[1]
        if name in self.names:
            self.happened.append(self.names[name])
        return function(*arguments, **(options or {}))


def operators_that_overlap(message_rows):
    """An exchange that is begun and awaited apart, in messages of some rows: order of work, outputs and gradients."""
    graph = tm.Graph.grid(9, 8)
    layout = laid_out(graph)
    group, plan = layout.group, d.neighbours_mask(d.shard(graph, layout)).local.plan
    splits, results = (plan.send_index, plan.send_splits, plan.recv_splits, group.name), []
    for dtype in (F64, torch.bfloat16):
        x = torch.randn(2, layout.num_rows, 3, dtype=dtype, generator=torch.Generator().manual_seed(group.rank))
        message_bytes = message_rows * 2 * 3 * x.element_size()
        for largest in (plan.largest, -1):
            # Transposed: rows of x are not next to each other in memory.
            leaf = x.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
            with _Calls() as calls:
                exchange = torch.ops.topomask.start_halo_exchange(leaf, *splits, largest, message_bytes)
                local = exchange.own().sin()
                halo = exchange.wait()
                loss = local.sum() + (halo * halo).sum()
                loss.backward()
            happened = calls.happened if largest >= 0 else calls.happened[1:]  # without the all-reduce
            count = max(-(-plan.largest // message_rows), 1)
            forward = ["send"] * count + ["local"] + ["receive"] * count
            backward = ["send"] * count + ["local, backward"] + ["receive"] * count
            want = x.cos().index_add(1, plan.send_index, 2 * x[:, plan.send_index])
            results.append(happened == forward + backward)
            results.append(torch.equal(halo.detach(), layout.gather(x)[:, plan.halo]))
            results.append(torch.allclose(leaf.grad, want, *((1e-12, 1e-12) if dtype == F64 else (2e-2, 2e-2))))
            results.append(exchange.wait() is not None and torch.equal(exchange.wait(), halo))
    return results, count


def operator_without_its_halo():
    graph = tm.Graph.grid(9, 8)
    layout = laid_out(graph)
    plan = d.neighbours_mask(d.shard(graph, layout)).local.plan
    x = torch.ones(layout.num_rows, 2, requires_grad=True)
    splits = plan.send_index, plan.send_splits, plan.recv_splits, layout.group.name
    exchange = torch.ops.topomask.start_halo_exchange(x, *splits, plan.largest)
    exchange.wait()
    return refusal(_raised, exchange.own().sum().backward)


def _raised(function, *arguments):
    try:
        function(*arguments)
    except RuntimeError as error:
        raise ValueError(str(error)) from None


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

    def test_wrong_inputs_are_refused_on_every_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            found = ranks.run(2, refusals, folder)
        self.assertEqual(found[0], found[1])
        self.assertEqual(len(found[0]), len(REFUSED))
        for text, pattern in zip(found[0], REFUSED):
            with self.subTest(pattern):
                self.assertRegex(text, f"^{pattern}")

    def test_other_versions_are_refused(self):
        for text, trained, worked in ranks.run(2, other_version):
            self.assertRegex(
                text, r"^Layout: version must be the same on all ranks, got 0\.1\.0\+local\.0 on rank 0 and .*1 on rank 1"
            )
            self.assertRegex(trained, r"^train: version must be the same on all ranks, got 0\.1\.0\+local\.0 on rank 0")
            self.assertEqual(worked, [])

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

    def test_exchanges_touch_the_rows_that_travel(self):
        for results in ranks.run(3, parts_of_gradients):
            self.assertEqual(results, [True] * 3)

    def test_exchanges_have_work_to_hide_behind(self):
        forward = ["send", "inside", "receive", "border"]
        backward = ["border, backward", "send back", "inside, backward", "receive"]
        for happened in ranks.run(3, order_of_work):
            self.assertEqual(happened, forward + backward)

    def test_operators_with_the_name_of_a_group(self):
        for results, bad in ranks.run(3, operators):
            self.assertEqual(results, [True] * 4)
            for name, pattern in {
                "send_splits": "send_splits must sum to the [0-9]+ rows of send_index, got 0",
                "recv_splits": "recv_splits must have 3 ranks as send_splits has, got 1",
                "send_index": r"send_index must be Long \[s\], got .*Int",
                "largest": "largest must be at least the [0-9]+ rows that this rank sends to or takes from another, got 0",
                "message_bytes": "message_bytes must be positive, got 0",
                "x": r"x must be \[\.\.\., n, C\], got",
            }.items():
                with self.subTest(name):
                    self.assertRegex(bad[name], f"^halo_exchange: {pattern}")

    def test_operators_overlap_and_cut_messages(self):
        for size, message_rows in ((1, 3), (2, 1000), (2, 3), (3, 1)):
            with self.subTest(ranks=size, message_rows=message_rows):
                for results, count in ranks.run(size, operators_that_overlap, message_rows):
                    self.assertEqual(results, [True] * 16)
                    self.assertEqual(count > 1, size > 1 and message_rows < 1000)

    def test_operators_refuse_gradients_without_the_halo(self):
        for text in ranks.run(2, operator_without_its_halo):
            self.assertRegex(text, "^halo_exchange: every rank must use its halo in what it differentiates")

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
