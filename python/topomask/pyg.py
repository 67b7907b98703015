"""Layers for PyG models: TransformerConv over one fused sparse kernel, and graph attention for GPSConv.

The layers take what PyG's take and have the same parameters, so that a `state_dict` of the one loads into the other; PyG itself is
not needed to use them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from . import _errors, _ops
from ._seen import Seen
from ._values import plain
from .convert import FLOWS, rows_and_columns
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


def _ends(edge_index: Tensor, flow: str) -> tuple[Tensor, Tensor]:
    """Sources and targets, int64: products of int32 numbers of nodes overflow."""
    source, target = (nodes.to(torch.int64) for nodes in rows_and_columns("TransformerConv", edge_index))
    if flow == "source_to_target":
        return source, target
    if edge_index.layout != torch.strided:
        raise ValueError('TransformerConv: flow must be "source_to_target" for a sparse tensor, got target_to_source')
    return target, source


def _sorted(source: Tensor, target: Tensor, sources: int, targets: int, own_keys: bool) -> list[Tensor]:
    """counts, order (empty without own_keys) and the pattern."""
    for name, nodes, count in (("source", source, sources), ("target", target, targets)):
        if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < count:
            bad = int(nodes.min()) if int(nodes.min()) < 0 else int(nodes.max())
            raise ValueError(f"TransformerConv: {name} nodes in edge_index must be in [0, {count}), got {bad}")
    if own_keys:
        rows, order = torch.sort(target, stable=True)
        columns, counts = torch.arange(len(rows), device=rows.device), torch.ones_like(rows)
    else:
        keys, counts = torch.unique(target * sources + source, return_counts=True)
        rows, columns = torch.div(keys, max(sources, 1), rounding_mode="floor"), keys % max(sources, 1)
        order = rows.new_empty(0)
    offsets = torch.zeros(targets + 1, dtype=torch.int64, device=rows.device)
    offsets[1:] = torch.bincount(rows, minlength=targets).cumsum(0)
    return [counts, order, *Pattern(offsets, columns.to(torch.int32), len(rows) if own_keys else sources)._operands()]


def _sorted_shapes(source: Tensor, target: Tensor, sources: int, targets: int) -> list[Tensor]:
    """What _sorted_each returns."""
    entries = source.shape[0]
    sizes = {"counts": entries, "order": entries, "offsets": targets + 1, "columns": entries}
    sizes |= {"transposed offsets": entries + 1, "transposed rows": entries, "transposed places": entries}
    narrow = ("columns", "transposed rows")
    return [source.new_empty(size, dtype=torch.int32 if name in narrow else torch.int64) for name, size in sizes.items()]


def _sorted_each(source: Tensor, target: Tensor, sources: int, targets: int) -> list[Tensor]:
    return _sorted(source, target, sources, targets, True)[:7]  # without tiles, which a GPU alone has


_sorted_operator = _ops.operator(
    "sorted_edges(Tensor source, Tensor target, SymInt sources, SymInt targets) -> Tensor[]",
    _sorted_each,
    _sorted_shapes,
)


def _edges(edge_index: Tensor, sources: int, targets: int, own_keys: bool, flow: str) -> _Edges:
    source, target = _ends(edge_index, flow)
    if torch.compiler.is_compiling():  # how many different edges there are depends on data
        counts, order, *pattern = _sorted_operator(source, target, sources, targets)
        return _Edges(source, target, pattern, counts, order)
    counts, order, *pattern = _sorted(source, target, sources, targets, own_keys)
    return _Edges(source, target, pattern, counts, order if own_keys else None)


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
    return nn.LazyLinear(outputs, bias=bias) if inputs == -1 else nn.Linear(inputs, outputs, bias=bias)


class TransformerConv(nn.Module):
    """out_i = W_1 x_i + Σ_j α_ij (W_2 x_j + W_6 e_ij), α_ij = softmax over the edges j → i of (W_3 x_i)ᵀ(W_4 x_j + W_6 e_ij)/√C.

    Signature and parameters of torch_geometric.nn.TransformerConv; of the arguments of its base class flow (where it is
    "target_to_source", edges are i → j) and aggr="add". An edge given twice counts twice. What is made of an edge_index is kept
    while that tensor lives; under torch.compile, whose graph has no break, edges are sorted in every call, and each has a key and a
    value of its own.

    x [N, in_channels], or a pair (source, target); edge_index int64 [2, E], or a sparse [targets, sources] tensor; edge_attr
    [E, edge_dim] → [N, heads·out_channels], or [N, out_channels] where concat is False. With return_attention_weights (True or
    False) also (edge_index, α [E, heads]), which are then formed.

    Cost: 2·E·heads·C multiply-adds in addition to the linear layers, and O(N·heads·C + E·heads) memory, where PyG keeps
    E·heads·C. With edge features, or in training with dropout of attention weights, keys and values differ from edge to edge and
    O(E·heads·C) is kept here too. Gradient: once, in x, edge_attr and every parameter.
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
        *,
        aggr: str = "add",
        flow: str = "source_to_target",
        node_dim: int = 0,
    ) -> None:
        super().__init__()
        out_channels, heads = _errors.count("out_channels", out_channels, 1), _errors.count("heads", heads, 1)
        if not 0 <= dropout < 1:
            raise ValueError(f"TransformerConv: dropout must be in [0, 1), got {dropout}")
        if aggr not in ("add", "sum"):
            raise ValueError(f"TransformerConv: aggr must be add, the sum that softmax weights are for, got {aggr}")
        if flow not in FLOWS:
            raise ValueError(f"TransformerConv: flow must be one of {', '.join(FLOWS)}, got {flow}")
        if node_dim not in (0, -2):
            raise ValueError(f"TransformerConv: node_dim must be 0, got {node_dim}")
        self.flow = flow
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
        self._kept: tuple[Seen, tuple[int, int, bool], _Edges] | None = None

    def reset_parameters(self) -> None:
        """New random weights."""
        for layer in self.children():
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()

    def _edges(self, edge_index: Tensor, sources: int, targets: int, own_keys: bool) -> _Edges:
        if torch.compiler.is_compiling():
            return _edges(edge_index, sources, targets, own_keys, self.flow)
        state = (sources, targets, own_keys)
        if self._kept is not None and self._kept[0].again(edge_index) and self._kept[1] == state:
            return self._kept[2]
        made = _edges(edge_index, sources, targets, own_keys, self.flow)
        self._kept = (Seen(edge_index), state, made)
        return made

    def _projected(self, edge_attr: Tensor | None, count: int) -> Tensor | None:
        """Edge features as parts of keys and values, [E, H, C]."""
        if self.lin_edge is None:
            if edge_attr is not None:
                raise ValueError("TransformerConv: edge_attr must come with edge_dim, got edge_dim=None")
            return None
        if edge_attr is None or edge_attr.shape[0] != count:
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
        own_keys = self.lin_edge is not None or dropout > 0
        edges = self._edges(plain(edge_index), source.shape[0], target.shape[0], own_keys)
        q, k, v = (
            layer(nodes).view(nodes.shape[0], self.heads, self.out_channels)
            for layer, nodes in ((self.lin_query, target), (self.lin_key, source), (self.lin_value, source))
        )
        features = self._projected(edge_attr, edges.source.shape[0])
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
        return out, (edge_index, self._weights(q, k, features, edges, target.shape[0]))

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
