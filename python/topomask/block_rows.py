"""What a transformer block does to single rows, for graphs of millions of nodes on the CPU: the two halves around attention as
operators, which take some rows at a time through every step while they are in the cache, and write their gradients out.

`rowwise` does the same for any function, and computes everything twice; here only the hidden layer is computed again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from . import _ops

UNIT = 16  # the width of a head must be a multiple of this many scalars


class _Before(torch.autograd.Function):
    """max(q, 0) + offset, max(k, 0) + offset and v [heads, N, d] of x [N, width]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
        norm_w, norm_b, w, b, eps, heads, offset = rest
        low = _low(x)
        q, k, v = _ops.block_before(x, norm_w, norm_b, eps, w, b, heads, offset, low)
        ctx.save_for_backward(x, norm_w, norm_b, w, q, k)
        ctx.settings = eps, offset, low
        return q, k, v

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, norm_w, norm_b, w, q, k = ctx.saved_tensors
        eps, offset, low = ctx.settings
        made = _ops.block_before_backward(*grads, x, norm_w, norm_b, eps, w, q, k, offset, low)
        return (*made, None, None, None)


class _After(torch.autograd.Function):
    """y + perceptron(norm(y)) with y = x + projection(out), of x [N, width] and out [heads, N, d]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, out: Tensor, *rest: Any) -> Tensor:
        wp, bp, norm_w, norm_b, w1, b1, w2, b2, eps = rest
        low = _low(x)
        ctx.save_for_backward(x, out, wp, bp, norm_w, norm_b, w1, b1, w2)
        ctx.settings = eps, low
        return _ops.block_after(x, out, wp, bp, norm_w, norm_b, eps, w1, b1, w2, b2, low)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, out, wp, bp, norm_w, norm_b, w1, b1, w2 = ctx.saved_tensors
        eps, low = ctx.settings
        made = _ops.block_after_backward(grads[0], x, out, wp, bp, norm_w, norm_b, eps, w1, b1, w2, low)
        return (*made, None)


def _low(x: Tensor) -> bool:
    """Whether products are to round their operands to bfloat16, as autocast asks."""
    return torch.is_autocast_enabled(x.device.type)


def supports(x: Tensor, heads: int, layers: list[Any]) -> bool:
    """Rows [N, width] on the CPU, of one dtype with the layers, linear layers with a bias, norms with both, and widths that fill
    vectors. Autocast to float16 is left to torch."""
    if x.dim() != 2 or not x.is_cpu or (_low(x) and torch.get_autocast_dtype("cpu") != torch.bfloat16):
        return False
    weights = [w for layer in layers for w in (layer.weight, layer.bias)]
    whole = all(w is not None and w.dtype == x.dtype for w in weights)
    return (
        whole
        and x.dtype in (torch.float32, torch.float64)
        and all(w.shape[0] % UNIT == 0 for w in weights)
        and (x.shape[1] % (heads * UNIT) == 0)
    )


def queries_keys_values(
    x: Tensor, norm: nn.LayerNorm, linear: nn.Linear, heads: int, offset: float
) -> tuple[Tensor, Tensor, Tensor]:
    """φ(q), φ(k), v [heads, N, d] for φ = max(·, 0) + offset; x [N, width]."""
    arguments = (norm.weight, norm.bias, linear.weight, linear.bias, norm.eps, heads, offset)
    q, k, v = _Before.apply(x.contiguous(), *arguments)  # type: ignore[no-untyped-call]
    return q, k, v


def projection_and_perceptron(
    x: Tensor, out: Tensor, projection: nn.Linear, norm: nn.LayerNorm, first: nn.Linear, second: nn.Linear
) -> Tensor:
    """x [N, width], out [heads, N, d] → [N, width]; the activation is GELU."""
    weights = (projection.weight, projection.bias, norm.weight, norm.bias, first.weight, first.bias, second.weight, second.bias)
    result: Tensor = _After.apply(x.contiguous(), out.contiguous(), *weights, norm.eps)  # type: ignore[no-untyped-call]
    return result
