"""Blocks that are computed some rows at a time: outputs and every gradient are those of the block as a whole."""

import unittest
from unittest import mock

import torch
from support import tm
from topomask import block_rows
from topomask.rowwise import rowwise

F64 = torch.float64


class Rowwise(unittest.TestCase):
    def test_a_block_in_chunks_is_the_block(self):
        graph = tm.Graph.grid(9, 11).normalised().to(F64)
        favor = tm.FeatureMap.favor(omega=torch.randn(7, 4, dtype=F64))
        stabilised = tm.FeatureMap.favor(omega=torch.randn(7, 4, dtype=F64), stabilised=True)
        cases = (("kernel", "relu"), ("kernel", favor), ("kernel", stabilised), ("kernel", torch.exp), ("softmax", "relu"))
        for kind, features in cases:
            mask = tm.grf_mask(
                tm.sample_walks(graph, walkers=4, seed=1), torch.nn.Parameter(torch.tensor([1, 0.5, 0.2], dtype=F64))
            )
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

    def wide_block(self, heads, offset, dtype):
        graph = tm.Graph.grid(3, 433).normalised().to(dtype)  # rows that fill no whole number of chunks
        walks = tm.sample_walks(graph, walkers=4, seed=1)
        mask = tm.grf_mask(walks, torch.nn.Parameter(torch.tensor([1, 0.5, 0.2], dtype=dtype)))
        torch.manual_seed(3)
        block = tm.nn.Block(64, heads, mask=mask, features=tm.FeatureMap.relu(offset), mlp_ratio=2).to(dtype)
        with torch.no_grad():
            for parameter in block.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        return block

    def step(self, block, x, chunk):
        block.chunk = chunk
        block.zero_grad()
        given = x.clone().requires_grad_()
        out = block(given)
        out.square().sum().backward()
        return [out.detach(), given.grad, *(p.grad.clone() for p in block.parameters())]

    def test_rows_through_the_operators_are_the_block(self):
        for heads, offset in ((1, 0.0), (2, 1e-3), (4, 0.0)):
            block, x = self.wide_block(heads, offset, F64), torch.randn(1299, 64, dtype=F64)
            with mock.patch.object(block_rows, "supports", wraps=block_rows.supports) as asked:
                got, want = self.step(block, x, 100), self.step(block, x, 0)
            self.assertEqual(asked.call_count, 1)
            self.assertTrue(block_rows.supports(x, heads, [block.attention_norm, block.attention.qkv]))
            for one, other in zip(got, want):
                torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)

    def test_rows_through_the_operators_do_not_depend_on_threads(self):
        block, x = self.wide_block(4, 1e-3, torch.float32), torch.randn(1299, 64)
        threads, found = torch.get_num_threads(), []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(self.step(block, x, 100))
        torch.set_num_threads(threads)
        for other in found[1:]:
            for one, two in zip(found[0], other):
                torch.testing.assert_close(one, two, rtol=0, atol=0)

    def test_rows_through_the_operators_in_bfloat16(self):
        block, x = self.wide_block(4, 1e-3, torch.float32), torch.randn(1299, 64)
        want = self.step(block, x, 100)
        with torch.autocast("cpu", torch.bfloat16):
            got = self.step(block, x, 100)
        for one, other in zip(got, want):
            self.assertLess(float((one - other).norm() / other.norm()), 0.03)

    def test_other_blocks_are_left_to_torch(self):
        block, x = self.wide_block(4, 0.0, F64), torch.randn(1299, 64, dtype=F64)
        layers = [block.attention_norm, block.attention.qkv]
        self.assertFalse(block_rows.supports(x.float(), 4, layers))
        self.assertFalse(block_rows.supports(x.unsqueeze(0), 4, layers))
        self.assertFalse(block_rows.supports(x, 8, layers))
        self.assertFalse(block_rows.supports(x, 4, [torch.nn.Linear(64, 64, bias=False, dtype=F64)]))

    def test_other_parameters_by_functional_call_are_those_of_both_passes(self):
        x = torch.randn(2, 99, 8, dtype=F64)
        for kind, features in (("kernel", "elu"), ("kernel", torch.exp), ("softmax", "relu")):
            with self.subTest(kind=kind, features=features):
                torch.manual_seed(5)
                block = tm.nn.Block(8, 2, mask=tm.neighbours_mask(tm.Graph.grid(9, 11)).to(F64), kind=kind, features=features)
                block.to(F64).requires_grad_(False)
                raw = {name: torch.randn_like(p).mul_(0.2).requires_grad_() for name, p in block.named_parameters()}
                found = []
                for chunk in (0, 7):
                    block.chunk = chunk
                    given = x.clone().requires_grad_()
                    used = {name: p.sinh() for name, p in raw.items()}  # with a history
                    out = torch.func.functional_call(block, used, (given,))
                    found.append([out, *torch.autograd.grad(out.square().sum(), [given, *raw.values()])])
                for got, want in zip(*found):
                    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
                self.assertTrue(all(type(p) is torch.nn.Parameter and not p.requires_grad for p in block.parameters()))

    def test_a_parameter_that_two_modules_share_counts_once(self):
        one, two = torch.nn.Linear(6, 6).to(F64), torch.nn.Linear(6, 6).to(F64)
        two.weight = one.weight
        x, found = torch.randn(40, 6, dtype=F64), []
        for chunk in (10, 100):
            out = rowwise(lambda x: (one(x) * two(x),), chunk, [x], [one, two])[0]
            found.append(torch.autograd.grad(out.sum(), [one.weight, one.bias, two.bias]))
        for got, want in zip(*found):
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)

    def test_directions_that_learn_have_a_gradient(self):
        omega = torch.randn(7, 4, dtype=F64, requires_grad=True)
        features = tm.FeatureMap.favor(omega=omega)
        block = tm.nn.Block(8, 2, mask=tm.neighbours_mask(tm.Graph.grid(9, 11)).to(F64), features=features).to(F64)
        x, found = torch.randn(99, 8, dtype=F64), []
        for chunk in (0, 7):
            block.chunk = chunk
            found.append(torch.autograd.grad(block(x).square().sum(), omega)[0])
        torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)

    def test_only_what_requires_a_gradient_has_one(self):
        layer = torch.nn.Linear(3, 2).requires_grad_(False)
        x, y = torch.randn(10, 3), torch.randn(10, 2, requires_grad=True)
        one, two = rowwise(lambda x, y: (layer(x) * y, y.square()), 4, [x, y], [layer])
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
                out = rowwise(lambda x: (layer(x),), chunk, [x], [layer])[0]
            self.assertEqual(out.dtype, torch.bfloat16)
            out.float().square().sum().backward()
            gradients.append(layer.weight.grad.clone())
        one, other = gradients
        self.assertLess((one - other).norm(), 1e-2 * other.norm())

    def test_wrong_chunks_are_refused(self):
        mask = tm.none_mask(4)
        with self.assertRaisesRegex(ValueError, "Block: chunk must not be negative, got -3"):
            tm.nn.Block(8, mask=mask, chunk=-3)
        with self.assertRaisesRegex(ValueError, "Block: nodes must be given for dropout in chunks, p = 0.1, got none"):
            tm.nn.Block(8, mask=mask, dropout=0.1, chunk=3)(torch.zeros(1, mask.size, 8))
        with self.assertRaisesRegex(ValueError, "rowwise: chunk must be positive, got 0"):
            rowwise(lambda x: (x,), 0, [torch.ones(2, 2)], [])


if __name__ == "__main__":
    unittest.main()
