"""Wrong arguments and ranks that differ: refused on every rank, with the message of the one that noticed."""

import dataclasses
import pathlib
import tempfile
import unittest

import ranks
import topomask as tm
import torch
import torch.distributed as c10d
from test_ranks import refusal

d = tm.dist
F64 = torch.float64


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
    learnt = graph.with_weights(graph.weights.clone().requires_grad_()) if rank == 1 else graph
    learnt_shard = dataclasses.replace(shard, weights=learnt.weights[: shard.weights.shape[0]])
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
        refusal(d.shard, learnt, layout),
        refusal(d.sample_walks, learnt, layout),
        refusal(d.travelling_walks, learnt_shard),
        refusal(d.neighbours_mask, learnt_shard),
        refusal(d.power_series_mask, learnt_shard, torch.ones(3)),
        refusal(learnt_shard.normalised),
        refusal(d.Group, message_bytes=1 << (20 + rank)),
        refusal(d.Group, message_bytes=0),
        refusal(d.partition, graph, group.size, torch.arange(42 - rank) % group.size, group=group),
        refusal(d.partition, graph, group.size, "metis" if rank == 0 else "none such", group=group),
        refusal(d.Layout, d.Partition(torch.arange(42 - rank) % group.size, group.size), group),
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
    r"shard: rank 1: shard: graph must have weights that do not require grad, got weights that do: .*; detach them with",
    r"sample_walks: rank 1: sample_walks_from: graph must have weights that do not require grad",
    r"travelling_walks: rank 1: shard must have weights that do not require grad, got weights that do: .*; detach them with",
    r"neighbours_mask: rank 1: shard must have weights that do not require grad",
    r"power_series_mask: rank 1: shard must have weights that do not require grad",
    r"normalised: rank 1: shard must have weights that do not require grad",
    r"Group: message_bytes must be the same on all ranks, got 1048576 on rank 0 and 2097152 on rank 1",
    r"Group: message_bytes must be positive, got 0",
    r"partition: rank 1: partition: owners must be Int or Long \[N = 42\], got Long\[41\]",
    r"partition: rank [01]: .*method must be",
    r"Layout: nodes must be the same on all ranks, got 42 on rank 0 and 41 on rank 1",
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


def other_torch():
    """The second rank has another torch."""
    torch.__version__ = f"2.{40 + c10d.get_rank()}.1+cpu"
    return refusal(d.Layout, d.Partition(torch.arange(6) % 2, 2))


class Refusals(unittest.TestCase):
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
        for text in ranks.run(2, other_torch):
            self.assertEqual(text, "Layout: torch must be the same on all ranks, got 2.40.1 on rank 0 and 2.41.1 on rank 1")


if __name__ == "__main__":
    unittest.main()
