"""Which mask an attention module of `transformers` uses, and masks as a part of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from ._attention import Features
from .mask import Mask

USED = "_topomask_used"  # of an attention module: what it uses, by the name that was registered with its model
MASKS = "topomask_masks"  # the submodule of a model that holds the masks registered with it


@dataclass
class Use:
    """What attention uses under a name: one mask, one per layer, or a function of N and the masks that it made."""

    name: str
    mask: Any
    kind: str
    features: Features

    def __post_init__(self) -> None:
        self.made: dict[int, Mask] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        from .hf import _interface

        _interface(self.name, None)  # a model that was unpickled in a process which registered nothing

    def mask_for(self, module: nn.Module, tokens: int) -> Mask:
        mask = self.mask
        if isinstance(mask, (Sequence, nn.ModuleList)):
            layer = getattr(module, "layer_idx", None)
            if not isinstance(layer, int):
                raise ValueError(
                    "topomask.hf: model must be given to register with one mask per layer, since "
                    f"{type(module).__name__} has no layer_idx"
                )
            if not 0 <= layer < len(mask):
                raise ValueError(f"topomask.hf: mask must have one entry per layer, got {len(mask)} and layer {layer}")
            mask = mask[layer]
        elif not isinstance(mask, Mask):
            mask = self.made[tokens] if tokens in self.made else self._make(tokens)
        if not torch.compiler.is_compiling() and mask.size != tokens:
            raise ValueError(
                f"topomask.hf: mask must be over the {tokens} tokens of the batch, got one over {mask.size}; pad to {mask.size} "
                "(padding='max_length'), or register a function N -> mask"
            )
        return cast(Mask, mask)

    def _make(self, tokens: int) -> Mask:
        if torch.compiler.is_compiling():
            raise ValueError(
                f"topomask.hf: a compiled model needs its masks beforehand, got {tokens} tokens for the first time; run the model "
                "once without compiling for every length"
            )
        made = self.mask(tokens)
        if not isinstance(made, Mask):
            raise TypeError(f"topomask.hf: mask must be a function N -> Mask, got {type(made).__name__} for N = {tokens}")
        self.made[tokens] = made
        return made


def _aliases_cloned(model: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Graphs and walks, which masks have in common, and masks that have several names are tensors of their own in a state_dict:
    safetensors refuses tensors that share memory."""
    seen: set[int] = set()
    for path, mask in model.named_modules(remove_duplicate=False):
        if not isinstance(mask, Mask):
            continue
        for name, tensor in [*mask.named_buffers(recurse=False), *mask.named_parameters(recurse=False)]:
            key = f"{prefix}{path}.{name}"
            if key in state and state[key] is not tensor and (id(tensor) in seen or not isinstance(tensor, nn.Parameter)):
                state[key] = state[key].clone()
            seen.add(id(tensor))


def attach(model: nn.Module, found: dict[str, nn.Module], mask: Mask | Sequence[Mask] | nn.ModuleList, use: Use) -> None:
    """Makes masks a part of a model, and tells each attention module found in it which is its own. A copy has copies."""
    masks = [mask] * len(found) if isinstance(mask, Mask) else list(cast(Sequence[Mask], mask))
    if not found:
        raise ValueError(
            "topomask.hf.register: model must have attention modules that look their attention up by name (transformers' "
            f"AttentionInterface), got {type(model).__name__}, which has none"
        )
    if len(found) != len(masks):
        raise ValueError(
            f"topomask.hf.register: mask must have one entry for each of the {len(found)} attention modules of "
            f"{type(model).__name__} ({', '.join(found)}), got {len(masks)}"
        )
    if not use.name or "." in use.name or hasattr(nn.ModuleDict, use.name):
        raise ValueError(f"topomask.hf.register: name must be a name that a submodule can have, without dots, got {use.name!r}")
    if not hasattr(model, MASKS):
        model.add_module(MASKS, nn.ModuleDict())
        model.register_state_dict_post_hook(_aliases_cloned)
    cast(nn.ModuleDict, getattr(model, MASKS))[use.name] = mask if isinstance(mask, nn.Module) else nn.ModuleList(masks)
    for module, own in zip(found.values(), masks):
        setattr(module, USED, {**getattr(module, USED, {}), use.name: Use(use.name, own, use.kind, use.features)})
