"""Exchanges of rows between ranks: what travels, in which order, and the operators that do it."""

import unittest

import ranks
import topomask as tm
import torch
from test_ranks import laid_out, refusal
from torch.utils._python_dispatch import TorchDispatchMode

d = tm.dist
F64 = torch.float64


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


def exchange_without_its_halo():
    """The same of the package."""
    from topomask.dist.exchange import Exchange

    graph = tm.Graph.grid(9, 8)
    layout = laid_out(graph)
    plan = d.neighbours_mask(d.shard(graph, layout)).local.plan
    x = torch.ones(layout.num_rows, 2, requires_grad=True)
    exchange = Exchange(plan, [x])
    exchange.end()
    return refusal(_raised, exchange.own[0].sum().backward)


def _raised(function, *arguments):
    try:
        function(*arguments)
    except RuntimeError as error:
        raise ValueError(str(error)) from None


class Exchanges(unittest.TestCase):
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

    def test_gradients_without_the_halo_are_refused(self):
        found = [ranks.run(2, function) for function in (operator_without_its_halo, exchange_without_its_halo)]
        for cpp, python in zip(*found):
            self.assertRegex(cpp, "^halo_exchange: every rank must use its halo in what it differentiates")
            self.assertEqual(python, cpp)


if __name__ == "__main__":
    unittest.main()
