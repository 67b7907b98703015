"""Attention over the graph in PyG's GPSConv, in place of attention between all nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from . import _errors
from ._attention import Features, attention
from ._padding import padded_attention
from ._seen import Reads, Seen, Shared
from ._values import plain
from .convert import _symmetric, rows_and_columns
from .features import KeptFeatures
from .functional import grf_mask, neighbours_mask, none_mask, power_series_mask
from .graph import Graph
from .mask import Mask, keeping_precision, tensors_of
from .modules import CPU, _coefficients
from .nn import KINDS, attend
from .walks import WalkTable, _options, sample_walks

_NAMES = ("grf", "power_series", "neighbours", "none")
_SHARED = Shared()  # graphs and walks of edges, for all layers
_MOST_KEPT = 4  # masks of one layer, such as those of the graphs for training and for validation


class _Kept(NamedTuple):
    """A mask and what it was made of. read: where the mask may hold what a function computed from f, f as it was, and how
    gradients were; None where what it holds of f is f itself."""

    seen: Seen
    state: tuple[Any, ...]
    f: Tensor | None
    read: tuple[Seen, tuple[bool, bool]] | None
    mask: Mask

    def holds(self, state: tuple[Any, ...], f: Tensor | None) -> bool:
        if self.state != state or self.f is not f:
            return False
        return self.read is None or f is None or self.read[1] == _learning(f) and self.read[0].again(f)


def _learning(f: Tensor) -> tuple[bool, bool]:
    return torch.is_grad_enabled(), f.requires_grad


def _only_from(f: Tensor, tensors: list[Tensor]) -> bool:
    """Whether f is all that learns of what the tensors were computed from."""
    met: set[Any] = {None, f.grad_fn}
    to_do = [tensor.grad_fn for tensor in tensors]
    while to_do:
        node: Any = to_do.pop()
        if node in met:
            continue
        met.add(node)
        if getattr(node, "variable", f) is not f:
            return False
        to_do += [before for before, _ in node.next_functions]
    return True


class GPSAttention(KeptFeatures, nn.MultiheadAttention):
    """Multi-head attention modulated by a mask over the graph that GPSConv is called with, out = D⁻¹(M ⊙ φ(Q)φ(K)ᵀ)V by
    default; `use_in_gps` puts it there. x [graphs, nodes, channels] → the same.

    mask: "grf" (graph random features; walk options as further arguments), "power_series", "neighbours", "none" (linear
    attention inside each graph), or a function (graph, f) → Mask. One that hands f to its mask is called once per edge_index; one
    that computes with f is called in every call that has gradients, and without them when f has changed or is on a GPU. Other
    tensors that it computes with are followed where they require grad, the rest is taken as it is when the function is called.
    `f` [heads, terms], exp(−k) at first, is learnable and shared by all graphs; as the values of every mask it stays float32 or
    float64 under `.half()` and `.bfloat16()`. kind and features as in `topomask.nn.MaskedAttention`.

    A `Batch` is one block-diagonal graph: no node attends into another graph; node i attends to j for an edge j → i. Parameters
    are those of torch's MultiheadAttention, and `f`. The graph is made on the CPU, masks are where x is; both are kept while
    their edge_index lives and is not written to; on a GPU, writes through `.data` or a raw pointer are not noticed. Layers with
    the same walk options share one table of walks for an edge_index; give each a `seed` of its own for independent walks.

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
            self.f = _coefficients(None, terms, heads, torch.float32, CPU)
        self._graph: tuple[Tensor, int] | None = None
        self._kept: list[_Kept] = []

    def set_graph(self, edge_index: Tensor, num_nodes: int) -> None:
        """The edges that the next call is over: int64 [2, E], j → i as in PyG, or a sparse [targets, sources] tensor; node i
        attends to j."""
        if not isinstance(edge_index, Tensor):
            raise TypeError(f"GPSAttention: edge_index must be a tensor, got {_errors.shown(edge_index)}")
        self._graph = (plain(edge_index), num_nodes)

    def _graph_of(self, edge_index: Tensor, nodes: int, dtype: torch.dtype, device: torch.device) -> Graph:
        made, key = _SHARED.of(edge_index), ("graph", nodes, dtype, device)
        if key not in made:
            edges = torch.stack(rows_and_columns("GPSAttention", edge_index)).cpu()
            directed = not _symmetric(edges, None, max(nodes, 1))
            made[key] = Graph.from_edge_index(edges, None, nodes, directed=directed).reversed().to(device, dtype)
        graph: Graph = made[key]
        return graph

    def _walks_of(self, edge_index: Tensor, graph: Graph) -> WalkTable:
        options = tuple(sorted(self.walks.items()))
        if not all(isinstance(value, (int, float, str, type(None))) for _, value in options):
            return sample_walks(graph.normalised(), **self.walks)
        made, key = _SHARED.of(edge_index), ("walks", graph.num_nodes, graph.dtype, graph.device, *options)
        if key not in made:
            made[key] = sample_walks(graph.normalised(), **self.walks)
        walks: WalkTable = made[key]
        return walks

    def _named(self, edge_index: Tensor, graph: Graph) -> Mask:
        if self.mask == "neighbours":
            return neighbours_mask(graph)
        if self.mask == "power_series":
            return power_series_mask(graph.normalised(), self.f)
        return grf_mask(self._walks_of(edge_index, graph), self.f)

    def _computed(self, function: Callable[[Graph, Tensor], Mask], graph: Graph, f: Tensor) -> tuple[Mask, bool, Seen | None]:
        """The mask of the function, whether it may be kept, and f as it was where the mask may hold what was computed from it."""
        learning, reads = torch.is_grad_enabled(), Reads(f)
        try:
            with reads, torch.enable_grad():  # what is computed from f, or from anything else that learns, has a grad_fn
                made = function(graph, f)
        except RuntimeError:  # of torch, for tensors of inference mode and writes to f, which are fine without gradients
            if learning:
                raise
            return function(graph, f), False, None
        tensors = tensors_of(made)
        learnt = [tensor for tensor in tensors if tensor is not f and tensor.grad_fn is not None]
        computed = reads.found or any(tensor is not f and reads.in_memory_of(tensor) for tensor in tensors)
        # What was computed with gradients is good for one backward pass, and what else it was computed from is not followed.
        if (learning and (learnt or computed and f.requires_grad)) or not _only_from(f, learnt):
            return made, False, None
        computed = computed or bool(learnt)
        if not computed and any(tensor is f for tensor in tensors):
            return made, True, None
        seen = Seen(f)
        if seen.notices_all:
            return made, True, seen
        # On a GPU writes to f may go unnoticed. A mask without f is constant, unless what `Reads` does not see computed it from an
        # f without gradients.
        return made, not computed and f.requires_grad, None

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _mask(self, x: Tensor) -> Mask:
        nodes = len(x)
        if self._graph is None or self._graph[1] != nodes:
            got = "no graph" if self._graph is None else f"one of {self._graph[1]} nodes"
            raise RuntimeError(f"GPSAttention: needs the graph of {nodes} nodes, got {got}; use_in_gps(conv, attention) sets it")
        edge_index, f = self._graph[0], getattr(self, "f", None)
        like = x if f is None else f
        dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
        state = (nodes, dtype, x.device)
        for kept in self._kept:
            if kept.holds(state, f) and kept.seen.again(edge_index):
                return kept.mask
        learning = torch.is_grad_enabled()
        with torch.inference_mode(False), torch.set_grad_enabled(learning):  # what is kept serves training too
            graph = self._graph_of(edge_index, nodes, dtype, x.device)
            if isinstance(self.mask, str):
                made, keeps, seen = self._named(edge_index, graph), True, None
            else:
                made, keeps, seen = self._computed(self.mask, graph, self.f)
        others = (kept for kept in self._kept if kept.seen.tensor() is not None and kept.seen.tensor() is not edge_index)
        self._kept = [*others][1 - _MOST_KEPT :]
        if keeps:
            read = None if seen is None or f is None else (seen, _learning(f))
            self._kept.append(_Kept(Seen(edge_index), state, f, read, made))
        return made

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> GPSAttention:
        own, keeping = getattr(self, "f", None), keeping_precision(fn)
        own_grad = None if own is None else own.grad

        def apply(tensor: Tensor) -> Tensor:
            return keeping(tensor) if tensor is own or tensor is own_grad else fn(tensor)

        super()._apply(apply, recurse)  # type: ignore[no-untyped-call]
        return self

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
            every = none_mask(query.shape[1])
            if key_padding_mask is None:
                out = attention(q, k, v, every, features=self.features)
            else:
                out = padded_attention(q, k, v, every, key_padding_mask, kind="kernel", features=self.features)
        else:
            out = attend(q, k, v, self._mask(x), kind=self.kind, features=self.features)
        out = self.out_proj(out.transpose(-3, -2).flatten(-2))
        if self.mask == "none":
            return out * present.unsqueeze(-1), None
        dense = out.new_zeros(query.shape)
        dense[present] = out
        return dense, None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": [], "_graph": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_kept": []})  # type: ignore[no-untyped-call]

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
