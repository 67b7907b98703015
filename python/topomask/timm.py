"""Masks in timm's vision transformers: `VisionTransformer(attn_layer=tm.timm.attn_layer(mask))`."""

from __future__ import annotations

import copy
import functools
from typing import Any

from torch import Tensor, nn

from ._attention import Features
from .features import KeptFeatures, feature_map
from .mask import Mask
from .nn import KINDS, attend


@functools.cache
def _attention_class() -> type[nn.Module]:
    """topomask.timm.MaskedAttention, made when it is first used, since timm is optional."""
    from timm.layers.attention import Attention

    class MaskedAttention(KeptFeatures, Attention):  # type: ignore[misc, unused-ignore]  # Any where timm is not installed
        """timm's Attention with a mask, from the options of attn_layer and the arguments of timm's layer."""

        def __init__(self, given: dict[str, Any], *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if self.attn_drop.p:
                raise ValueError(f"topomask.timm: attn_drop must be 0, got {self.attn_drop.p}; weights are never formed")
            mask: Mask = given["mask"]
            if mask.heads not in (1, self.num_heads):
                raise ValueError(f"topomask.timm: mask must have 1 or {self.num_heads} heads, got {mask.heads}")
            self.mask = mask if given["share"] else copy.deepcopy(mask)
            self.kind, self.features = given["kind"], given["features"]

        def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
            if attn_mask is not None or is_causal:
                raise ValueError("topomask.timm: attn_mask must be None and is_causal False; the graph says who attends to whom")
            gated = getattr(self, "gate", None)
            gate = None if gated is None else gated(x).sigmoid()
            qkv = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
            q, k, v = self.q_norm(qkv[0]), self.k_norm(qkv[1]), qkv[2]
            out = attend(q, k, v, self.mask, kind=self.kind, features=self.features)
            out = self.norm(out.transpose(1, 2).flatten(2))
            projected: Tensor = self.proj_drop(self.proj(out if gate is None else out * gate))
            return projected

    MaskedAttention.__module__, MaskedAttention.__qualname__ = __name__, "MaskedAttention"
    return MaskedAttention


def __getattr__(name: str) -> Any:
    if name == "MaskedAttention":  # as pickles name it
        return _attention_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def attn_layer(mask: Mask, *, kind: str = "kernel", features: Features = "relu", share: bool = False) -> type[nn.Module]:
    """A class for timm's `attn_layer`: its Attention, with this mask, over as many tokens as the model has (CLS and registers
    included: `GlobalTokens(mask, n)` puts them before the patches).

    share: one mask for all blocks; otherwise each block gets a copy with parameters of its own. kind and features as in
    topomask.nn.MaskedAttention. The layers are of one class, `topomask.timm.MaskedAttention`, so that models pickle: x [B, N, width] →
    [B, N, width].

    Cost: that of timm's linear layers, and attention as in `attention` in place of N²·width. Gradient: once, in x, the layers and the
    mask's parameters.
    """
    if not isinstance(mask, Mask):
        raise TypeError(f"topomask.timm.attn_layer: mask must be a topomask.Mask, got {type(mask).__name__}")
    if kind not in KINDS:
        raise ValueError(f"topomask.timm.attn_layer: kind must be one of {', '.join(KINDS)}, got {kind}")
    feature_map(features)
    given = {"mask": mask, "kind": kind, "features": features, "share": share}
    layer = _attention_class()

    class GivenAttention(nn.Module):  # timm asks for a class and calls it; what it makes is the layer itself
        def __new__(cls, *arguments: Any, **options: Any) -> Any:
            return layer(given, *arguments, **options)

    return GivenAttention
