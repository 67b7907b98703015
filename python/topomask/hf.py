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
from .features import Directions, feature_map, has_directions
from .library_mask import LibraryMask
from .mask import Mask
from .nn import KINDS

__all__ = ["attention_modules", "load_masks", "register"]

FEATURES = "topomask_features"  # the submodule of a model that holds the directions of FAVOR+ registered with it
_CAUSAL = "_topomask_causal"  # of a mask: whether it was causal when that was last found out, by kind

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


def _must_be_causal(module: nn.Module, given: bool | None) -> bool:
    """Whether a module asks for causal attention: by the argument of the call, as the encoder of texts in CLIP does, or else by
    its own attribute. A config with is_causal=False makes decoders attend both ways."""
    asked = getattr(module, "is_causal", False) if given is None else given
    return bool(asked) and getattr(getattr(module, "config", None), "is_causal", True) is not False


def _causal(mask: Mask, kind: str) -> bool | None:
    """Whether no token attends to a later one. While torch.compile traces, what was found out last; None where nothing was."""
    if torch.compiler.is_compiling():
        traced: bool | None = getattr(mask, _CAUSAL, {}).get(kind)
        return traced
    known: dict[str, bool] = mask.__dict__.setdefault(_CAUSAL, {})
    changes = not isinstance(mask, LibraryMask) or mask._family in ("dense_mask", "per_head_mask")
    if changes or kind not in known:
        known[kind] = _is_causal(mask, kind)
    return known[kind]


def _is_causal(mask: Mask, kind: str) -> bool:
    """Whether M_ij = 0 for j > i, whatever values the parameters of the mask take; of a dense mask by the values that it has
    now. Where the mask is added, −∞ alone excludes a pair, and only dense masks hold it."""
    if not isinstance(mask, LibraryMask):
        return kind != "additive" and bool(getattr(mask, "causal", False))
    if mask._family == "per_head_mask":
        return all(bool(_causal(one, kind)) for one in mask.argument("masks"))
    if mask._family == "dense_mask":
        later = mask.argument("matrix").detach().triu(1)
        return torch.equal(later, torch.full_like(later, -torch.inf if kind == "additive" else 0.0).triu(1))
    if kind == "additive" or mask._family == "causal_mask":
        return kind != "additive"
    if mask._family in ("toeplitz_mask", "toeplitz_distance_mask"):
        causality, rest = mask.argument("causality"), mask.argument("dims")[1:]
        return causality == "row_major" or (causality == "first_axis" and all(size == 1 for size in rest))
    found = mask.sparse()
    if found is None:
        return False
    rows, columns = found[0].edge_index()
    return bool((columns <= rows).all())


def _check_causal(module: nn.Module, mask: Mask, kind: str) -> None:
    """Refuses a mask that lets tokens attend to later ones, for a module that must not."""
    causal = _causal(mask, kind)
    if causal is None:
        raise ValueError(
            "topomask.hf: a compiled model needs to know beforehand whether its masks are causal; run the model once without "
            "compiling"
        )
    if not causal:
        added = "; where the mask is added, only a DenseMask with -inf above the diagonal is" * (kind == "additive")
        raise ValueError(
            f"topomask.hf: mask must be causal for {type(module).__name__}, which asks for is_causal=True, got "
            f"{type(mask).__name__} with kind={kind}, by which tokens attend to later ones; CausalMask, "
            "ToeplitzMask(…, causality='row_major') and masks whose entries (i, j) all have j <= i are causal"
            f"{added}. Where the model is to attend both ways, set is_causal=False in its config"
        )


def _kept_directions(model: nn.Module, name: str, features: Features) -> Any:
    """The features that a model uses under a name; the directions of FAVOR+ become a part of the model."""
    held = getattr(model, FEATURES, None)
    if held is not None and name in held:
        del held[name]
    if not has_directions(features):
        return features
    if held is None:
        held = nn.ModuleDict()
        model.add_module(FEATURES, held)
    held[name] = Directions(features)
    return held[name]


def attention_modules(model: nn.Module) -> dict[str, nn.Module]:
    """The modules of a model that look their attention up by name, under their names, in the order of `model.named_modules()`: the
    order of the masks in `register(masks, model=model)`. Cost: O(number of modules). Gradient: none."""

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

    The masks of decoders must be causal, M_ij = 0 for j > i: `CausalMask`, `ToeplitzMask(…, causality="row_major")`, sparse
    masks with entries j ≤ i alone, such as neighbours in a directed graph, dense ones with zeros above the diagonal (−∞ where
    they are added). Others are refused when a module that has is_causal=True, or is called with it, runs. A mask of your own
    says that it is causal by an attribute `causal = True`.

    Tokens that `attention_mask` [B, N] hides are seen by none, and attention leaves 0 in their own rows. Returns the function that
    was registered: query, key, value [B, H, N, d] → [B, N, H, d].

    Cost: that of softmax_attention or attention in every layer, with one more column of q and k where there is an attention_mask.
    Gradient: once, in query, key, value and the masks' parameters.
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
    found = attention_modules(model)
    attach(model, found, cast(Mask, mask), use)
    use.features = _kept_directions(model, name, features)
    for module in found.values():
        own: Use = getattr(module, USED)[name]
        own.features = use.features
        if _must_be_causal(module, None):  # found out here for torch.compile, refused when the module runs
            _causal(own.mask, kind)
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
        if query.shape[-2] > 1 and _must_be_causal(module, arguments.get("is_causal")):
            _check_causal(module, mask, use.kind)
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
    """Loads the masks registered with a model, and the directions of FAVOR+ features, from a folder that
    `model.save_pretrained(folder)` wrote. from_pretrained makes the model without masks: load it, register masks of the same
    graphs, walk options and seeds, and call this. Cost: O(size of the masks). Gradient: none."""
    from safetensors import safe_open

    wanted = {name for name in model.state_dict() if f".{MASKS}." in f".{name}"}
    directions = {name for name in model.state_dict() if f".{FEATURES}." in f".{name}"}  # which older folders do not have
    found: dict[str, Tensor] = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            found |= {name: opened.get_tensor(name) for name in opened.keys() if name in wanted | directions}  # noqa: SIM118
    if not wanted | directions:
        raise ValueError(f"topomask.hf.load_masks: masks must be registered with model={type(model).__name__} first, got none")
    missing = sorted(wanted - set(found))
    if missing:
        raise ValueError(
            f"topomask.hf.load_masks: {folder} must hold the {len(wanted)} tensors of the model's masks, got "
            f"{len(wanted) - len(missing)}; {missing[0]} is missing"
        )
    model.load_state_dict(found, strict=False)
