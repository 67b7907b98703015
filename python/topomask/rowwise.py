"""Functions of single rows, computed some rows at a time and again in the backward pass, so that what lies between input and output
is never kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

RowFunction = Callable[..., tuple[Tensor, ...]]
Places = list[tuple[nn.Module, str]]
"""The modules that hold a parameter, and its name in each."""


@contextlib.contextmanager
def _holding(parameters: Sequence[Tensor], places: Sequence[Places]) -> Iterator[None]:
    """The modules hold these parameters, of the forward pass. After torch.func.functional_call they have their own again."""
    others = [(module._parameters, name, x) for x, held in zip(parameters, places) for module, name in held]
    others = [(holder, name, x) for holder, name, x in others if holder[name] is not x]
    own = [(holder, name, holder[name]) for holder, name, _ in others]
    try:
        for holder, name, x in others:
            holder[name] = x  # type: ignore[assignment]
        yield
    finally:
        for holder, name, before in own:
            holder[name] = before


class _Rowwise(torch.autograd.Function):
    """Row tensors first, then the parameters that the function uses, whose gradients add up over the chunks."""

    @staticmethod
    def forward(
        ctx: Any, function: RowFunction, chunk: int, count: int, places: Sequence[Places], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        device = tensors[0].device.type
        ctx.function, ctx.chunk, ctx.count, ctx.places = function, chunk, count, places
        ctx.autocast = (device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))
        ctx.save_for_backward(*tensors)
        rows = tensors[0].shape[-2]
        made: list[Tensor] = []
        for begin in range(0, rows, chunk):
            parts = function(*(x[..., begin : begin + chunk, :] for x in tensors[:count]))
            made = made or [part.new_empty(*part.shape[:-2], rows, part.shape[-1]) for part in parts]
            for whole, part in zip(made, parts):
                whole[..., begin : begin + chunk, :] = part
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        tensors, count, chunk = ctx.saved_tensors, ctx.count, ctx.chunk
        needed = ctx.needs_input_grad[4:]
        made = [
            (torch.empty_like(x) if place < count else torch.zeros_like(x)) if need else None
            for place, (x, need) in enumerate(zip(tensors, needed))
        ]
        device, dtype, enabled = ctx.autocast
        for begin in range(0, grads[0].shape[-2], chunk):
            rows = slice(begin, begin + chunk)
            parts = [x[..., rows, :].detach().requires_grad_(need) for x, need in zip(tensors[:count], needed)]
            with torch.enable_grad(), torch.autocast(device, dtype, enabled), _holding(tensors[count:], ctx.places):
                out = ctx.function(*parts)
            wanted = [x for x, need in zip([*parts, *tensors[count:]], needed) if need]
            found = iter(torch.autograd.grad(out, wanted, [grad[..., rows, :] for grad in grads]))
            for place, into in enumerate(made):
                if into is None:
                    continue
                if place < count:
                    into[..., rows, :] = next(found)
                else:
                    into += next(found)
        return (None, None, None, None, *made)


def rowwise(function: RowFunction, chunk: int, inputs: Sequence[Tensor], modules: Sequence[nn.Module]) -> tuple[Tensor, ...]:
    """function(*inputs), where row i of each result [..., N, D] depends on row i of each input [..., N, C] and on the parameters of
    the modules alone.

    Computed for `chunk` rows at a time: between input and output only as many rows are ever in memory, forward and backward; the
    backward pass computes them once more. function must be deterministic, so that dropout goes by the numbers of
    rows (NodeDropout) or not at all; once differentiable."""
    if chunk < 1:
        raise ValueError(f"rowwise: chunk must be positive, got {chunk}")
    if inputs[0].shape[-2] <= chunk:
        return function(*inputs)
    used: dict[int, tuple[Tensor, Places]] = {}  # each parameter once, also where modules share it
    for part in (part for module in modules for part in module.modules()):
        for name, x in part._parameters.items():
            if x is not None:
                used.setdefault(id(x), (x, []))[1].append((part, name))
    parameters, places = [x for x, _ in used.values()], [held for _, held in used.values()]
    everything = (function, chunk, len(inputs), places, *inputs, *parameters)
    results: tuple[Tensor, ...] = _Rowwise.apply(*everything)  # type: ignore[no-untyped-call]
    return results
