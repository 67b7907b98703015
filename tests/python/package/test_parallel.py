"""Models over two processes as torch divides them, DDP and FSDP: the steps of one process."""

import copy
import gc
import os
import tempfile
import unittest

import torch
import torch.distributed
import torch.multiprocessing
from support import Case, tm
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

RANKS = 2


def steps(model, images):
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        model(images).square().mean().backward()
        optimiser.step()
    return model(images).detach()


def sharded(model):
    mesh = init_device_mesh("cpu", (RANKS,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def differences(rank, folder):
    """How far a vision transformer in two processes, each with half of the batch, is from the one in a single process."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    model = tm.nn.ViT(image_size=8, classes=3, channels=1, patch_size=2, width=12, depth=2, heads=3)
    images = torch.rand(4, 1, 8, 8)
    want = steps(copy.deepcopy(model), images)[rank::RANKS]
    found = {}
    for name, divide in (("DDP", DistributedDataParallel), ("FSDP", sharded)):
        found[name] = float((steps(divide(copy.deepcopy(model)), images[rank::RANKS]) - want).abs().max())
    torch.save(found, f"{folder}/{rank}.pt")
    gc.collect()  # what holds the process group, so that its threads end here and not while the interpreter does
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@unittest.skipUnless(torch.distributed.is_available() and os.name == "posix", "needs torch.distributed")
class Parallel(Case):
    def test_two_processes_take_the_steps_of_one(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(differences, (folder,), nprocs=RANKS)
            for rank in range(RANKS):
                for name, difference in torch.load(f"{folder}/{rank}.pt").items():
                    with self.subTest(name=name, rank=rank):
                        self.assertLess(difference, 1e-5)


if __name__ == "__main__":
    unittest.main()
