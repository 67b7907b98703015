"""Dropout by the numbers of nodes: what it drops, and that it does not depend on how nodes are divided."""

import unittest

import torch
from support import tm
from topomask.dropout import NodeDropout, seed_dropout, uniform

F64 = torch.float64


class Dropout(unittest.TestCase):
    def test_fractions_and_scale(self):
        nodes, width, p = torch.arange(4000), 50, 0.3
        layer = NodeDropout(p)
        seed_dropout(layer, 5, 2)
        out = layer(torch.ones(4000, width, dtype=F64), nodes)
        kept = out > 0
        self.assertTrue(torch.equal(out[kept], torch.full((int(kept.sum()),), 1 / (1 - p), dtype=F64)))
        sigma = (p * (1 - p)) ** 0.5
        self.assertLess(abs(float(kept.double().mean()) - (1 - p)), 4 * sigma / (4000 * width) ** 0.5)
        for dim, length in ((0, 4000), (1, width)):  # of each feature, and of each node; 6 σ of thousands of numbers
            self.assertLess(float((kept.double().mean(dim) - (1 - p)).abs().max()), 6 * sigma / length**0.5)

    def test_everything_is_dropped_with_probability_1(self):
        layer, x = NodeDropout(1.0), torch.rand(6, 8, requires_grad=True)
        for nodes in (None, torch.arange(6)):
            out = layer(x, nodes)
            self.assertTrue(torch.equal(out, torch.zeros(6, 8)))
            self.assertTrue(torch.equal(torch.autograd.grad(out.sum(), x)[0], torch.zeros(6, 8)))

    def test_numbers_are_uniform_and_uncorrelated(self):
        nodes = torch.arange(1000)
        made = [uniform(key, nodes, 40).double() / 2**53 - 0.5 for key in (1, 2, -(2**63))]
        for x in made:
            self.assertLess(float(torch.histc(x, 16, -0.5, 0.5).sub(2500).abs().max()), 6 * 2500**0.5)
        pairs = [(made[0], made[1]), (made[0], made[2])]
        pairs += [(made[0][1:], made[0][:-1]), (made[0][:, 1:], made[0][:, :-1]), (made[0][1:, :-1], made[0][:-1, 1:])]
        for a, b in pairs:
            self.assertLess(abs(float((a * b).mean() * 12)), 5 / a.numel() ** 0.5)

    def test_steps_seeds_and_layers_differ(self):
        model = torch.nn.Sequential(NodeDropout(0.5), NodeDropout(0.5))
        x, nodes, found = torch.ones(20, 16), torch.arange(20), []
        for seed, step in ((0, 0), (0, 1), (1, 0)):
            seed_dropout(model, seed, step)
            found += [layer(x, nodes) for layer in model]
        for place, one in enumerate(found):
            self.assertFalse(any(torch.equal(one, other) for other in found[:place]))

    def test_a_part_of_the_nodes_drops_what_the_whole_drops(self):
        layer, nodes = NodeDropout(0.4), torch.arange(60)
        seed_dropout(layer, 3, 7)
        x, some = torch.rand(2, 60, 8), torch.randperm(60, generator=torch.Generator().manual_seed(1))[:17]
        self.assertTrue(torch.equal(layer(x, nodes)[:, some], layer(x[:, some], nodes[some])))

    def test_it_is_the_dropout_of_torch_without_nodes_and_nothing_in_evaluation(self):
        layer, x = NodeDropout(0.4), torch.rand(6, 8)
        torch.manual_seed(1)
        want = torch.nn.functional.dropout(x, 0.4)
        torch.manual_seed(1)
        self.assertTrue(torch.equal(layer(x), want))
        self.assertTrue(torch.equal(layer.eval()(x, torch.arange(6)), x))

    def test_blocks_in_chunks_drop_the_same(self):
        mask = tm.neighbours_mask(tm.Graph.grid(9, 11)).to(F64)
        block = tm.nn.Block(8, 2, mask=mask, dropout=0.3).to(F64)
        seed_dropout(block, 1, 1)
        x, nodes, found = torch.randn(99, 8, dtype=F64), torch.arange(99) + 1000, []
        for chunk in (0, 7, 99):
            block.chunk = chunk
            block.zero_grad()
            given = x.clone().requires_grad_()
            out = block(given, nodes)
            out.square().sum().backward()
            found.append([out.detach(), given.grad, *(p.grad.clone() for p in block.parameters())])
        for other in found[1:]:
            for got, want in zip(other, found[0]):
                torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-11)
        block.eval()
        self.assertFalse(torch.equal(block(x, nodes), found[0][0]))


if __name__ == "__main__":
    unittest.main()
