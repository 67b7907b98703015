"""Masks in timm's vision transformers: `VisionTransformer(attn_layer=tm.timm.attn_layer(mask))`."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn

from ._attention import Features
from .mask import Mask
from .nn import KINDS, attend


def attn_layer(mask: Mask, *, kind: str = "kernel", features: Features = "relu", share: bool = False) -> type[nn.Module]:
    """A class for timm's `attn_layer`: its Attention, with this mask, over as many tokens as the model has (CLS and registers
    included: `GlobalTokens(mask, n)` puts them before the patches).

    share: one mask for all blocks; otherwise each block gets a copy with parameters of its own. kind and features as in
    topomask.nn.MaskedAttention.
    """
    from timm.layers.attention import Attention

    if kind not in KINDS:
        raise ValueError(f"topomask.timm.attn_layer: kind must be one of {', '.join(KINDS)}, got {kind}")

    class TopomaskAttention(Attention):  # type: ignore[misc, unused-ignore]  # Any where timm is not installed
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if self.attn_drop.p:
                raise ValueError(f"topomask.timm: attn_drop must be 0, got {self.attn_drop.p}; weights are never formed")
            self.mask = mask if share else copy.deepcopy(mask)

        def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
            if attn_mask is not None or is_causal:
                raise ValueError("topomask.timm: attn_mask must be None and is_causal False; the graph says who attends to whom")
            gated = getattr(self, "gate", None)
            gate = None if gated is None else gated(x).sigmoid()
            qkv = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
            q, k, v = self.q_norm(qkv[0]), self.k_norm(qkv[1]), qkv[2]
            out = attend(q, k, v, self.mask, kind=kind, features=features)
            out = self.norm(out.transpose(1, 2).flatten(2))
            projected: Tensor = self.proj_drop(self.proj(out if gate is None else out * gate))
            return projected

    return TopomaskAttention
