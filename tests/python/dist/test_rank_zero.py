"""The rank that holds the store of torch.distributed dies: its signs of life go with it, and the others still name it."""

import datetime
import os
import socket
import unittest

import ranks
import topomask as tm
import torch
import torch.distributed as c10d

d = tm.dist


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def dies_with_the_store(port):
    """As without torchrun: the first rank holds the store, in a new process group."""
    rank, size = c10d.get_rank(), c10d.get_world_size()
    c10d.destroy_process_group()
    timeout = datetime.timedelta(seconds=8)
    c10d.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size, timeout=timeout)
    graph = tm.Graph.grid(6, 7)
    group = d.Group()
    layout = d.Layout(d.partition(graph, group.size), group)
    mask = d.neighbours_mask(d.shard(graph, layout))
    q = torch.rand(layout.num_rows, 4, requires_grad=True)
    for call in range(10**6):
        if rank == 0 and call == 7:
            os._exit(1)
        try:
            tm.attention(q, q, q, mask).sum().backward()
        except d.RankError as error:
            return str(error)


class RankZero(unittest.TestCase):
    def test_the_host_of_the_store_is_named(self):
        port = free_port()
        outcomes = ranks.start(3, dies_with_the_store, port, timeout=8)
        self.assertIsNone(outcomes[0])
        for rank in (1, 2):
            self.assertEqual(outcomes[rank][0], "result", outcomes[rank][-1])
            self.assertRegex(
                outcomes[rank][1],
                rf"on rank {rank}: rank 0 stopped, or the launcher where it holds the store: the store of torch.distributed at "
                rf"127.0.0.1:{port} does not answer",
            )


if __name__ == "__main__":
    unittest.main()
