"""Patterns: what is checked of them on any device, and masks whose values are in the order of the user's edges."""

import copy
import unittest

import torch
from families import random
from support import Case, tm
from topomask import pattern as patterns

GOOD = {
    "three rows": ([0, 2, 2, 4], [0, 3, 1, 2], 4),
    "one row": ([0, 3], [0, 1, 2], 3),
    "no rows": ([0], [], 4),
    "no entries": ([0, 0, 0], [], 2),
    "no columns": ([0, 0], [], 0),
    "one entry": ([0, 0, 1, 1], [0], 1),
    "rows that begin low": ([0, 1, 2, 3], [2, 1, 0], 3),
}
BAD = {
    "a column beyond the last": ([0, 2, 2, 4], [0, 4, 1, 2], 4),
    "a negative column": ([0, 2, 2, 4], [-1, 3, 1, 2], 4),
    "columns that descend": ([0, 2, 2, 4], [3, 0, 1, 2], 4),
    "a column twice": ([0, 2, 2, 4], [3, 3, 1, 2], 4),
    "a column twice in the last row": ([0, 2, 2, 4], [0, 3, 2, 2], 4),
    "offsets that begin late": ([1, 2, 2, 4], [0, 3, 1, 2], 4),
    "offsets that end early": ([0, 2, 2, 3], [0, 3, 1, 2], 4),
    "offsets that end late": ([0, 2, 2, 9], [0, 3, 1, 2], 4),
    "offsets that decrease": ([0, 3, 2, 4], [0, 1, 3, 2], 4),
    "offsets far outside": ([0, 2**40, -(2**40), 4], [0, 1, 2, 3], 4),
    "entries without rows": ([0], [1], 4),
}


def tensors(offsets, columns, device="cpu"):
    return torch.tensor(offsets, dtype=torch.int64, device=device), torch.tensor(columns, dtype=torch.int32, device=device)


class Checks(Case):
    def test_the_check_of_any_device_is_that_of_the_cpu(self):
        for name, (offsets, columns, cols) in GOOD.items():
            with self.subTest(name=name):
                tm.Pattern(*tensors(offsets, columns), cols)
                self.assertTrue(patterns.is_ordered(*tensors(offsets, columns), cols))
        for name, (offsets, columns, cols) in BAD.items():
            with self.subTest(name=name):
                self.refuses(ValueError, "^(Sparse)?Pattern: ", tm.Pattern, *tensors(offsets, columns), cols)
                self.assertFalse(patterns.is_ordered(*tensors(offsets, columns), cols))

    def test_the_check_agrees_with_the_cpu_on_random_patterns(self):
        generator = torch.Generator().manual_seed(5)
        outcomes = set()
        for _ in range(300):
            offsets = torch.randint(0, 5, (4,), generator=generator).sort().values
            offsets[0], offsets[-1] = 0, 4
            columns = torch.randint(0, 6, (4,), generator=generator, dtype=torch.int32)
            try:
                tm.Pattern(offsets, columns, 5)
                right = True
            except ValueError:
                right = False
            outcomes.add(right)
            self.assertEqual(patterns.is_ordered(offsets, columns, 5), right)
        self.assertEqual(outcomes, {False, True})

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_patterns_on_a_gpu_are_checked(self):
        for name, (offsets, columns, cols) in GOOD.items():
            with self.subTest(name=name):
                tm.Pattern(*tensors(offsets, columns, "cuda"), cols)
        for name, (offsets, columns, cols) in BAD.items():
            with self.subTest(name=name):
                with self.assertRaises(ValueError) as here:
                    tm.Pattern(*tensors(offsets, columns), cols)
                with self.assertRaises(ValueError) as there:
                    tm.Pattern(*tensors(offsets, columns, "cuda"), cols)
                self.assertEqual(str(here.exception), str(there.exception))


class Ordered(Case):
    """sparse_mask with values in the order of the user."""

    def setUp(self):
        graph = tm.Graph.grid(4, 5)
        order = torch.randperm(graph.num_entries, generator=torch.Generator().manual_seed(2))
        self.edges = graph.edge_index()[:, order]
        self.back = order.argsort()
        self.pattern = graph.pattern

    def masks(self, values):
        """In the order of the edges, and in the order of the entries."""
        mine = tm.SparseMask(self.edges, values)
        return mine, tm.sparse_mask(self.pattern, mine.values.index_select(-1, self.back))

    def test_it_is_made_once(self):
        mask = tm.SparseMask(self.edges, heads=2, dtype=torch.float64)
        made = mask._object
        q = random(2, 20, 4)
        tm.attention(q, q, q, mask).sum().backward()
        with torch.no_grad():
            mask.values.mul_(2)
        self.assertIs(mask._object, made)
        self.assertEqual(mask._learnt, ["values"])

    def test_values_and_gradients_are_those_of_the_entries_by_every_route(self):
        for values in (random(self.edges.shape[1]), random(2, self.edges.shape[1])):
            for around in (lambda mask: mask, lambda mask: tm.with_global_tokens(mask, 2)):
                for route in ("automatic", "sparse", "dense", "operator"):
                    with self.subTest(heads=values.dim(), route=route):
                        mine, plain = self.masks(values)
                        own, other = around(mine), around(plain)
                        q, k, v = (random(3, 2, own.size, 4).roll(shift, -2) for shift in range(3))
                        got, want = (tm.attention(q, k, v, mask, route=route) for mask in (own, other))
                        self.close(got, want, 1e-12)
                        cotangent = random(*got.shape)
                        found, expected = (torch.autograd.grad(out, mine.values, cotangent)[0] for out in (got, want))
                        self.close(found, expected, 1e-10)
                        self.close(own.matmul_transposed(v), other.matmul_transposed(v), 1e-12)

    def test_every_change_of_the_values_is_seen(self):
        mine, _ = self.masks(random(self.edges.shape[1]))
        for write in (lambda t: t.data.mul_(2), lambda t: t.detach().add_(1), lambda t: setattr(t, "data", t.detach() * 3)):
            write(mine.values)
            want = torch.zeros(20, 20, dtype=torch.float64)
            want[self.edges[0], self.edges[1]] = mine.values.detach()
            self.close(mine.dense(), want, 0)
        mine.values = torch.nn.Parameter(mine.values.detach() / 2)
        self.close(mine.dense(), want / 2, 0)
        self.close(copy.deepcopy(mine).requires_grad_(False).float().dense(), want / 2, 1e-6)

    def test_a_wrong_order_is_refused(self):
        order = torch.arange(self.pattern.entries - 1)
        pattern = tm.Pattern(self.pattern.offsets, self.pattern.columns, 20, order)
        self.refuses(ValueError, "sparse_mask: order must be int64", tm.sparse_mask, pattern, torch.ones(pattern.entries))


class Tiles(Case):
    """Only patterns that operators of attention take have tiles."""

    def test_operands_without_tiles(self):
        pattern = tm.Graph.grid(3, 3).pattern
        self.assertEqual([len(pattern._operands()), len(pattern._operands(tiled=False))], [5, 5])

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_on_a_gpu(self):
        pattern = tm.Graph.grid(3, 3).to("cuda").pattern
        self.assertEqual([len(pattern._operands()), len(pattern._operands(tiled=False))], [7, 5])


if __name__ == "__main__":
    unittest.main()
