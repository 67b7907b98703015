"""Walks over ranks are those of one process, bit for bit."""

import unittest

import ranks
import topomask as tm
import torch

d = tm.dist


def samplers(graph):
    for coupling in ("independent", "antithetic", "repelling", "antithetic_repelling"):
        yield {"walkers": 6, "halting_probability": 0.3, "coupling": coupling, "seed": 2**63 + 5}
    yield {"walkers": 4, "coupling": "repelling", "ensemble": 2, "seed": 6}
    yield {"walkers": 3, "fixed_hops": 4, "seed": 7}
    yield {"walkers": 3, "survival": torch.tensor([1.0, 0.7, 0.2], dtype=torch.float64), "seed": 8}
    yield {"walkers": 3, "exact_hops": 2, "proposal": "weights", "first_walker": 10}
    yield {"walkers": 3, "proposal": "given", "proposal_weights": graph.weights.abs() + 0.5}


def every_sampler():
    """Compares the rows of this rank with those of one process; the bytes that sample_walks sent for each sampler."""
    group = d.Group()
    graph = tm.Graph.erdos_renyi(83, 0.06, seed=2).normalised()  # has nodes without edges
    layout = d.Layout(d.partition(graph, group.size), group)
    shard = d.shard(graph, layout)
    own = entries_of(graph.offsets, layout.nodes)
    sent = []
    for options in samplers(graph):
        before = group.bytes_sent
        walks = d.sample_walks(graph, layout, **options)
        sent.append(group.bytes_sent - before)
        if "proposal_weights" in options:
            of_rank = {**options, "proposal_weights": options["proposal_weights"][own]}
        else:
            of_rank = options
        travelled, whole = d.travelling_walks(shard, **of_rank), tm.sample_walks(graph, **options)
        entries = entries_of(whole.offsets, layout.nodes)
        lengths = whole.offsets.diff()[layout.nodes]
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        assert torch.equal(walks.offsets, offsets) and torch.equal(travelled.offsets, offsets), options
        for name in ("columns", "hops", "loads", "counts"):
            assert torch.equal(getattr(walks, name), getattr(whole, name)[entries]), (name, options)
            assert torch.equal(getattr(travelled, name), getattr(whole, name)[entries]), ("travelled", name, options)
    return sent


def entries_of(offsets, nodes):
    return torch.cat([torch.arange(int(offsets[i]), int(offsets[i + 1])) for i in nodes.tolist()])


CHECKS = 8 * (1 + 2 + 1 + 3)
"""Bytes that a rank sends each other one to agree: whether it refuses, seed and walkers, other options, three checksums of the graph."""


class Walks(unittest.TestCase):
    def test_every_sampler_on_every_number_of_ranks(self):
        for size in (1, 2, 3, 4, 8):
            with self.subTest(ranks=size):
                for sent in ranks.run(size, every_sampler):
                    self.assertEqual(sent, [(size - 1) * CHECKS] * 9)


if __name__ == "__main__":
    unittest.main()
