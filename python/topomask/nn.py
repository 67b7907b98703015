"""Layers and models: masked multi-head attention, a transformer block, a graph transformer, a vision transformer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from . import _errors, block_rows
from ._attention import Features, attention, softmax_attention
from ._layer_norm import NormBeforeLinear
from .dropout import NodeDropout as NodeDropout
from .dropout import seed_dropout as seed_dropout
from .features import KeptFeatures as KeptFeatures
from .features import feature_map
from .graph import Graph
from .mask import Mask
from .modules import GlobalTokens
from .rowwise import rowwise
from .walked import GRFMask

KINDS = ("kernel", "softmax", "additive")
ROUTES = ("automatic", "dense", "sparse", "features", "operator", "fused", "strips")


class MaskedAttention(KeptFeatures):
    """Multi-head self-attention over the N nodes of a mask: queries, keys and values by one linear layer, a linear layer after.
    x [B, N, width] → [B, N, width].

    width: features of a token, a multiple of heads. mask: over N tokens, with one matrix or `heads` of them; it becomes a
    submodule. kind: "kernel" (out = D⁻¹(M ⊙ φ(Q)φ(K)ᵀ)V), "softmax" (weights M_ij·exp(s_ij)) or "additive" (softmax(S + M),
    O(N²)). features: φ of kernel attention; the random directions of FAVOR+ are a buffer, `directions.omega`.

    Cost: 4·N·width² multiply-adds for the linear layers, and attention as in `attention`. Gradient: once, in x, the layers and
    the mask's parameters.
    """

    def __init__(
        self,
        width: int,
        heads: int = 1,
        *,
        mask: Mask,
        kind: str = "kernel",
        features: Features = "relu",
        bias: bool = True,
        dropout: float = 0.0,
        route: str = "automatic",
    ) -> None:
        super().__init__()
        width, heads = _errors.count("width", width, 1), _errors.count("heads", heads, 1)
        if width % heads:
            raise ValueError(f"MaskedAttention: width must be a multiple of heads = {heads}, got {width}")
        if route not in ROUTES:
            raise ValueError(f"MaskedAttention: route must be one of {', '.join(ROUTES)}, got {route}")
        feature_map(features)
        if mask.heads not in (1, heads):
            raise ValueError(f"MaskedAttention: mask must have 1 or {heads} heads, got {mask.heads}")
        if kind not in KINDS:
            raise ValueError(f"MaskedAttention: kind must be one of {', '.join(KINDS)}, got {kind}")
        self.heads, self.kind, self.features, self.route = heads, kind, features, route
        self.mask = mask
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.projection = nn.Linear(width, width, bias=bias)
        self.dropout = NodeDropout(dropout)

    def heads_of(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v [..., heads, N, width / heads] of x [..., N, width]."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).movedim(-3, 0).transpose(-3, -2)
        return q, k, v

    def forward(self, x: Tensor, nodes: Tensor | None = None) -> Tensor:
        """[..., N, width] → [..., N, width]; nodes: int64 [N], as in NodeDropout."""
        q, k, v = self.heads_of(x)
        out = attend(q, k, v, self.mask, kind=self.kind, features=self.features, route=self.route)
        return self.projected(out, nodes)

    def projected(self, out: Tensor, nodes: Tensor | None) -> Tensor:
        """What follows attention: [..., heads, N, width / heads] → [..., N, width]."""
        made: Tensor = self.dropout(self.projection(out.transpose(-3, -2).flatten(-2)), nodes)
        return made

    def extra_repr(self) -> str:
        return f"heads={self.heads}, kind={self.kind}"


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, kind: str = "kernel", features: Features = "relu", route: str = "automatic"
) -> Tensor:
    """`attention`, out = D⁻¹(M ⊙ φ(Q)φ(K)ᵀ)V, or `softmax_attention`, by `kind` as in MaskedAttention. q, k [..., N, d_k], v
    [..., N, D] → [..., N, D].

    Cost: that of the route that the planner takes; `explain` shows it. Gradient: once, in q, k, v and the mask's parameters.
    """
    if kind == "kernel":
        return attention(q, k, v, mask, features=features, route=route)
    if kind not in KINDS:
        raise ValueError(f"attend: kind must be one of {', '.join(KINDS)}, got {kind}")
    return softmax_attention(q, k, v, mask, mode="additive" if kind == "additive" else "multiplicative", route=route)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Mask | Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch's function of that name with a topomask mask in place of the matrix: out_i = Σ_j M_ij·exp(s_ij)·v_j / Σ_j
    M_ij·exp(s_ij), s = scale·QKᵀ; query, key [..., N, d_k], value [..., N, D]. With a mask, dropout of attention weights and
    is_causal are refused: masks say what is causal. Without one, and with a tensor, it is torch's function.

    Cost: nnz(M)·(d_k + D) multiply-adds per slice where M is sparse, otherwise N²·(d_k + D). Gradient: once, in query, key,
    value and the mask's parameters.
    """
    if not isinstance(attn_mask, Mask):
        if attn_mask is not None and not isinstance(attn_mask, Tensor):
            got = _errors.shown(attn_mask)
            raise TypeError(f"scaled_dot_product_attention: attn_mask must be a Mask, a tensor or None, got {got}")
        return nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if dropout_p:
        raise ValueError(f"scaled_dot_product_attention: dropout_p must be 0, got {dropout_p}; weights are never formed")
    if is_causal:
        raise ValueError("scaled_dot_product_attention: is_causal must be False, got True; the mask says what is causal")
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    return softmax_attention(query, key, value, attn_mask, scale=scale)


