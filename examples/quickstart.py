import sys

import torch

torch.ops.load_library(sys.argv[1] if len(sys.argv) > 1 else "build/release/lib/libtopomask.so")


def csr(edges, nodes):  # offsets, columns and the order that sorts the edges by row
    order = torch.argsort(edges[0] * nodes + edges[1])
    offsets = torch.zeros(nodes + 1, dtype=torch.long)
    offsets[1:] = torch.bincount(edges[0], minlength=nodes).cumsum(0)
    return offsets, edges[1][order].int(), order


nodes = 1000  # a ring; every node attends to itself and its two neighbours
ring = torch.arange(nodes)
edges = torch.stack([ring.repeat(3), torch.cat([ring, (ring + 1) % nodes, (ring - 1) % nodes])])
offsets, columns, order = csr(edges, nodes)
t_offsets, t_columns, t_index = csr(edges[:, order].flip(0), nodes)
bias = torch.rand(1, 3 * nodes, requires_grad=True)  # a learnable mask value per edge
q, k, v = (torch.rand(8, 4, nodes, 64) for _ in range(3))  # batch, heads, nodes, features
out, _ = torch.ops.topomask.sparse_attention(q, k, v, bias, offsets, columns, t_offsets, t_columns, t_index, 1e-6)
out.sum().backward()
print(list(out.shape), "gradient of the mask", list(bias.grad.shape))
