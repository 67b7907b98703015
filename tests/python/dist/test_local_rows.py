"""Attention over ranks from C++: the halo that it finds, rows that overlap with the exchange, and what all ranks refuse."""

import unittest

import ranks
import topomask as tm
import torch
from test_exchange import _Calls, _raised
from test_ranks import laid_out, refusal

d = tm.dist
F64 = torch.float64


class _Work(_Calls):
    """Exchanges, and rows that are computed."""

    names = {
        "all_to_all_single": "send",
        "wait_tensor": "receive",
        "sparse_attention_forward": "rows",
        "sparse_attention_backward": "rows, backward",
    }


FORWARD = ["send", "send", "rows", "receive", "receive", "rows"]  # of k and v
BACKWARD = ["rows, backward", "send", "send", "rows, backward", "receive", "receive"]


def parts_of(layout):
    return layout.partition.owners, layout.partition.parts, layout.group.rank


def plans():
    """The halo and what is sent, of C++ and of the package."""
    layout = laid_out(tm.Graph.grid(7, 8))
    plan = d.neighbours_mask(d.shard(tm.Graph.grid(7, 8), layout)).local.plan
    made = torch.classes.topomask.HaloPlan(*parts_of(layout), plan.halo.sort()[0], layout.group.name)
    halo, index, send, recv, largest = made.tensors()
    return (
        torch.equal(halo, plan.halo) and torch.equal(index, plan.send_index),
        (send, recv, largest) == (plan.send_splits, plan.recv_splits, plan.largest),
        plan.num_halo,
    )


def attention(owners_of, dtype):
    """Outputs and gradients of C++ over ranks against one process; the order of work."""
    graph = tm.Graph.erdos_renyi(61, 0.06, seed=3).normalised().to(F64)  # has nodes without edges
    group = d.Group()
    layout = d.Layout(d.partition(graph, group.size, owners_of(graph, group.size)), group)
    shard = d.shard(graph, layout)
    rows = torch.classes.topomask.LocalRows(*parts_of(layout), shard.offsets, shard.columns, group.name)
    draw, results, happened = torch.Generator().manual_seed(5), [], []
    tolerance = 1e-11 if dtype == F64 else 2e-2
    lengths = graph.offsets.diff()
    own = torch.repeat_interleave(layout.partition.owners == group.rank, lengths)
    for heads in (1, 2):
        q, k, v = (torch.rand(3, 2, graph.num_nodes, c, dtype=F64, generator=draw).to(dtype) for c in (4, 4, 5))
        values = torch.rand(heads, graph.num_entries, dtype=F64, generator=draw).to(F64 if dtype == F64 else torch.float32)
        values = values if heads > 1 else values[0]
        cotangent = torch.randn(v.shape, dtype=F64, generator=draw).to(dtype)
        for softmax in (False, True):
            whole = [x.clone().requires_grad_() for x in (q, k, v, values)]
            mask = tm.sparse_mask(graph.pattern, whole[3])
            want = (
                tm.softmax_attention(*whole[:3], mask, route="sparse", scale=0.7)
                if softmax
                else tm.attention(*whole[:3], mask, features=None, route="sparse")
            )
            want.backward(cotangent)
            mine = [layout.rows_of(x).requires_grad_() for x in (q, k, v)] + [values[..., own].clone().requires_grad_()]
            with _Work() as calls:
                out = rows.softmax_attention(*mine, 0.7, 1e-6) if softmax else rows.attention(*mine, 1e-6)
                out.backward(layout.rows_of(cotangent))
            happened.append(calls.happened)
            expected = [layout.rows_of(want.detach()), *(layout.rows_of(x.grad) for x in whole[:3]), whole[3].grad[..., own]]
            for got, right in zip((out.detach(), *(x.grad for x in mine)), expected):
                scale = float(right.abs().max()) if right.numel() else 0.0
                error = float((got - right).abs().max()) if right.numel() else 0.0
                results.append(got.shape == right.shape and error <= tolerance * max(scale, 1.0))
    return results, happened, bool((~torch.isin(shard.columns.long(), layout.nodes)).any())


def by_method(graph, size):
    return "automatic"


def scattered(graph, size):
    """Neighbours on other ranks, most of them."""
    return torch.arange(graph.num_nodes) % size


def refused():
    layout = laid_out(tm.Graph.grid(5, 6))
    (owners, parts, rank), name = parts_of(layout), layout.group.name
    shard = d.shard(tm.Graph.grid(5, 6), layout)
    plan, local = torch.classes.topomask.HaloPlan, torch.classes.topomask.LocalRows
    foreign = torch.nonzero(owners != rank).squeeze(1)
    offsets = shard.offsets if rank != 1 else shard.offsets[:-1]
    columns = shard.columns[: int(offsets[-1])]
    other = owners if rank != 1 else torch.arange(30, dtype=torch.int32) % parts
    others = torch.nonzero(other != rank).squeeze(1)
    return [
        refusal(_raised, plan, owners, parts, rank, foreign if rank != 1 else torch.tensor([3, 2]), name),
        refusal(_raised, plan, other, parts, rank, others, name),
        refusal(_raised, local, owners, parts, rank, offsets, columns, name),
        refusal(_raised, plan, owners[:-5] if rank == 1 else owners, parts, rank, foreign, name),
    ]


class LocalRows(unittest.TestCase):
    def test_a_halo_is_that_of_the_package(self):
        for size in (1, 2, 4):
            for same, splits, halo in ranks.run(size, plans):
                self.assertTrue(same and splits)
                self.assertEqual(halo > 0, size > 1)

    def test_attention_is_that_of_one_process(self):
        for size, owners, dtype in ((1, by_method, F64), (3, by_method, F64), (3, scattered, F64), (2, scattered, torch.bfloat16)):
            with self.subTest(ranks=size, owners=owners.__name__, dtype=dtype):
                for results, happened, foreign in ranks.run(size, attention, owners, dtype):
                    self.assertEqual(results, [True] * 20)
                    self.assertEqual(foreign, size > 1)
                    for order in happened:
                        self.assertEqual(order, FORWARD + BACKWARD if size > 1 else ["rows", "rows, backward"])

    def test_what_one_rank_refuses_all_refuse(self):
        found = ranks.run(3, refused)
        for rank, (nodes, cut, rows, short) in enumerate(found):
            said = "rank 1 of the group has refused its arguments; its error says why"
            self.assertRegex(nodes, "^HaloPlan: " + ("needed must be ascending and distinct" if rank == 1 else said))
            self.assertRegex(cut, "^HaloPlan: partition must be the same on all ranks, got another on rank [01] of the group")
            self.assertRegex(rows, "^LocalRows: " + (r"rows must be \[10, 30\], the rows that" if rank == 1 else said))
            self.assertRegex(short, "^HaloPlan: " + (r"needed must be in \[0, 25\), got 2[5-9]" if rank == 1 else said))


if __name__ == "__main__":
    unittest.main()
