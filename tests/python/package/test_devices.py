"""Masks as modules on a GPU: every family there gives what it gives on the CPU, outputs and every gradient."""

import types
import unittest

import torch
from families import NODES, families, random
from support import Case, tm


def outputs_and_gradients(mask, q, k, v):
    leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
    learnt = [parameter for parameter in mask.parameters() if parameter.requires_grad]
    outputs = []
    for attend in (tm.attention, tm.softmax_attention):
        out = attend(*leaves, mask)
        (out * torch.linspace(-1, 1, out.numel(), device=out.device, dtype=out.dtype).view_as(out)).sum().backward()
        outputs.append(out.detach())
    outputs.append(mask.matmul(leaves[2].detach()))
    return [tensor.cpu() for tensor in (*outputs, *(leaf.grad for leaf in leaves), *(p.grad for p in learnt if p.grad is not None))]


@unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
class Gpu(Case):
    def test_a_mask_made_of_what_is_on_the_gpu_is_the_mask(self):
        here, there = families(), families(device="cuda")
        for name in here:
            with self.subTest(name=name):
                tensors = [*there[name].parameters(), *there[name].buffers()]
                self.assertLessEqual({tensor.device.type for tensor in tensors}, {"cuda"})
                q, k, v = (random(2, 2, NODES, width) for width in (4, 4, 5))
                want = outputs_and_gradients(here[name], q, k, v)
                got = outputs_and_gradients(there[name], q.cuda(), k.cuda(), v.cuda())
                for a, b in zip(got, want):
                    self.close(a, b, 1e-9)

    def test_edges_on_the_gpu_are_the_graph(self):
        edges = tm.Graph.erdos_renyi(30, 0.2, seed=2).edge_index()[:, ::2]
        weights = random(edges.shape[1])
        for directed in (False, True):
            want = tm.Graph.from_edge_index(edges, weights, 30, directed=directed)
            made = tm.Graph.from_edge_index(edges.cuda(), weights.cuda(), 30, directed=directed)
            self.assertEqual(made.device.type, "cuda")
            self.assertTrue(torch.equal(made.dense().cpu(), want.dense()))
            data = types.SimpleNamespace(edge_index=edges.cuda(), edge_weight=weights.cuda(), num_nodes=30)
            self.assertTrue(torch.equal(tm.Graph.from_pyg(data, directed=directed).dense().cpu(), want.dense()))
        self.refuses(ValueError, "weights must be on cuda:0", tm.Graph.from_edge_index, edges.cuda(), weights, 30)

    def test_a_moved_mask_is_the_mask(self):
        for name in families():
            with self.subTest(name=name):
                q, k, v = (random(2, 2, NODES, width) for width in (4, 4, 5))
                here, there = families()[name], families()[name].cuda()
                want = outputs_and_gradients(here, q, k, v)
                got = outputs_and_gradients(there, q.cuda(), k.cuda(), v.cuda())
                self.assertEqual(len(got), len(want))
                for a, b in zip(got, want):
                    self.close(a, b, 1e-9)
                back = outputs_and_gradients(there.cpu(), q, k, v)
                for a, b in zip(back[:3], want[:3]):
                    self.close(a, b, 1e-12)

    def test_a_step_of_an_optimiser_reaches_the_mask(self):
        for name in families():
            mask = families()[name].cuda()
            learnt = list(mask.parameters())
            if not learnt:
                continue
            with self.subTest(name=name):
                x = random(2, 2, NODES, 3).cuda()
                before = mask.matmul(x).detach()
                mask.matmul(x).square().sum().backward()
                with torch.no_grad():
                    for parameter in learnt:
                        if parameter.grad is not None:
                            parameter.mul_(0.9)
                after = mask.matmul(x).detach()
                self.assertFalse(torch.equal(before, after))
                self.close(after.cpu(), mask.cpu().matmul(x.cpu()).detach(), 1e-9)


if __name__ == "__main__":
    unittest.main()
