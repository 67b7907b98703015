"""Masks in models of `transformers`: an attention implementation by name.

import topomask as tm, topomask.hf
tm.hf.register(mask, name="topomask")
model = AutoModel.from_config(config, attn_implementation="topomask")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from ._attention import Features
from .mask import Mask
from .nn import KINDS, attend


def _no_padding(**arguments: Any) -> None:
    """transformers makes no mask of its own; padding, which would have to be part of the graph's mask, is refused."""
    padding = arguments.get("attention_mask")
    if isinstance(padding, Tensor) and padding.dim() == 2 and not bool(padding.all()):
        raise ValueError("topomask.hf: attention_mask must not hide tokens; the graph says who attends to whom")


def _layer_of(module: nn.Module) -> int:
    index = getattr(module, "layer_idx", None)
    if not isinstance(index, int):
        raise ValueError(f"topomask.hf: mask must be one for all layers, since {type(module).__name__} does not know its layer_idx")
    return index


def register(
    mask: Mask | Sequence[Mask],
    name: str = "topomask",
    *,
    kind: str = "softmax",
    features: Features = "relu",
) -> Callable[..., tuple[Tensor, None]]:
    """Registers attention modulated by a mask under `name`, for `attn_implementation=name`.

    mask: one for all layers, or one per layer (by `module.layer_idx`). kind: "softmax" (weights M_ij·exp(s_ij)), "additive" or
    "kernel". The mask is not a submodule of the model: give its parameters to the optimiser, and move it with the model, by
    yourself, or set `model.topomask = mask`. Returns the function that was registered.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    if kind not in KINDS:
        raise ValueError(f"topomask.hf.register: kind must be one of {', '.join(KINDS)}, got {kind}")

    def forward(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        **arguments: Any,
    ) -> tuple[Tensor, None]:
        if attention_mask is not None:
            raise ValueError("topomask.hf: attention_mask must be None; the graph says who attends to whom")
        if dropout and module.training:
            raise ValueError(f"topomask.hf: dropout of attention weights must be 0, got {dropout}; weights are never formed")
        layer = mask if isinstance(mask, Mask) else mask[_layer_of(module)]
        times = query.shape[-3] // key.shape[-3]
        if times > 1:
            key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
        if kind != "kernel" and scaling is not None:
            query = query * (scaling * query.shape[-1] ** 0.5)  # softmax_attention divides by √d_k
        out = attend(query, key, value, layer, kind=kind, features=features)
        return out.transpose(1, 2).contiguous(), None

    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, _no_padding)
    return forward
