"""One small mask of every family, for the tests that hold for all."""

import torch
from support import tm

NODES = 30


def random(*shape, dtype=torch.float64):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


class Ring(tm.Mask):
    """A mask written in Python: M = I + a·(shift left + shift right) − b·shift left."""

    def __init__(self, nodes, dtype=torch.float64):
        super().__init__(nodes)
        self.a = torch.nn.Parameter(torch.tensor(0.5, dtype=dtype))
        self.b = torch.nn.Parameter(torch.tensor(0.25, dtype=dtype))

    def matmul(self, x):
        return x + self.a * (x.roll(1, -2) + x.roll(-1, -2)) - self.b * x.roll(1, -2)


def rational(x):
    return 1 / (1 + x * x)


def families(dtype=torch.float64, device="cpu"):
    """name → a module over 30 nodes, with one or two heads, made of what is on the device."""

    def at(*shape):
        return random(*shape, dtype=dtype).to(device)

    grid = tm.Graph.grid(5, 6).to(device, dtype)
    edges = grid.edge_index()[:, torch.randperm(98, generator=torch.Generator().manual_seed(1)).to(device)]
    forest = tm.Forest(torch.tensor([-1] + [i // 2 for i in range(29)]), random(30, dtype=dtype) + 0.1)
    whole = forest.with_weights(torch.ones(30, dtype=dtype))
    function = tm.DistanceFunction
    waves = torch.tensor([[0.0, 0.1], [1.0, 0.3]], dtype=dtype, device=device)
    path = tm.Graph.path(29).to(device, dtype)
    return {
        "none": tm.NoneMask(NODES),
        "causal": tm.CausalMask(NODES),
        "dense": tm.DenseMask(at(2, NODES, NODES)),
        "sparse": tm.SparseMask(grid, heads=2, dtype=dtype),
        "sparse in the user's order": tm.SparseMask(edges, at(2, 98)),
        "neighbours": tm.NeighboursMask(grid),
        "weighted neighbours": tm.WeightedNeighboursMask(grid),
        "power series": tm.PowerSeriesMask(grid, heads=2),
        "grf": tm.GRFMask(grid, heads=2),
        "grf, one head": tm.GRFMask(grid),
        "grf, debiased": tm.GRFMask(grid, heads=2, diagonal="debiased"),
        "grf, two-sided": tm.TwoSidedGRFMask(grid, heads=2),
        "grf, asymmetric": tm.AsymmetricGRFMask(grid, heads=2),
        "ad hoc": tm.AdHocMask(grid),
        "hybrid": tm.HybridGRFMask(grid, heads=2),
        "stitched": tm.StitchedGRFMask(grid, pairs=2, terms=3),
        "projected": tm.ProjectedMask(tm.AdHocMask(grid), width=256),
        "per head": tm.PerHeadMask([tm.PowerSeriesMask(grid), tm.GRFMask(grid)]),
        "global tokens": tm.GlobalTokens(tm.GRFMask(path, heads=2)),
        "walking": tm.WalkingMask(grid, heads=2),
        "node kernel": tm.NodeKernelMask(grid, 0.9),
        "node frequency": tm.NodeFrequencyMask(grid, 0.9, heads=2),
        "toeplitz": tm.ToeplitzMask([5, 6], at(2, 9, 11)),
        "toeplitz, causal": tm.ToeplitzDistanceMask([5, 6], at(10), causality="row_major"),
        "tree": tm.TreeMask(forest).to(device),
        "tree, table": tm.TreeMask(whole, function.table(random(2, 8, dtype=dtype))).to(device),
        "tree, smooth": tm.TreeMask(forest, function.smooth(rational, 1e-12)).to(device),
        "tree, product": tm.TreeMask(forest, function.polynomial([2.0, 0.1]) * function.exponential(-0.2)).to(device),
        "diffusion": tm.DiffusionMask(grid, 0.5, heads=2),
        "product diffusion": tm.ProductDiffusionMask([g.to(device, dtype) for g in (tm.Graph.path(5), tm.Graph.cycle(6))], 0.3),
        "low-rank diffusion": tm.LowRankDiffusionMask(at(30, 3) / 5, at(30, 3) / 4),
        "stochastic positional": tm.StochasticPositionalMask(NODES, *waves, realisations=0),
        "centrality": tm.CentralityMask(grid, heads=2),
        "free features": tm.FreeFeaturesMask(at(30, 4)),
        "shortest path": tm.ShortestPathMask(grid, at(10) + 0.1),
        "auto": tm.AutoMask(grid, torch.tensor([1.0, 0.5, 0.2], dtype=dtype, device=device), 0.05),
        "python": Ring(NODES, dtype).to(device),
    }


NOT_COMPILED = {"auto"}  # its C++ parameter is a part of the module's