class Block(nn.Module):
    """A pre-norm transformer block: x + attention(norm(x)), then x + perceptron(norm(x)). [B, N, width] → [B, N, width].

    chunk > 0: norms, linear layers and the perceptron are computed for so many rows at a time, and again in the backward pass, for
    graphs of millions of nodes: instead of 17 + 3·mlp_ratio widths a node, 6 are kept for the backward pass. On the CPU, kernel
    attention with ReLU features over x [N, width], heads of a multiple of 16, goes through operators that choose the rows at a time
    themselves, and is the fastest; not while dropout is at work. Dropout in chunks needs the numbers of the nodes, forward(x, nodes),
    by which both passes drop the same (NodeDropout).

    Cost: N·width²·(4 + 2·mlp_ratio) multiply-adds for the linear layers and attention as in `attention`; with chunk > 0 the layers are
    computed once more. Gradient: once, in x, the layers and the mask's parameters.
    """

    def __init__(
        self,
        width: int,
        heads: int = 1,
        *,
        mask: Mask,
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        kind: str = "kernel",
        features: Features = "relu",
        chunk: int = 0,
    ) -> None:
        super().__init__()
        if chunk < 0:
            raise ValueError(f"Block: chunk must not be negative, got {chunk}")
        self.chunk = chunk
        hidden = int(_errors.count("width", width, 1) * mlp_ratio)
        if hidden < 1:
            raise ValueError(f"Block: mlp_ratio must give a hidden layer of width >= 1, got {mlp_ratio}")
        self.attention_norm = NormBeforeLinear(width)
        self.attention = MaskedAttention(width, heads, mask=mask, kind=kind, features=features, dropout=dropout)
        self.perceptron_norm = NormBeforeLinear(width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), NodeDropout(dropout), nn.Linear(hidden, width), NodeDropout(dropout)
        )

    def forward(self, x: Tensor, nodes: Tensor | None = None) -> Tensor:
        """[..., N, width] → [..., N, width]; nodes: int64 [N], as in NodeDropout."""
        if self.chunk:
            return self._in_chunks(x, self.chunk, nodes)
        x = x + self.attention(self.attention_norm(x), nodes)
        return x + self._perceived(x, nodes)

    def _perceived(self, x: Tensor, nodes: Tensor | None) -> Tensor:
        x = self.perceptron_norm(x)
        for layer in self.perceptron:
            x = layer(x, nodes) if isinstance(layer, NodeDropout) else layer(x)
        return x

    def _in_chunks(self, x: Tensor, chunk: int, nodes: Tensor | None) -> Tensor:
        """The same, of which q, k, v, the output of attention and the result are all that is as long as the graph."""
        attention = self.attention
        drops = self.training and attention.dropout.p > 0
        if nodes is None and drops:
            raise ValueError(f"Block: nodes must be given for dropout in chunks, p = {attention.dropout.p}, got none")
        phi = feature_map(attention.features) if attention.kind == "kernel" and attention.features is not None else None
        learns = phi is not None and phi.omega is not None and phi.omega.requires_grad  # and is no parameter of a module here
        of_rows = phi is not None and phi.function is None and not phi.stabilised and not learns
        offset = phi.relu_offset if phi is not None else None
        if offset is not None and not drops:
            first, second = cast(nn.Linear, self.perceptron[0]), cast(nn.Linear, self.perceptron[3])
            layers = [self.attention_norm, attention.qkv, attention.projection, self.perceptron_norm, first, second]
            if block_rows.supports(x, attention.heads, layers):
                parts = block_rows.queries_keys_values(x, self.attention_norm, attention.qkv, attention.heads, offset)
                with torch.autocast(x.device.type, enabled=False):  # the kernels would widen what it narrows
                    out = attend(*parts, attention.mask, kind="kernel", features=None, route=attention.route)
                norm = self.perceptron_norm
                return block_rows.projection_and_perceptron(x, out, attention.projection, norm, first, second)

        def before(x: Tensor) -> tuple[Tensor, ...]:
            q, k, v = attention.heads_of(self.attention_norm(x))
            return (phi.queries(q), phi.keys(k), v) if phi is not None and of_rows else (q, k, v)

        def after(x: Tensor, out: Tensor, *numbers: Tensor) -> tuple[Tensor, ...]:
            own = numbers[0].squeeze(-1) if numbers else None
            x = x + attention.projected(out, own)
            return (x + self._perceived(x, own),)

        q, k, v = rowwise(before, chunk, [x], [self.attention_norm, attention.qkv])
        features = None if of_rows else attention.features
        out = attend(q, k, v, attention.mask, kind=attention.kind, features=features, route=attention.route)
        used = [attention.projection, self.perceptron_norm, self.perceptron]
        return rowwise(after, chunk, [x, out] if nodes is None else [x, out, nodes.unsqueeze(-1)], used)[0]


