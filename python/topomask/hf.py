"""Masks in models of `transformers`: an attention implementation by name.

import topomask as tm, topomask.hf
tm.hf.register(mask, name="topomask", model=model)  # or a mask for every layer: a sequence of masks
model.set_attn_implementation("topomask")
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from ._attention import Features, attention, softmax_attention
from ._hf_masks import MASKS, USED, Use, attach
from ._padding import padded_attention
from .features import feature_map
from .mask import Mask
from .nn import KINDS

__all__ = ["attention_modules", "load_masks", "register"]

_REGISTERED: dict[str, Callable[..., tuple[Tensor, None]]] = {}  # the attention functions, by name

# Arguments of attention that change what it computes, and what to do in their place.
_REFUSED = {
    "sliding_window": "a mask can be the window, as ToeplitzMask or NeighboursMask of a path; turn it off in the model's config",
    "softcap": "scores are not capped; turn it off in the model's config",
    "s_aux": "attention sinks are not supported",
    "position_bias": "biases of scores are not supported; the graph says who attends to whom",
    "cu_seq_lens_q": "sequences that are packed into one are not supported; pad them",
    "head_mask": "heads are not hidden",
}


def _hidden(key_padding: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The tokens that padding hides, bool [B or 1, N]."""
    if key_padding is None:
        return None
    batch, tokens = query.shape[0], key.shape[-2]
    if key_padding.dtype != torch.bool or key_padding.dim() != 4 or tuple(key_padding.shape[1:]) != (1, 1, tokens):
        raise ValueError(
            f"topomask.hf: attention_mask must be padding, bool [{batch}, 1, 1, {tokens}] or what a tokeniser makes, [{batch}, "
            f"{tokens}], got {key_padding.dtype} {list(key_padding.shape)}; the graph says who attends to whom"
        )
    return ~key_padding[:, 0, 0]


def _padding(*, attention_mask: Tensor | None = None, **_: Any) -> Tensor | None:
    """Called by transformers in place of its own functions that make masks: keeps the padding of keys, bool [B, 1, 1, N], and
    leaves the rest to the graph. Looks at no value, so that it neither waits for a GPU nor breaks a compiled graph."""
    if attention_mask is None:
        return None
    if attention_mask.dim() != 2:
        raise ValueError(f"topomask.hf: attention_mask must be [B, N], got {list(attention_mask.shape)}")
    return attention_mask[:, None, None].to(torch.bool)


def attention_modules(model: nn.Module) -> dict[str, nn.Module]:
    """The modules of a model that look their attention up by name, under their names, in the order of `model.named_modules()`: the
    order of the masks in `register(masks, model=model)`."""

    def looks_it_up(module: nn.Module) -> bool:
        code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
        return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names

    return {name: module for name, module in model.named_modules() if looks_it_up(module)}


