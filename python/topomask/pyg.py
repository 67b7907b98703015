"""Layers for PyG models: TransformerConv over one fused sparse kernel, and graph attention for GPSConv.

The layers take what PyG's take and have the same parameters, so that a `state_dict` of the one loads into the other; PyG itself is
not needed to use them.
"""

from __future__ import annotations

import math
import weakref
from typing import NamedTuple

import torch
from torch import Tensor, nn

from . import _errors, _ops
from .gps import GPSAttention, use_in_gps
from .pattern import Pattern

__all__ = ["GPSAttention", "TransformerConv", "use_in_gps"]


class _Edges(NamedTuple):
    """The edges of a call, as the kernel takes them. order: None where keys are those of the sources; otherwise every edge has a
    key of its own, and key p is that of edge order[p]."""

    source: Tensor
    target: Tensor
    pattern: list[Tensor]
    counts: Tensor
    order: Tensor | None


def _rows_and_columns(edge_index: Tensor) -> tuple[Tensor, Tensor]:
    """Sources and targets of edges [2, E] or of a sparse matrix whose rows are targets."""
    if edge_index.layout == torch.strided:
        if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
            raise ValueError(
                "TransformerConv: edge_index must be int64 [2, E] or a sparse [targets, sources] tensor, "
                f"got {edge_index.dtype} {list(edge_index.shape)}"
            )
        return edge_index[0], edge_index[1]
    if edge_index.layout == torch.sparse_csr:
        target = torch.repeat_interleave(edge_index.crow_indices().diff())
        return edge_index.col_indices(), target
    if edge_index.layout == torch.sparse_csc:
        return torch.repeat_interleave(edge_index.ccol_indices().diff()), edge_index.row_indices()
    indices = edge_index.coalesce().indices()
    return indices[1], indices[0]


def _edges(edge_index: Tensor, sources: int, targets: int, own_keys: bool) -> _Edges:
    source, target = _rows_and_columns(edge_index)
    for name, nodes, count in (("source", source, sources), ("target", target, targets)):
        if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < count:
            bad = int(nodes.min()) if int(nodes.min()) < 0 else int(nodes.max())
            raise ValueError(f"TransformerConv: {name} nodes in edge_index must be in [0, {count}), got {bad}")
    order = None
    if own_keys:
        rows, order = torch.sort(target, stable=True)
        columns, counts = torch.arange(len(rows), device=rows.device), torch.ones_like(rows)
    else:
        keys, counts = torch.unique(target * sources + source, return_counts=True)
        rows, columns = torch.div(keys, max(sources, 1), rounding_mode="floor"), keys % max(sources, 1)
    offsets = torch.zeros(targets + 1, dtype=torch.int64, device=rows.device)
    offsets[1:] = torch.bincount(rows, minlength=targets).cumsum(0)
    pattern = Pattern(offsets, columns.to(torch.int32), len(rows) if own_keys else sources)._operands()
    return _Edges(source, target, pattern, counts, order)


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
    return nn.LazyLinear(outputs, bias=bias) if inputs == -1 else nn.Linear(inputs, outputs, bias=bias)


