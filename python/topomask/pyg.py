"""A layer for PyG models: TransformerConv over one fused sparse kernel, without a tensor per edge and feature.

The layer takes what PyG's takes and has the same parameters, so that a `state_dict` of the one loads into the other; PyG itself is
not needed to use it.
"""

from __future__ import annotations

import math
import weakref

import torch
from torch import Tensor, nn

from . import _ops
from .pattern import Pattern


class TransformerConv(nn.Module):
    """out_i = W_1 x_i + Σ_j α_ij W_2 x_j, α_ij = softmax over the edges j → i of (W_3 x_i)ᵀ(W_4 x_j)/√C, per head.

    Signature and parameters of torch_geometric.nn.TransformerConv. Memory: O(E·heads) scalars where PyG keeps E·heads·C. Edge
    features (edge_dim) and dropout of attention weights are refused: keys that differ by edge have no such form. An edge given
    twice counts twice. What is made of an edge_index is kept while that tensor lives.

    x [N, in_channels], or a pair (source, target); edge_index int64 [2, E] → [N, heads·out_channels], or [N, out_channels] where
    concat is False.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        beta: bool = False,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        bias: bool = True,
        root_weight: bool = True,
    ) -> None:
        super().__init__()
        if edge_dim is not None:
            raise ValueError(f"TransformerConv: edge_dim must be None, got {edge_dim}; edge features are not supported")
        if dropout:
            raise ValueError(f"TransformerConv: dropout must be 0, got {dropout}; attention weights are never formed")
        source, target = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        self.heads, self.out_channels, self.concat, self.root_weight = heads, out_channels, concat, root_weight
        width = heads * out_channels if concat else out_channels
        self.lin_key = nn.Linear(source, heads * out_channels, bias=bias)
        self.lin_query = nn.Linear(target, heads * out_channels, bias=bias)
        self.lin_value = nn.Linear(source, heads * out_channels, bias=bias)
        self.lin_skip = nn.Linear(target, width, bias=bias)
        self.lin_beta = nn.Linear(3 * width, 1, bias=False) if beta and root_weight else None
        self._kept: tuple[weakref.ref[Tensor], tuple[int, int, int], list[Tensor], Tensor] | None = None

    def _pattern(self, edge_index: Tensor, sources: int, targets: int) -> tuple[list[Tensor], Tensor]:
        """The operands of the pattern [targets, sources] and how often each edge is given."""
        state = (sources, targets, edge_index._version)
        if self._kept is not None and self._kept[0]() is edge_index and self._kept[1] == state:
            return self._kept[2], self._kept[3]
        keys, counts = torch.unique(edge_index[1] * sources + edge_index[0], return_counts=True)
        rows, columns = torch.div(keys, sources, rounding_mode="floor"), keys % sources
        offsets = torch.zeros(targets + 1, dtype=torch.int64, device=edge_index.device)
        offsets[1:] = torch.bincount(rows, minlength=targets).cumsum(0)
        pattern = Pattern(offsets, columns.to(torch.int32), sources)._operands()
        self._kept = (weakref.ref(edge_index), state, pattern, counts)
        return pattern, counts

    def forward(self, x: Tensor | tuple[Tensor, Tensor], edge_index: Tensor) -> Tensor:
        source, target = (x, x) if isinstance(x, Tensor) else x
        pattern, counts = self._pattern(edge_index, len(source), len(target))

        def split(y: Tensor) -> Tensor:  # [N, H·C] → [1, H, N, C]
            return y.view(len(y), self.heads, self.out_channels).transpose(0, 1).unsqueeze(0)

        q, k, v = split(self.lin_query(target)), split(self.lin_key(source)), split(self.lin_value(source))
        values = counts.to(torch.float64 if q.dtype == torch.float64 else torch.float32).unsqueeze(0)
        out = _ops.sparse_softmax_attention(q, k, v, values, pattern, 1 / math.sqrt(self.out_channels), 1e-30)
        out = out.squeeze(0).transpose(0, 1)
        out = out.flatten(1) if self.concat else out.mean(1)
        if not self.root_weight:
            return out
        skip: Tensor = self.lin_skip(target)
        if self.lin_beta is None:
            return out + skip
        gate = self.lin_beta(torch.cat([out, skip, out - skip], -1)).sigmoid()
        mixed: Tensor = gate * skip + (1 - gate) * out
        return mixed

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None}

    def extra_repr(self) -> str:
        return f"heads={self.heads}, concat={self.concat}"