def register(
    mask: Mask | Sequence[Mask] | nn.ModuleList | Callable[[int], Mask],
    name: str = "topomask",
    *,
    kind: str = "softmax",
    features: Features = "relu",
    model: nn.Module | None = None,
) -> Callable[..., tuple[Tensor, None]]:
    """Registers attention modulated by a mask under `name`, for `attn_implementation=name`.

    mask: one for all layers, one per layer, or, for batches of several lengths, a function N -> mask, which is called once for each
    N. kind: "softmax" (weights M_ij·exp(s_ij)), "additive" (softmax of s_ij + M_ij) or "kernel" (weights M_ij·φ(q_i)·φ(k_j), with
    features φ).

    model: the masks become a part of it, `model.topomask_masks[name]`: its parameters and its state_dict have theirs, they move
    with it, and a copy of the model has copies. Masks per layer are in the order of `attention_modules(model)`. Without a model the
    masks belong to none: give their parameters to the optimiser and move them yourself; the layer of a module is then its
    `layer_idx`, which ViT, DeiT, DINOv2, CLIP, SigLIP, BEiT, DistilBERT and ALBERT do not have.

    Tokens that `attention_mask` [B, N] hides are seen by none, and attention leaves 0 in their own rows. Returns the function that
    was registered.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    if kind not in KINDS:
        raise ValueError(f"topomask.hf.register: kind must be one of {', '.join(KINDS)}, got {kind}")
    feature_map(features)
    if name not in _REGISTERED and (name == "eager" or name in ALL_ATTENTION_FUNCTIONS):
        raise ValueError(f"topomask.hf.register: name must not be one of transformers' own, got {name!r}")
    several = isinstance(mask, (Sequence, nn.ModuleList))
    for place, one in enumerate(cast(Sequence[Any], mask) if several else [mask]):
        if not isinstance(one, Mask) and (several or not callable(one)):
            where = f"mask[{place}]" if several else "mask"
            raise TypeError(f"topomask.hf.register: {where} must be a topomask.Mask, got {type(one).__name__}")
    use = Use(name, mask, kind, features)
    if model is None:
        return _interface(name, use)
    if not several and not isinstance(mask, Mask):
        raise ValueError("topomask.hf.register: mask must be a mask or one per layer where a model is given, got a function")
    attach(model, attention_modules(model), cast(Mask, mask), use)
    return _interface(name, None)


def _interface(name: str, shared: Use | None) -> Callable[..., tuple[Tensor, None]]:
    """Registers the attention of modules that have a use under this name, and of all others where `shared` is given."""
    from transformers import AttentionInterface, AttentionMaskInterface

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
        use: Use | None = getattr(module, USED, {}).get(name, shared)
        if use is None:
            raise ValueError(
                f"topomask.hf: model must be the one that runs; this {type(module).__name__} is no part of the model given to "
                "register"
            )
        if dropout and module.training:
            raise ValueError(f"topomask.hf: {_dropout_advice(module, dropout)}")
        for argument, advice in _REFUSED.items():
            if arguments.get(argument) is not None:
                raise ValueError(f"topomask.hf: {argument} must be None, got {_brief(arguments[argument])}; {advice}")
        if key.shape[-2] != query.shape[-2]:
            raise ValueError(
                f"topomask.hf: key must have as many tokens as query, {query.shape[-2]}, got {key.shape[-2]}; attention to another "
                "sequence or to a cache is not supported"
            )
        hidden, mask = _hidden(attention_mask, query, key), use.mask_for(module, query.shape[-2])
        times = query.shape[-3] // key.shape[-3]
        if times > 1:
            key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
        if hidden is not None:
            out = padded_attention(query, key, value, mask, hidden, kind=use.kind, features=use.features, scale=scaling)
        elif use.kind == "kernel":
            out = attention(query, key, value, mask, features=use.features)
        else:
            mode = "additive" if use.kind == "additive" else "multiplicative"
            out = softmax_attention(query, key, value, mask, mode=mode, scale=scaling)
        return out.transpose(1, 2).contiguous(), None

    if name in _REGISTERED and shared is None:
        return _REGISTERED[name]
    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, _padding)
    _REGISTERED[name] = forward
    return forward


def _brief(value: Any) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else str(value)


def _dropout_advice(module: nn.Module, dropout: float) -> str:
    """What to set, by the fields of the model's config that have this value."""
    config = getattr(module, "config", None)
    fields = [name for name, value in vars(config).items() if "drop" in name and value == dropout] if config is not None else []
    fields = [name for name in fields if "att" in name] or fields
    where = "; ".join(f"config.{name} = 0.0" for name in fields) or "its dropout to 0 in the config"
    return (
        f"dropout of attention weights must be 0 in training, got {dropout}; weights are never formed. Set {where} before the "
        f"model is made, or from_pretrained(…, {fields[0] if fields else 'attention_dropout'}=0.0)"
    )


def load_masks(model: nn.Module, folder: str | Path) -> None:
    """Loads the masks registered with a model from a folder that `model.save_pretrained(folder)` wrote. from_pretrained makes the
    model without masks: load it, register masks of the same graphs, walk options and seeds, and call this."""
    from safetensors import safe_open

    wanted = {name for name in model.state_dict() if f".{MASKS}." in f".{name}"}
    found: dict[str, Tensor] = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            found |= {name: opened.get_tensor(name) for name in opened.keys() if name in wanted}  # noqa: SIM118
    if not wanted:
        raise ValueError(f"topomask.hf.load_masks: masks must be registered with model={type(model).__name__} first, got none")
    if len(found) != len(wanted):
        missing = sorted(wanted - set(found))
        raise ValueError(
            f"topomask.hf.load_masks: {folder} must hold the {len(wanted)} tensors of the model's masks, got {len(found)}; "
            f"{missing[0]} is missing"
        )
    model.load_state_dict(found, strict=False)
