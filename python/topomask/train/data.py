"""What a rank trains on: features and labels of its nodes, and how nodes are split. Everything is drawn for the whole graph, so
that it does not depend on the number of ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .config import DataOptions
from .source import Source

SPLITS = ("train", "validation", "test")
GIVEN, UNLABELLED = 3, 4
"""Parts in addition to those of SPLITS: nodes whose label is an input, and nodes without one."""


def split(labels: Tensor, options: DataOptions) -> Tensor:
    """uint8 [N]: the part of each node, a place in SPLITS, GIVEN or UNLABELLED."""
    part = torch.full(labels.shape, UNLABELLED, dtype=torch.uint8)
    order = torch.randperm(labels.shape[0], generator=torch.Generator().manual_seed(options.split_seed))
    order = order[labels[order] >= 0]
    given = round(options.given_labels * order.shape[0])
    rest = order.shape[0] - given
    validation, test = round(options.validation_fraction * rest), round(options.test_fraction * rest)
    counts = [given, validation, test, max(rest - validation - test, 0)]
    for nodes, which in zip(order.split(counts), (GIVEN, 1, 2, 0)):
        part[nodes] = which
    return part


def features(degrees: Tensor, labels: Tensor, part: Tensor, options: DataOptions, dtype: torch.dtype) -> Tensor:
    """[n, F] of n nodes, whose degrees, labels and parts are given: what options.features names, then the labels that are an input,
    as unit vectors."""
    nodes = degrees.shape[0]
    if options.features == "one_hot_degree":
        own = torch.zeros(nodes, options.degree_limit + 1, dtype=dtype)
        own.scatter_(1, degrees.clamp(max=options.degree_limit).unsqueeze(1), 1.0)
    elif options.features == "degree":
        own = degrees.to(dtype).unsqueeze(1)
    else:
        own = torch.ones(nodes, 1, dtype=dtype)
    known = torch.zeros(nodes, options.regions, dtype=dtype)
    given = torch.nonzero(part == GIVEN).squeeze(1)
    known[given, labels[given]] = 1.0
    return torch.cat([own, known], 1)


@dataclass(frozen=True, eq=False)
class Rows:
    """Nodes of one split that this rank counts: their places among its rows, their labels, and how many there are on all ranks."""

    places: Tensor
    labels: Tensor
    total: int


@dataclass(frozen=True, eq=False)
class NodeData:
    """features [n, F] of the rows of this rank, and the rows of each split."""

    features: Tensor
    rows: dict[str, Rows]
    classes: int

    @staticmethod
    def of(source: Source, options: DataOptions, dtype: torch.dtype, share: int = 0, shares: int = 1) -> NodeData:
        """share: of the replicas of the graph, which this rank belongs to; each counts its part of the nodes of a split. A
        collective call."""
        labels = source.regions(options.regions, options.seed)
        part, nodes = split(labels, options), source.layout.nodes
        mine = part[nodes]
        rows = {}
        for which, name in enumerate(SPLITS):
            places = torch.nonzero(mine == which).squeeze(1)
            places = places[nodes[places] % shares == share]
            rows[name] = Rows(places, labels[nodes[places]], int((part == which).sum()))
        if rows["train"].total == 0:
            raise ValueError("train: data must leave nodes to train on, got none: no node that a region reaches is left")
        return NodeData(features(source.degrees(), labels[nodes], mine, options, dtype), rows, options.regions)

    def to(self, device: torch.device) -> NodeData:
        moved = {name: Rows(r.places.to(device), r.labels.to(device), r.total) for name, r in self.rows.items()}
        return NodeData(self.features.to(device), moved, self.classes)