class TransformerConv(nn.Module):
    """out_i = W_1 x_i + Σ_j α_ij (W_2 x_j + W_6 e_ij), α_ij = softmax over the edges j → i of (W_3 x_i)ᵀ(W_4 x_j + W_6 e_ij)/√C.

    Signature and parameters of torch_geometric.nn.TransformerConv. An edge given twice counts twice. What is made of an edge_index
    is kept while that tensor lives.

    x [N, in_channels], or a pair (source, target); edge_index int64 [2, E], or a sparse [targets, sources] tensor; edge_attr
    [E, edge_dim] → [N, heads·out_channels], or [N, out_channels] where concat is False. With return_attention_weights (True or
    False) also (edge_index, α [E, heads]), which are then formed.

    Cost: 2·E·heads·C multiply-adds beside the linear layers, and O(N·heads·C + E·heads) memory, where PyG keeps E·heads·C. With
    edge features, or in training with dropout of attention weights, keys and values differ from edge to edge and O(E·heads·C) is
    kept here too. Gradient: once, in x, edge_attr and every parameter.
    """

    _alpha = None  # PyG's layer keeps the weights here during a call; nothing is left of them after it

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
        out_channels, heads = _errors.count("out_channels", out_channels, 1), _errors.count("heads", heads, 1)
        if not 0 <= dropout < 1:
            raise ValueError(f"TransformerConv: dropout must be in [0, 1), got {dropout}")
        source, target = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.beta, self.dropout, self.edge_dim, self.root_weight = beta and root_weight, dropout, edge_dim, root_weight
        width = heads * out_channels if concat else out_channels
        self.lin_key = _linear(source, heads * out_channels, bias)
        self.lin_query = _linear(target, heads * out_channels, bias)
        self.lin_value = _linear(source, heads * out_channels, bias)
        self.lin_edge = None if edge_dim is None else _linear(edge_dim, heads * out_channels, False)
        self.lin_skip = _linear(target, width, bias)
        self.lin_beta = nn.Linear(3 * width, 1, bias=False) if self.beta else None
        self._kept: tuple[weakref.ref[Tensor], tuple[int, int, int, bool], _Edges] | None = None

    def reset_parameters(self) -> None:
        """New random weights."""
        for layer in self.children():
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()

    def _edges(self, edge_index: Tensor, sources: int, targets: int, own_keys: bool) -> _Edges:
        state = (sources, targets, edge_index._version, own_keys)
        if self._kept is not None and self._kept[0]() is edge_index and self._kept[1] == state:
            return self._kept[2]
        made = _edges(edge_index, sources, targets, own_keys)
        self._kept = (weakref.ref(edge_index), state, made)
        return made

    def _projected(self, edge_attr: Tensor | None, count: int) -> Tensor | None:
        """Edge features as parts of keys and values, [E, H, C]."""
        if self.lin_edge is None:
            if edge_attr is not None:
                raise ValueError("TransformerConv: edge_attr must come with edge_dim, got edge_dim=None")
            return None
        if edge_attr is None or len(edge_attr) != count:
            got = "None" if edge_attr is None else list(edge_attr.shape)
            raise ValueError(f"TransformerConv: edge_attr must be [{count}, {self.edge_dim}], got {got}")
        projected: Tensor = self.lin_edge(edge_attr)
        return projected.view(-1, self.heads, self.out_channels)

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, Tensor]]:
        if not isinstance(x, (Tensor, tuple, list)):
            raise TypeError(f"TransformerConv: x must be a tensor or a pair of them, got {_errors.shown(x)}")
        if not isinstance(edge_index, Tensor):
            raise TypeError(f"TransformerConv: edge_index must be a tensor, got {_errors.shown(edge_index)}")
        source, target = (x, x) if isinstance(x, Tensor) else x
        if not torch.compiler.is_compiling():
            _ops.refuse_transforms("TransformerConv", source, target)
        dropout = self.dropout if self.training else 0.0
        edges = self._edges(edge_index, len(source), len(target), self.lin_edge is not None or dropout > 0)
        q, k, v = (
            layer(nodes).view(len(nodes), self.heads, self.out_channels)
            for layer, nodes in ((self.lin_query, target), (self.lin_key, source), (self.lin_value, source))
        )
        features = self._projected(edge_attr, len(edges.source))
        keys, values = k, v
        if edges.order is not None:
            place = edges.source[edges.order]
            keys, values = k[place], v[place]
            if features is not None:
                keys, values = keys + features[edges.order], values + features[edges.order]
            if dropout:
                values = values * nn.functional.dropout(torch.ones_like(values[..., :1]), dropout)
        out = self._attend(q, keys, values, edges)
        out = out.flatten(1) if self.concat else out.mean(1)
        if self.root_weight:
            out = self._with_root(out, target)
        if return_attention_weights is None:
            return out
        return out, (edge_index, self._weights(q, k, features, edges, len(target)))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, edges: _Edges) -> Tensor:
        fq, fk, fv = (y.transpose(0, 1).unsqueeze(0) for y in (q, k, v))  # [N, H, C] → [1, H, N, C]
        counts = edges.counts.to(torch.float64 if q.dtype == torch.float64 else torch.float32).unsqueeze(0)
        scale = 1 / math.sqrt(self.out_channels)
        out = _ops.sparse_softmax_attention(fq, fk, fv, counts, edges.pattern, scale, 1e-30).squeeze(0).transpose(0, 1)
        return out if torch.compiler.is_compiling() else _ops.once("TransformerConv", out)

    def _with_root(self, out: Tensor, target: Tensor) -> Tensor:
        skip: Tensor = self.lin_skip(target)
        if self.lin_beta is None:
            return out + skip
        gate = self.lin_beta(torch.cat([out, skip, out - skip], -1)).sigmoid()
        mixed: Tensor = gate * skip + (1 - gate) * out
        return mixed

    def _weights(self, q: Tensor, k: Tensor, features: Tensor | None, edges: _Edges, targets: int) -> Tensor:
        """α [E, H] in the order of the edges. O(E·H·C)."""
        keys = k[edges.source] if features is None else k[edges.source] + features
        scores = (q[edges.target] * keys).sum(-1) / math.sqrt(self.out_channels)
        place = edges.target.unsqueeze(-1).expand_as(scores)
        largest = scores.new_full((targets, self.heads), -math.inf).scatter_reduce(0, place, scores.detach(), "amax")
        weights = (scores - largest[edges.target]).exp()
        total = weights.new_zeros(targets, self.heads).index_add(0, edges.target, weights)
        return weights / total[edges.target]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, heads={self.heads})"


_errors.explain_arguments(__name__)
