"""Checkpoints of parameters that belong to the rows of a rank: the same for any number of ranks."""

import unittest

import ranks
import topomask as tm
import torch

d = tm.dist
F64 = torch.float64
GRAPH = tm.Graph.erdos_renyi(37, 0.1, seed=4).to(F64)


def model_of(layout, value):
    """Masks with parameters of rows and of the whole, and a layer; all parameters `value`."""
    shard = d.shard(GRAPH, layout)
    entries, rows = shard.columns.shape[0], layout.num_rows
    masks = [
        d.sparse_mask(shard, torch.nn.Parameter(torch.full((entries,), value, dtype=F64))),
        d.with_global_tokens(d.sparse_mask(shard, torch.nn.Parameter(torch.full((2, entries), value, dtype=F64))), 2),
        d.free_features_mask(layout, torch.nn.Parameter(torch.full((rows, 3), value, dtype=F64))),
        d.free_features_mask(layout, *(torch.nn.Parameter(torch.full((2, rows, 3), value, dtype=F64)) for _ in range(2))),
        d.power_series_mask(shard, torch.nn.Parameter(torch.full((3,), value, dtype=F64))),
    ]
    return torch.nn.ModuleList([*masks, torch.nn.Linear(3, 2).to(F64)])


def whole_state():
    """What the parameters of the whole graph are: numbers that differ."""
    entries, nodes = GRAPH.num_entries, GRAPH.num_nodes
    shapes = {
        "0.weights": (entries,),
        "1.mask.weights": (2, entries),
        "2.left": (nodes, 3),
        "2.right": (nodes, 3),
        "3.left": (2, nodes, 3),
        "3.right": (2, nodes, 3),
        "4.alpha": (3,),
        "5.weight": (2, 3),
        "5.bias": (2,),
    }
    state = {
        name: torch.rand(shape, dtype=F64, generator=torch.Generator().manual_seed(len(name))) for name, shape in shapes.items()
    }
    return {**state, "2.right": state["2.left"]}  # one parameter


def through_ranks(scattered):
    """A state that is loaded, trained on and gathered; and what this rank has of it."""
    graph = GRAPH
    group = d.Group()
    owners = torch.arange(graph.num_nodes) % group.size if scattered else "ranges"
    layout = d.Layout(d.partition(graph, group.size, owners, group=group), group)
    model, state = model_of(layout, 0.0), whole_state()
    d.load_state(model, state)
    entries = torch.cat([torch.arange(int(graph.offsets[i]), int(graph.offsets[i + 1])) for i in layout.nodes.tolist()])
    mine = (
        torch.equal(model[0].weights.detach(), state["0.weights"][entries]),
        torch.equal(model[1].mask.weights.detach(), state["1.mask.weights"][:, entries]),
        torch.equal(model[3].right.detach(), state["3.right"][:, layout.nodes]),
    )
    again = d.gather_state(model)
    same = again.keys() == state.keys() and all(torch.equal(again[name], state[name]) for name in state)
    q = layout.rows_of(torch.rand(2, graph.num_nodes, 4, dtype=F64, generator=torch.Generator().manual_seed(0)))
    out = sum(tm.attention(q, q, q, model[place]) for place in (0, 2, 3, 4))
    return mine, same, layout.gather(out).tolist()


def shared_by_two_layers():
    """One mask in two layers, loaded and gathered: whether both names have the values of all rows, and what this rank has."""
    group = d.Group()
    layout = d.Layout(d.partition(GRAPH, group.size, torch.arange(GRAPH.num_nodes) % group.size, group=group), group)
    shard = d.shard(GRAPH, layout)
    mask = d.sparse_mask(shard, torch.nn.Parameter(torch.zeros(shard.columns.shape[0], dtype=F64)))
    model = torch.nn.ModuleList([mask, torch.nn.Sequential(mask)])
    whole = torch.arange(GRAPH.num_entries, dtype=F64)
    d.load_state(model, {"0.weights": whole, "1.0.weights": whole})
    again = d.gather_state(model)
    return {name: torch.equal(x, whole) for name, x in again.items()}, mask.weights.tolist()


class State(unittest.TestCase):
    def test_a_mask_of_two_layers_has_all_rows_under_both_names(self):
        found = ranks.run(2, shared_by_two_layers)
        for same, _ in found:
            self.assertEqual(same, {"0.weights": True, "1.0.weights": True})
        self.assertEqual(sorted(x for _, mine in found for x in mine), list(range(GRAPH.num_entries)))

    def test_does_not_depend_on_the_ranks(self):
        want = None
        for size, scattered in ((1, False), (3, False), (3, True)):
            with self.subTest(ranks=size, scattered=scattered):
                for mine, same, out in ranks.run(size, through_ranks, scattered):
                    self.assertEqual(mine, (True, True, True))
                    self.assertTrue(same)
                    want = out if want is None else want
                    self.assertLess(float((torch.tensor(out) - torch.tensor(want)).abs().max()), 1e-12)

    def test_a_model_without_parameters_of_rows_is_as_it_is(self):
        layer = torch.nn.Linear(2, 3)
        state = d.gather_state(layer)
        self.assertEqual(state.keys(), layer.state_dict().keys())
        d.load_state(layer, {name: x + 1 for name, x in state.items()})
        self.assertTrue(torch.equal(layer.bias.detach(), state["bias"] + 1))


if __name__ == "__main__":
    unittest.main()
