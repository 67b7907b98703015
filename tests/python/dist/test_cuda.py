"""The same code on a GPU: one rank over NCCL, and two ranks on one GPU whose exchanges go by Gloo. Skipped where there is no GPU, or a
library without CUDA."""

import os
import socket
import tempfile
import unittest

import ranks
import topomask as tm
import torch
import torch.distributed as c10d
from test_masks import compared, families, graphs
from test_train import edge_list, lines, settings
from topomask import train as tt

d = tm.dist


def usable():
    if not torch.cuda.is_available():
        return False
    try:
        tm.Graph.grid(2, 2).to("cuda")
        q = torch.ones(4, 2, device="cuda")
        tm.attention(q, q, q, tm.neighbours_mask(tm.Graph.grid(2, 2)).to("cuda"))
    except (RuntimeError, ValueError, NotImplementedError):
        return False
    return True


def over_nccl(function, *arguments, backend="nccl"):
    """In a process of its own, with a process group of NCCL in place of that of Gloo."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    c10d.destroy_process_group()
    torch.cuda.set_device(0)
    c10d.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    return function(*arguments)


def on_cuda(heads):
    """The largest relative differences between masks over ranks on the GPU and masks of one process on the CPU, in float64."""
    torch.cuda.set_device(0)
    group = d.Group()
    found = {}
    for label, graph in graphs().items():
        layout = d.Layout(d.partition(graph, group.size), group)
        for name, mask, whole, learnt in families(graph, layout, d.shard(graph, layout), heads):
            moved, on_cpu = mask.to("cuda"), whole
            for softmax in (False,) if name in ("none", "low rank") else (False, True):
                key = f"{label} {name} softmax={softmax}"
                found[key] = compared(name, moved, on_cpu, learnt, layout.nodes, 0, softmax, heads, device="cuda")
    return found


def travels_over(backend):
    """The kinds of device from which tensors of the CPU and of the GPU travel."""

    def kinds():
        group = d.Group()
        return [group.travels_on(torch.device(kind)).type for kind in ("cpu", "cuda")]

    return over_nccl(kinds, backend=backend)


def trained(out, path, device):
    return tt.train(settings(path, **{"train.device": device, "train.steps": 6, "train.evaluate_every": 0}), out, quiet=True)


@unittest.skipUnless(usable(), "no GPU, or a library without CUDA")
class Cuda(unittest.TestCase):
    def check(self, found):
        for rank, cases in enumerate(found):
            self.assertGreater(len(cases), 20)
            for key, worst in cases.items():
                for what, difference in worst.items():
                    with self.subTest(rank=rank, case=key, what=what):
                        self.assertLess(difference, 1e-9)

    def test_one_rank_over_nccl(self):
        for heads in (1, 2):
            self.check(ranks.run(1, over_nccl, on_cuda, heads))

    def test_two_ranks_share_a_gpu(self):
        self.check(ranks.run(2, on_cuda, 1))

    def test_tensors_travel_from_a_device_with_a_backend(self):
        for backend, kinds in (("nccl", ["cuda", "cuda"]), ("cpu:gloo,cuda:nccl", ["cpu", "cuda"]), ("gloo", ["cpu", "cpu"])):
            with self.subTest(backend):
                self.assertEqual(ranks.run(1, travels_over, backend), [kinds])

    def test_training(self):
        with tempfile.TemporaryDirectory() as folder:
            path = edge_list(folder)
            cpu, gpu, two = (os.path.join(folder, name) for name in ("cpu", "gpu", "two"))
            ranks.run(1, trained, cpu, path, "cpu")
            ranks.run(1, over_nccl, trained, gpu, path, "cuda")
            ranks.run(2, trained, two, path, "cuda")
            for other in (gpu, two):
                for a, b in zip(lines(cpu), lines(other)):
                    self.assertLess(abs(a["loss"] - b["loss"]), 1e-8)


if __name__ == "__main__":
    unittest.main()
