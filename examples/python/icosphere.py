"""Attention on a mesh of the sphere, trained: every node attends to its neighbours within some hops, with learnable projections.

    python examples/python/icosphere.py [--level 3] [--hops 4] [--steps 60] [--device cpu]

The nodes of an icosphere are put into reverse Cuthill–McKee order, which brings neighbours close in memory, and attention is over
the pattern of k-hop neighbourhoods: exact softmax attention, forward and backward, without an N × N matrix. The task: a field on
the sphere is given with noise, and the layer learns to return it smooth.
"""

import argparse

import topomask as tm
import torch


def sphere(level, hops, device):
    """Points [N, 3] and the mask over the nodes, both in reverse Cuthill–McKee order."""
    mesh = tm.icosphere(level)
    order = tm.reverse_cuthill_mckee(mesh.graph)
    graph = tm.permuted(mesh.graph, order)
    pattern = graph.neighbourhoods(hops).to(device)
    mask = tm.sparse_mask(pattern, torch.ones(pattern.entries, device=device))
    return mesh.points[order].float().to(device), graph, pattern, mask


def fields(points, count, generator):
    """Smooth random fields [count, N, 1]: a few waves across space, seen on the sphere."""
    directions = torch.randn(count, 3, 8, generator=generator).to(points.device) * 3
    phases = torch.rand(count, 1, 8, generator=generator).to(points.device) * 6.3
    return torch.sin(points @ directions + phases).mean(-1, keepdim=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--hops", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    points, graph, pattern, mask = sphere(arguments.level, arguments.hops, arguments.device)
    rows, columns = graph.edge_index()
    print(f"{graph}, bandwidth {int((rows - columns).abs().max())}, {pattern}: {pattern.entries / pattern.rows:.0f} per node")

    width = 32
    model = torch.nn.Sequential(
        torch.nn.Linear(4, width), tm.nn.Block(width, heads=4, mask=mask, kind="softmax"), torch.nn.Linear(width, 1)
    ).to(arguments.device)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for step in range(arguments.steps):
        clean = fields(points, 4, generator)
        noisy = clean + 0.5 * torch.randn(clean.shape, generator=generator).to(clean)
        given = torch.cat([noisy, points.expand(len(clean), -1, -1)], -1)
        loss = (model(given) - clean).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        if step % 20 == 0:
            print(f"step {step:3d}  mean squared error {losses[-1]:.4f}")
    first, last = losses[0], sum(losses[-5:]) / 5
    print(f"mean squared error {first:.4f} → {last:.4f}; of the noisy field itself 0.25")
    assert last < 0.5 * first and last < 0.125, "the layer learns"


if __name__ == "__main__":
    main()
