"""Past one machine: graphs, walks and attention over the ranks of torch.distributed. Start the ranks with `torchrun`; docs/scale.md
explains.

    torch.distributed.init_process_group("gloo")
    group = tm.dist.Group()
    layout = tm.dist.Layout(tm.dist.partition(graph, group.size), group)
    walks = tm.dist.sample_walks(graph, layout, walkers=4, seed=7)
    mask = tm.dist.grf_mask(walks, f)
    out = tm.attention(q, k, v, mask)  # q, k, v: the rows of layout.nodes

A rank owns rows and computes them: it sees all columns that they need, so that no softmax or denominator crosses ranks. Calls named
collective must be made by every rank, in the same order.
"""

from __future__ import annotations

from .group import Group, RankError
from .layout import HaloPlan, Layout
from .low_rank import (
    GlobalTokensDistributedMask,
    LowRankDistributedMask,
    free_features_mask,
    none_mask,
    with_global_tokens,
)
from .mask import DistributedMask, SparseDistributedMask
from .partition import Partition, PartitionStatistics, has_metis, partition
from .shard import Shard, load_partition, load_shard, shard, shard_edge_list, write_shards
from .sparse import neighbours_mask, power_series_mask, sparse_mask
from .state import gather_state, load_state
from .walked import asymmetric_grf_mask, grf_mask
from .walks import WalkRows, sample_walks, travelling_walks

__all__ = [
    "DistributedMask",
    "GlobalTokensDistributedMask",
    "Group",
    "HaloPlan",
    "Layout",
    "LowRankDistributedMask",
    "Partition",
    "PartitionStatistics",
    "RankError",
    "Shard",
    "SparseDistributedMask",
    "WalkRows",
    "asymmetric_grf_mask",
    "free_features_mask",
    "gather_state",
    "grf_mask",
    "has_metis",
    "load_partition",
    "load_shard",
    "load_state",
    "neighbours_mask",
    "none_mask",
    "partition",
    "power_series_mask",
    "sample_walks",
    "shard",
    "shard_edge_list",
    "sparse_mask",
    "travelling_walks",
    "with_global_tokens",
    "write_shards",
]
