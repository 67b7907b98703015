"""Meshes of the sphere."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from . import _errors
from .graph import Graph


class Icosphere(NamedTuple):
    """points: float64 [N, 3], on the unit sphere; graph: the edges of the mesh; faces: int64 [F, 3]."""

    points: Tensor
    graph: Graph
    faces: Tensor

    def __repr__(self) -> str:
        return f"Icosphere({self.graph.num_nodes} nodes, {self.graph.num_edges} edges, {len(self.faces)} faces)"


def _icosahedron() -> tuple[Tensor, Tensor]:
    g = (1 + math.sqrt(5)) / 2
    points = [(0.0, a, b * g) for a in (-1.0, 1.0) for b in (-1.0, 1.0)]
    points = [rotated for p in points for rotated in (p, (p[1], p[2], p[0]), (p[2], p[0], p[1]))]
    x = torch.tensor(points, dtype=torch.float64, device="cpu")
    near = torch.cdist(x, x) < 2.1  # edges have length 2, other pairs at least 2g
    near.fill_diagonal_(False)
    faces = [(i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] and near[j, k] and near[i, k]]
    return torch.nn.functional.normalize(x, dim=1), torch.tensor(faces, device="cpu")


def _subdivided(points: Tensor, faces: Tensor) -> tuple[Tensor, Tensor]:
    """Every triangle into four, through the midpoints of its edges, moved to the sphere."""
    sides = torch.cat([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]).sort(dim=1).values
    edges, place = torch.unique(sides, dim=0, return_inverse=True)
    middle = torch.nn.functional.normalize(points[edges[:, 0]] + points[edges[:, 1]], dim=1)
    a, b, c = (place + len(points)).view(3, -1)
    corners = torch.stack([faces[:, 0], a, c, faces[:, 1], b, a, faces[:, 2], c, b, a, b, c], dim=1)
    return torch.cat([points, middle]), corners.view(-1, 3)


def icosphere(level: int) -> Icosphere:
    """The icosahedron subdivided `level` times: 10·4^level + 2 nodes, nearly evenly spread. Nodes of lower levels come first.
    points are float64 [N, 3]. Cost: O(N log N). Gradient: none."""
    if not 0 <= level <= 12:
        raise ValueError(f"icosphere: level must be from 0 to 12, got {level}")
    points, faces = _icosahedron()
    for _ in range(level):
        points, faces = _subdivided(points, faces)
    sides = torch.cat([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    return Icosphere(points, Graph.from_edges(len(points), sides[:, 0], sides[:, 1]), faces)


_errors.explain_arguments(__name__)
