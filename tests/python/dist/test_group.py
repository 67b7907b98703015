"""Groups of ranks: the devices that their tensors travel from, and checksums."""

import unittest

import ranks
import topomask as tm
import torch
import torch.distributed as c10d
from topomask.dist import group as dg
from torch.utils._python_dispatch import TorchDispatchMode

d = tm.dist
F64 = torch.float64


def with_backends(text):
    """What the ranks exchange over a process group whose backend is named for a kind of device."""
    rank, size = c10d.get_rank(), c10d.get_world_size()
    store = c10d.distributed_c10d._get_default_store()
    c10d.destroy_process_group()
    c10d.init_process_group(text, store=c10d.PrefixStore("again", store), rank=rank, world_size=size)
    group = d.Group()
    return str(group.device), group.all_gather([group.rank]), int(group.all_reduce(torch.tensor([group.rank + 1])))


class _Allocated(TorchDispatchMode):
    """The most numbers in one result of 64 bits."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        made = function(*arguments, **(options or {}))
        if isinstance(made, torch.Tensor) and made.dtype == torch.int64:
            self.numbers = max(self.numbers, made.numel())
        return made


class Backend(unittest.TestCase):
    def test_a_backend_named_for_the_cpu(self):
        for found in ranks.run(2, with_backends, "cpu:gloo"):
            self.assertEqual(found, ("cpu", [[0], [1]], 3))


class Backends(unittest.TestCase):
    def test_tensors_travel_from_a_device_with_a_backend(self):
        for config, cpu, cuda in (
            ("cpu:gloo,cuda:nccl", "cpu", "cuda"),
            ("cuda:nccl,cpu:gloo", "cpu", "cuda"),
            ("cpu:gloo", "cpu", "cpu"),
            ("cpu:gloo,cuda:gloo", "cpu", "cpu"),
            ("cuda:nccl", "cuda", "cuda"),
            ("cuda:nccl,xpu:xccl", "cuda", "cuda"),
        ):
            with self.subTest(config):
                backends = dg.backends_of(config)
                self.assertEqual([dg.travelling_kind(backends, kind) for kind in ("cpu", "cuda")], [cpu, cuda])


class Checksums(unittest.TestCase):
    def reference(self, tensor):
        """Σ mixed(word ^ mixed(place)) over words of eight bytes, and what stands for dtype and shape."""
        mask = 2**64 - 1

        def mixed(x):
            x = (x + 0x9E3779B97F4A7C15) & mask
            x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
            x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
            return x ^ (x >> 31)

        total = mixed(KINDS[tensor.dtype])
        for size in tensor.shape:
            total = mixed(total ^ size)
        content = bytes(tensor.contiguous().view(-1).view(torch.uint8).tolist())
        for place in range(0, len(content), 8):
            total += mixed(int.from_bytes(content[place : place + 8], "little") ^ mixed(place // 8))
        return (total + 2**63) % 2**64 - 2**63

    def test_are_those_of_the_formula(self):
        for tensor in (
            torch.arange(-70, 77).view(3, 49),
            torch.randn(13, dtype=F64),
            torch.zeros(0),
            torch.tensor(3.5),
            torch.randn(4, 5).T,
            torch.arange(7, dtype=torch.uint8),
            torch.arange(200_000),  # in parallel
        ):
            with self.subTest(shape=tensor.shape, dtype=tensor.dtype):
                self.assertEqual(dg._checksum(tensor), self.reference(tensor))

    def test_take_little_memory(self):
        tensor = torch.ones(8 << 20, dtype=torch.uint8)
        with _Allocated() as allocated:
            dg._checksum(tensor)
        self.assertEqual(allocated.numbers, 0)


KINDS = {torch.uint8: 0, torch.int64: 4, torch.float32: 6, torch.float64: 7}  # as c10::ScalarType numbers them


if __name__ == "__main__":
    unittest.main()
