"""Attention over the graph in PyG's GPSConv, in place of attention between all nodes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from . import _errors
from ._attention import Features, attention
from .convert import _symmetric
from .features import feature_map
from .functional import grf_mask, neighbours_mask, none_mask, power_series_mask
from .graph import Graph
from .mask import Mask
from .modules import _coefficients
from .nn import KINDS, attend
from .walks import _options, sample_walks

_NAMES = ("grf", "power_series", "neighbours", "none")


class GPSAttention(nn.MultiheadAttention):
    """Multi-head attention modulated by a mask over the graph that GPSConv is called with, out = D⁻¹(M ⊙ φ(Q)φ(K)ᵀ)V by
    default; `use_in_gps` puts it there. x [graphs, nodes, channels] → the same.

    mask: "grf" (graph random features; walk options as further arguments), "power_series", "neighbours", "none" (linear
    attention inside each graph), or a function (graph, f) → Mask that is called once per edge_index. `f` [heads, terms],
    exp(−k) at first, is learnable and shared by all graphs. kind and features as in `topomask.nn.MaskedAttention`.

    A `Batch` is one block-diagonal graph: no node attends into another graph. Parameters are those of torch's
    MultiheadAttention, and `f`. Masks are kept while their edge_index lives.

    Cost: that of `attention` over the nodes, without padding. Gradient: once, in x, the linear layers and f.
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        *,
        mask: str | Callable[[Graph, Tensor], Mask] = "grf",
        terms: int = 4,
        kind: str = "kernel",
        features: Features = "relu",
        bias: bool = True,
        **walks: Any,
    ) -> None:
        channels, heads = _errors.count("channels", channels, 1), _errors.count("heads", heads, 1)
        if channels % heads:
            raise ValueError(f"GPSAttention: channels must be a multiple of heads = {heads}, got {channels}")
        super().__init__(channels, heads, bias=bias, batch_first=True)
        if isinstance(mask, str) and mask not in _NAMES:
            raise ValueError(f"GPSAttention: mask must be one of {', '.join(_NAMES)} or a function, got {mask}")
        if kind not in KINDS:
            raise ValueError(f"GPSAttention: kind must be one of {', '.join(KINDS)}, got {kind}")
        if mask == "none" and kind != "kernel":
            raise ValueError(
                f"GPSAttention: kind must be kernel with mask none, got {kind}; torch's MultiheadAttention is the other"
            )
        if walks and mask != "grf":
            raise TypeError(f"GPSAttention: {next(iter(walks))} must come with mask grf")
        _options(None, walks)  # refuses what is no option
        self.mask, self.kind, self.features, self.walks = mask, kind, features, walks
        if mask not in ("neighbours", "none"):
            self.f = _coefficients(None, terms, heads, torch.float32, torch.device("cpu"))
        self._graph: tuple[Tensor, int] | None = None
        self._kept: tuple[weakref.ref[Tensor], tuple[Any, ...], Mask] | None = None

    def set_graph(self, edge_index: Tensor, num_nodes: int) -> None:
        """The edges that the next call is over: int64 [2, E], j → i as in PyG; node i attends to j."""
        self._graph = (edge_index, num_nodes)

    def _made(self, graph: Graph) -> Mask:
        if not isinstance(self.mask, str):
            return self.mask(graph, self.f)
        if self.mask == "neighbours":
            return neighbours_mask(graph)
        weighted = graph.normalised()
        if self.mask == "power_series":
            return power_series_mask(weighted, self.f)
        return grf_mask(sample_walks(weighted, **self.walks), self.f)

    def _mask(self, nodes: int) -> Mask:
        if self._graph is None or self._graph[1] != nodes:
            got = "no graph" if self._graph is None else f"one of {self._graph[1]} nodes"
            raise RuntimeError(f"GPSAttention: needs the graph of {nodes} nodes, got {got}; use_in_gps(conv, attention) sets it")
        edge_index = self._graph[0]
        dtype = self.in_proj_weight.dtype
        state = (nodes, edge_index._version, dtype)
        if self._kept is None or self._kept[0]() is not edge_index or self._kept[1] != state:
            directed = not _symmetric(edge_index, None, max(nodes, 1))
            graph = Graph.from_edge_index(edge_index, None, nodes, directed=directed).reversed()
            exact = graph.to(torch.float64) if dtype == torch.float64 else graph
            self._kept = (weakref.ref(edge_index), state, self._made(exact))
        return self._kept[2]

    def forward(  # type: ignore[override]
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, None]:
        """query [graphs, nodes, channels], padded; key_padding_mask True at padding. Returns the same shape, 0 at padding."""
        if need_weights or any(other is not None and other is not query for other in (key, value)):
            raise ValueError("GPSAttention: query, key and value must be one tensor, with need_weights=False")
        present = torch.ones_like(query[..., 0], dtype=torch.bool) if key_padding_mask is None else ~key_padding_mask
        x = query if self.mask == "none" else query[present]
        projected = nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = projected.unflatten(-1, (3, self.num_heads, -1)).movedim(-3, 0).transpose(-3, -2)
        if self.mask == "none":
            phi = feature_map(self.features)
            fk = phi.keys(k) * present[:, None, :, None]
            out = attention(phi.queries(q), fk, v, none_mask(query.shape[1]), features=None)
        else:
            out = attend(q, k, v, self._mask(len(x)), kind=self.kind, features=self.features)
        out = self.out_proj(out.transpose(-3, -2).flatten(-2))
        if self.mask == "none":
            return out * present.unsqueeze(-1), None
        dense = out.new_zeros(query.shape)
        dense[present] = out
        return dense, None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None, "_graph": None}

    def extra_repr(self) -> str:
        name = self.mask if isinstance(self.mask, str) else getattr(self.mask, "__name__", "given")
        return f"{self.embed_dim}, heads={self.num_heads}, mask={name}, kind={self.kind}"


def _note_graph(conv: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Before GPSConv's forward(x, edge_index, …): gives its attention the graph."""
    x = args[0] if args else kwargs["x"]
    edge_index = args[1] if len(args) > 1 else kwargs["edge_index"]
    if isinstance(conv.attn, GPSAttention):
        conv.attn.set_graph(edge_index, len(x))


def use_in_gps(conv: nn.Module, attention: GPSAttention) -> nn.Module:
    """Puts the attention into a torch_geometric.nn.GPSConv, in place of the one it has, and returns the layer.

    GPSConv gives its attention the features alone; the edges come by a hook before its forward.
    """
    if not hasattr(conv, "attn") or not isinstance(attention, GPSAttention):
        raise TypeError(f"use_in_gps: conv must be a GPSConv and attention a GPSAttention, got {type(conv).__name__}")
    conv.attn = attention
    conv.register_forward_pre_hook(_note_graph, with_kwargs=True)
    return conv


_errors.explain_arguments(__name__)
