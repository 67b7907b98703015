"""Blocks that are computed some rows at a time: outputs and every gradient are those of the block as a whole."""

import unittest

import torch
from support import tm

from topomask.rowwise import rowwise

F64 = torch.float64


class Rowwise(unittest.TestCase):
    def test_a_block_in_chunks_is_the_block(self):
        graph = tm.Graph.grid(9, 11).normalised().to(F64)
        favor = tm.FeatureMap.favor(omega=torch.randn(7, 4, dtype=F64))
        stabilised = tm.FeatureMap.favor(omega=torch.randn(7, 4, dtype=F64), stabilised=True)
        cases = (("kernel", "relu"), ("kernel", favor), ("kernel", stabilised), ("kernel", torch.exp), ("softmax", "relu"))
        for kind, features in cases:
            mask = tm.grf_mask(tm.sample_walks(graph, walkers=4, seed=1), torch.nn.Parameter(torch.tensor([1, 0.5, 0.2], dtype=F64)))
            block = tm.nn.Block(8, 2, mask=mask, kind=kind, features=features).to(F64)
            x = torch.randn(2, 99, 8, dtype=F64)
            found = []
            for chunk in (0, 1, 7, 33, 99, 1000):
                block.chunk = chunk
                block.zero_grad()
                given = x.clone().requires_grad_()
                out = block(given)
                out.square().sum().backward()
                found.append([out.detach(), given.grad, *(p.grad.clone() for p in block.parameters())])
            for other in found[1:]:
                for got, want in zip(other, found[0]):
                    torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-11)

    def test_only_what_requires_a_gradient_has_one(self):
        layer = torch.nn.Linear(3, 2).requires_grad_(False)
        x, y = torch.randn(10, 3), torch.randn(10, 2, requires_grad=True)
        one, two = rowwise(lambda x, y: (layer(x) * y, y.square()), 4, [x, y], list(layer.parameters()))
        (one.sum() + two.sum()).backward()
        torch.testing.assert_close(y.grad, layer(x) + 2 * y.detach())
        self.assertIsNone(x.grad)

    def test_autocast_is_the_same_backward(self):
        layer = torch.nn.Linear(6, 6)
        x = torch.randn(40, 6)
        gradients = []
        for chunk in (10, 100):
            layer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                out = rowwise(lambda x: (layer(x),), chunk, [x], list(layer.parameters()))[0]
            self.assertEqual(out.dtype, torch.bfloat16)
            out.float().square().sum().backward()
            gradients.append(layer.weight.grad.clone())
        torch.testing.assert_close(*gradients, rtol=2e-2, atol=0.2)

    def test_wrong_chunks_are_refused(self):
        mask = tm.none_mask(4)
        with self.assertRaisesRegex(ValueError, "Block: chunk must be 0, or positive without dropout, got 3 with dropout = 0.1"):
            tm.nn.Block(8, mask=mask, dropout=0.1, chunk=3)
        with self.assertRaisesRegex(ValueError, "rowwise: chunk must be positive, got 0"):
            rowwise(lambda x: (x,), 0, [torch.ones(2, 2)], [])


if __name__ == "__main__":
    unittest.main()