class _PaddedLinear(nn.Linear):
    """nn.Linear; 16-bit products of matrices whose rows are not multiples of 16 bytes have no fast kernels, so these get zeros."""

    def forward(self, x: Tensor) -> Tensor:
        given, kind = {x.dtype, self.weight.dtype}, x.device.type
        autocast = torch.is_autocast_enabled(kind)
        dtype = torch.get_autocast_dtype(kind) if autocast else self.weight.dtype
        fits = given <= {torch.float32, torch.float16, torch.bfloat16} if autocast else given == {dtype}
        columns, rows = -self.in_features % 8, -self.out_features % 8
        if dtype.itemsize != 2 or not fits or columns == rows == 0:
            return super().forward(x)
        weight = nn.functional.pad(self.weight.to(dtype), (0, columns, 0, rows))
        bias = nn.functional.pad(self.bias.to(dtype), (0, rows))
        out = nn.functional.linear(nn.functional.pad(x.to(dtype), (0, columns)), weight, bias)
        return out[..., : self.out_features]


class GraphTransformer(nn.Module):
    """Classifies the nodes of a graph: a linear layer, a block for each mask, a norm, a linear layer.

    masks: over the N nodes, a mask a layer; of `tm.dist`, N are the nodes of this rank. phi: the feature map of kernel attention.
    chunk: as in Block. x [..., N, features] → logits [..., N, classes], or [..., rows, classes] of the nodes in `rows`. nodes: the
    number of each of the N nodes in the whole graph, by which dropout is the same over any number of ranks (seed_dropout).

    Cost: N·width·(features + classes) multiply-adds, and that of a Block for each mask. Gradient: once, in x, the layers and the
    parameters of the masks.
    """

    def __init__(
        self,
        *,
        features: int,
        classes: int,
        masks: Sequence[Mask],
        width: int = 64,
        heads: int = 4,
        mlp_ratio: float = 2.0,
        dropout: float = 0.0,
        kind: str = "kernel",
        phi: Features = "relu",
        chunk: int = 0,
    ) -> None:
        super().__init__()
        counts = {"features": features, "classes": classes, "width": width}
        features, classes, width = (_errors.count(name, value, 1) for name, value in counts.items())
        self.embedding = _PaddedLinear(features, width)
        self.blocks = nn.ModuleList(
            Block(width, heads, mask=mask, mlp_ratio=mlp_ratio, dropout=dropout, kind=kind, features=phi, chunk=chunk)
            for mask in masks
        )
        self.norm = NormBeforeLinear(width)
        self.head = _PaddedLinear(width, classes)

    def forward(self, x: Tensor, rows: Tensor | None = None, nodes: Tensor | None = None) -> Tensor:
        """x [..., N, features] → [..., N, classes], or [..., rows, classes]; rows and nodes int64 [rows] and [N]."""
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x, nodes)
        logits: Tensor = self.head(self.norm(x if rows is None else x.index_select(-2, rows)))
        return logits


