"""What one token sees through four masks, in a room with walls: the picture of the README.

    python examples/python/room.py [docs/room.png]      needs matplotlib

The tokens are the cells of a grid, and a wall is edges that are missing: a mask that is a function of the graph goes around it.
"""

import sys

import topomask as tm
import torch
from matplotlib import pyplot as plt
from matplotlib.colors import PowerNorm

SIDE = 48


def room():
    """A grid without the edges of the cells in three walls, and which cells these are, bool [SIDE, SIDE]."""
    wall = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    wall[8:40, 17], wall[24, 17:35], wall[0:30, 36] = True, True, True
    edges = tm.Graph.grid(SIDE, SIDE).edge_index()
    solid = wall.flatten()
    return tm.Graph.from_edge_index(edges[:, ~solid[edges].any(0)], num_nodes=SIDE * SIDE), wall


def masks(graph):
    alpha = torch.ones(64)  # the sum of the first 64 powers of W
    f = tm.deconvolve(alpha.double(), 2).float()  # f ∗ f = alpha
    return {
        "neighbours": tm.NeighboursMask(graph),
        "power series, 63 hops": tm.PowerSeriesMask(graph, alpha),
        "the same, from 256 random walks": tm.GRFMask(graph, f, walkers=256, halting_probability=0.02),
        "diffusion, λ = 40": tm.DiffusionMask(graph, 40.0),
    }


def main(path):
    graph, wall = room()
    seen_from = 27 * SIDE + 21
    here = torch.zeros(SIDE * SIDE, 1)
    here[seen_from] = 1
    figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
    for ax, (name, mask) in zip(axes, masks(graph).items(), strict=True):
        with torch.no_grad():
            row = mask(here).reshape(SIDE, SIDE)  # M·e_i, the row of i of a symmetric M
        others = row.flatten()[torch.arange(SIDE * SIDE) != seen_from]
        ax.imshow(row.masked_fill(wall, float("nan")), norm=PowerNorm(0.6, 0, float(others.max())), cmap=colours())
        ax.plot(seen_from % SIDE, seen_from // SIDE, "x", color="red")
        ax.set_title(name, fontsize=10)
        ax.set_axis_off()
    figure.savefig(path, dpi=80)


def colours():
    return plt.get_cmap("viridis").with_extremes(bad="lightgrey")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "room.png")
