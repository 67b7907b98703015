"""Attention as torch.compile sees it: tensors and registered operators, by a route that was planned beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .mask import Mask


@dataclass(frozen=True)
class How:
    """what: "attention", "multiplicative" or "additive" (softmax), "matmul", "matmul_transposed"; the rest as in attention."""

    what: str
    route: str = "automatic"
    eps: float = 1e-6
    scale: float | None = None
    memory_budget: int = 1 << 32


def attend(mask: Mask, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
    """Attention while torch.compile or torch.export traces. Inputs come in the dtype of autocast, as in eager mode, and what
    follows is computed without it: sums over the nodes are wider than the inputs."""
    kind = q.device.type
    autocast = torch.is_autocast_enabled(kind)
    if autocast:
        q, k, v = (narrowed(x) for x in (q, k, v))
    _check("attention" if how.what == "attention" else "softmax_attention", mask, q, k, v)
    if not autocast:
        return mask._traced_attention(q, k, v, how)
    with torch.autocast(kind, enabled=False):
        return mask._traced_attention(q, k, v, how)


def narrowed(x: Tensor) -> Tensor:
    """An input of attention in the dtype of autocast, which is enabled."""
    return x.to(torch.get_autocast_dtype(x.device.type)) if x.dtype in (torch.float32, torch.float16, torch.bfloat16) else x


def _check(op: str, mask: Mask, q: Tensor, k: Tensor, v: Tensor) -> None:
    """What the library asks of inputs in eager mode."""
    known = mask._traced_shape()
    if known is None:
        return  # not prepared, which is refused later
    size, heads = known
    if q.dim() < 2 or q.shape[-2] != size:
        raise ValueError(f"{op}: q must be [..., N = {size}, C], got {list(q.shape)}")
    if heads > 1 and (q.dim() < 3 or q.shape[-3] != heads):
        text = f"[..., H = {heads}, N = {size}, C] for a mask with {heads} heads"
        raise ValueError(f"{op}: q must be {text}, got {list(q.shape)}")
    if q.dtype == torch.float16 and q.device.type == "cpu":
        raise ValueError(f"{op}: q must be float64, float32 or bfloat16 on cpu, got {q.dtype}")
    if k.shape != q.shape or k.dtype != q.dtype:
        raise ValueError(f"{op}: k must be like q, {q.dtype} {list(q.shape)}, got {k.dtype} {list(k.shape)}")
    if v.shape[:-1] != q.shape[:-1] or v.dtype != q.dtype:
        like = f"{q.dtype} {list(q.shape)}"
        raise ValueError(f"{op}: v must be like q, {like}, but for its last dimension, got {v.dtype} {list(v.shape)}")


def fold(x: Tensor, heads: int) -> Tensor:
    """[..., H, N, C] → [B, H, N, C] for the H of the mask."""
    return x.reshape(-1, heads, x.shape[-2], x.shape[-1])


def normalise(numerator: Tensor, denominator: Tensor, eps: float) -> Tensor:
    """numerator / denominator, which is kept at least eps from zero, with its sign (0 counts as +)."""
    away = torch.where(denominator < 0, denominator.clamp(max=-eps), denominator.clamp(min=eps))
    return numerator / away.unsqueeze(-1)


def operator_attention(q: Tensor, k: Tensor, v: Tensor, mask: Mask, how: How) -> Tensor:
    """Attention through `mask.matmul`, for masks written in Python."""
    if how.what != "attention":
        raise ValueError(f"softmax_attention: a compiled mask must be one of the library, got {type(mask).__name__}")
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    fq, fk = q.to(wide), k.to(wide)
    fv = torch.cat([v.to(wide), torch.ones_like(v[..., :1], dtype=wide)], -1)
    columns = (fk.unsqueeze(-1) * fv.unsqueeze(-2)).flatten(-2)
    product = mask.matmul(columns).unflatten(-1, (fk.shape[-1], fv.shape[-1]))
    joint = (fq.unsqueeze(-1) * product).sum(-2)
    return normalise(joint[..., :-1], joint[..., -1], how.eps).to(v.dtype)