def _grf(graph: Graph, layer: int, heads: int) -> Mask:
    return GRFMask(graph, heads=heads, seed=layer, walkers=16, halting_probability=0.1, coupling="repelling")


class ViT(nn.Module):
    """A vision transformer whose patches, in row-major order, are the nodes of a grid graph, which is what the masks are over.

    mask: (graph, layer, heads) → the mask of a layer over the patches; graph random features by default. A CLS token, where there
    is one, sees all and is seen by all. images [B, channels, S, S] → logits [B, classes].

    Cost: for N = (S/patch_size)² patches N·width·channels·patch_size² multiply-adds an image for the embedding, and that of `depth`
    Blocks. Gradient: once, in the images, the layers and the parameters of the masks.
    """

    def __init__(
        self,
        *,
        image_size: int,
        classes: int,
        channels: int = 3,
        patch_size: int = 4,
        width: int = 192,
        depth: int = 6,
        heads: int = 3,
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        cls_token: bool = True,
        kind: str = "kernel",
        features: Features = "relu",
        mask: Callable[[Graph, int, int], Mask] = _grf,
    ) -> None:
        super().__init__()
        counts = {"image_size": image_size, "patch_size": patch_size, "classes": classes, "channels": channels, "width": width}
        image_size, patch_size, classes, channels, width = (_errors.count(name, value, 1) for name, value in counts.items())
        if isinstance(mask, Mask):
            raise TypeError(f"ViT: mask must be a function (graph, layer, heads) → Mask, got {type(mask).__name__}")
        if image_size % patch_size:
            raise ValueError(f"ViT: image_size must be a multiple of patch_size = {patch_size}, got {image_size}")
        side = image_size // patch_size
        graph = Graph.grid(side, side)
        self.embedding = nn.Conv2d(channels, width, patch_size, stride=patch_size)
        self.cls = nn.Parameter(torch.zeros(1, 1, width)) if cls_token else None
        self.positions = nn.Parameter(torch.randn(1, side * side + int(cls_token), width) * 0.02)
        self.dropout = nn.Dropout(dropout)
        masks = (mask(graph, layer, heads) for layer in range(depth))
        wrapped = (GlobalTokens(m) if cls_token else m for m in masks)
        self.blocks = nn.ModuleList(
            Block(width, heads, mask=m, mlp_ratio=mlp_ratio, dropout=dropout, kind=kind, features=features) for m in wrapped
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """[B, channels, S, S] → [B, classes]."""
        x = self.embedding(images).flatten(2).transpose(1, 2)
        if self.cls is not None:
            x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1)
        x = self.dropout(x + self.positions)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        logits: Tensor = self.head(x[:, 0] if self.cls is not None else x.mean(1))
        return logits


_errors.explain_arguments(__name__)
