"""Masks in models of `transformers`: an attention implementation by name.

import topomask as tm, topomask.hf
tm.hf.register(mask, name="topomask")
model = AutoModel.from_config(config, attn_implementation="topomask")

A mask for every layer: `tm.hf.register(masks, model=model)`, then `model.set_attn_implementation("topomask")`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

from torch import Tensor, nn

from ._attention import Features
from .mask import Mask
from .nn import KINDS, attend

_LAYERS = "_topomask_layers"  # of an attention module: its number under every name that was registered with a model


def _no_padding(**arguments: Any) -> None:
    """transformers makes no mask of its own; padding, which would have to be part of the graph's mask, is refused."""
    padding = arguments.get("attention_mask")
    if isinstance(padding, Tensor) and padding.dim() == 2 and not bool(padding.all()):
        raise ValueError("topomask.hf: attention_mask must not hide tokens; the graph says who attends to whom")


def attention_modules(model: nn.Module) -> dict[str, nn.Module]:
    """The modules of a model that look their attention up by name, under their names, in the order of `model.named_modules()`: what
    `register(masks, model=model)` numbers."""

    def looks_it_up(module: nn.Module) -> bool:
        code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
        return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names

    return {name: module for name, module in model.named_modules() if looks_it_up(module)}


def _number(model: nn.Module, masks: int, name: str) -> None:
    """Writes its number into every attention module. An attribute, so that copies of the model keep it."""
    found = attention_modules(model)
    if len(found) != masks:
        raise ValueError(
            f"topomask.hf.register: mask must have one entry for each of the {len(found)} attention modules of "
            f"{type(model).__name__} ({', '.join(found) or 'none'}), got {masks}"
        )
    for index, module in enumerate(found.values()):
        layers: dict[str, int] = dict(getattr(module, _LAYERS, {}))
        setattr(module, _LAYERS, {**layers, name: index})


def _layer_of(module: nn.Module, name: str, numbered: bool) -> int:
    kind = type(module).__name__
    index = getattr(module, _LAYERS, {}).get(name) if numbered else getattr(module, "layer_idx", None)
    if isinstance(index, int):
        return index
    if numbered:
        raise ValueError(f"topomask.hf: model must be the one that runs; this {kind} is no part of the model given to register")
    raise ValueError(f"topomask.hf: model must be given to register with one mask per layer, since {kind} has no layer_idx")


def _mask_of(masks: Sequence[Mask] | nn.ModuleList, layer: int) -> Mask:
    if not 0 <= layer < len(masks):
        raise ValueError(f"topomask.hf: mask must have one entry per layer, got {len(masks)} and layer {layer}")
    return cast(Mask, masks[layer])


def register(
    mask: Mask | Sequence[Mask] | nn.ModuleList,
    name: str = "topomask",
    *,
    kind: str = "softmax",
    features: Features = "relu",
    model: nn.Module | None = None,
) -> Callable[..., tuple[Tensor, None]]:
    """Registers attention modulated by a mask under `name`, for `attn_implementation=name`.

    mask: one for all layers, or one per layer. model: numbers the layers by the order of `attention_modules(model)`; without it the
    number is `module.layer_idx`, which ViT, DeiT, DINOv2, CLIP, SigLIP, BEiT, DistilBERT and ALBERT do not have. kind: "softmax"
    (weights M_ij·exp(s_ij)), "additive" (softmax of s_ij + M_ij) or "kernel" (weights M_ij·φ(q_i)·φ(k_j), with features φ).

    The mask is not a submodule of the model: give its parameters to the optimiser and move it with the model yourself, or set
    `model.topomask = mask` (a `torch.nn.ModuleList` where there are several). Returns the function that was registered.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    if kind not in KINDS:
        raise ValueError(f"topomask.hf.register: kind must be one of {', '.join(KINDS)}, got {kind}")
    if not isinstance(mask, Mask) and model is not None:
        _number(model, len(mask), name)

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
        layer = mask if isinstance(mask, Mask) else _mask_of(mask, _layer_of(module, name, model is not None))
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
