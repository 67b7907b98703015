"""The graph transformer of a configuration, over masks that are divided over ranks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .. import dist
from ..features import FeatureMap
from ..nn import GraphTransformer
from .config import ModelOptions, RunConfig
from .source import Source


def _coefficients(options: ModelOptions, dtype: torch.dtype) -> Tensor:
    start = torch.exp(-options.decay * torch.arange(options.hops + 1, dtype=dtype)).repeat(options.heads, 1)
    return nn.Parameter(start) if options.learn_mask else start


def make_masks(source: Source, options: ModelOptions, dtype: torch.dtype, seed: int) -> list[dist.SparseDistributedMask]:
    """A mask for each layer. Gradients are summed over the ranks by the trainer, with those of the weights. A collective call."""
    if options.mask == "neighbours":
        return [dist.neighbours_mask(source.shard())] * options.layers
    made: list[dist.SparseDistributedMask] = []
    for layer in range(options.layers):
        f = _coefficients(options, dtype)
        if made and not (options.mask == "grf" and options.per_layer_walks):
            made.append(made[0].sharing(f))
        elif options.mask == "series":
            made.append(dist.power_series_mask(source.shard(options.edge_scale), f, reduce=False))
        else:
            walks = source.walks(
                options.edge_scale,
                walkers=options.walkers,
                halting_probability=options.halting_probability,
                max_hops=options.hops,
                coupling=options.sampler,
                seed=seed,
                # Antithetic pairs begin at an even walker.
                first_walker=layer * (options.walkers + options.walkers % 2),
            )
            made.append(dist.grf_mask(walks, f, reduce=False))
    return made


def make_model(config: RunConfig, features: int, classes: int, masks: list[dist.SparseDistributedMask]) -> GraphTransformer:
    """With first weights that are a function of the seed: matrices uniform (Glorot and Bengio 2010), biases 0, norms 1."""
    options = config.model
    maps = {"relu": FeatureMap.relu(options.feature_offset), "elu": FeatureMap.elu(), "softmax": None}
    model = GraphTransformer(
        features=features,
        classes=classes,
        width=options.width,
        heads=options.heads,
        masks=masks,
        mlp_ratio=options.mlp_ratio,
        dropout=options.dropout,
        kind="softmax" if options.attention == "softmax" else "kernel",
        phi=maps[options.attention],
        chunk=config.train.chunk,
    ).to(getattr(torch, config.train.precision))
    draw = torch.Generator().manual_seed(config.train.seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if is_of_mask(name):
                continue
            if parameter.dim() == 2:
                bound = (6.0 / sum(parameter.shape)) ** 0.5
                # In float64 whatever the precision, so that runs in both begin alike.
                parameter.copy_((2 * torch.rand(parameter.shape, dtype=torch.float64, generator=draw) - 1) * bound)
            else:
                parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
    return model


def is_of_mask(name: str) -> bool:
    """Parameters of masks do not decay, and have a learning rate of their own."""
    return ".mask." in name
