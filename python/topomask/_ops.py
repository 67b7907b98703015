"""Every call into the C++ library: its TorchBind objects (`torch.classes.topomask`) and its operators (`torch.ops.topomask`).

The rest of the package calls the functions here and nothing of torch's registries, so that a change of a schema is a change of
this file. Errors of the library come back as ValueError or TypeError, with the library's own text.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _library
from ._errors import translated
from ._seen import note_attention, note_call

_library.load()

from . import fake  # noqa: E402, F401  (registers; needs the library)

Object = torch.ScriptObject
"""A C++ value that Python holds."""

_classes: Any = torch.classes.topomask
_ops: Any = torch.ops.topomask


def _call(name: str, function: Callable[..., Any], arguments: Sequence[Any], target: Any = None) -> Any:
    if _functorch() is not None or forward_ad._current_level >= 0:
        _refuse_transformed(name, arguments)
    try:
        result = function(*arguments)
    except RuntimeError as error:
        meant = translated(error)
        if isinstance(meant, RuntimeError):
            refuse_transforms(name)
        raise meant from None
    note_call(name, (target, *arguments), result)
    return result


def static(kind: str, name: str, *arguments: Any) -> Any:
    """The static method `name` of the TorchBind class `kind`."""
    return _call(name, getattr(getattr(_classes, kind), name), arguments)


def new(kind: str, *arguments: Any) -> Any:
    """A new object of the TorchBind class `kind`."""
    return _call(kind, getattr(_classes, kind), arguments)


def method(target: Any, name: str, *arguments: Any) -> Any:
    """The method `name` of a TorchBind object."""
    return _call(name, getattr(target, name), arguments, target)


# Transforms of functions that C++ does not support. torch.func has no way into C++ autograd functions, and for some
# masks it would fail far inside; the same holds for forward-mode derivatives.

_functorch = torch._C._functorch.peek_interpreter_stack


def refuse_transforms(op: str, *tensors: Tensor) -> None:
    """Refuses to be called inside a transform of torch.func, and for tensors that carry a forward-mode derivative."""
    if _functorch() is not None:
        raise RuntimeError(
            f"topomask: {op} must be used outside of torch.func's transforms (grad, vjp, jvp, vmap); masks and attention take any "
            "leading dimensions, and torch.autograd.grad differentiates them"
        )
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(x).tangent is not None for x in tensors):
        raise RuntimeError(f"topomask: {op} has no forward-mode derivative; torch.autograd.grad has the backward one")


def is_transformed() -> bool:
    """Whether a call may meet such a transform; tracing for torch.compile is none."""
    return not torch.compiler.is_compiling() and (_functorch() is not None or forward_ad._current_level >= 0)


def _refuse_transformed(op: str, arguments: Sequence[Any]) -> None:
    """The same for calls into C++ that are harmless where none of their tensors is transformed."""
    inside = (item for value in arguments for item in (value if isinstance(value, (list, tuple)) else (value,)))
    tensors = [item for item in inside if isinstance(item, Tensor)]
    if _functorch() is None or any(torch._C._functorch.is_functorch_wrapped_tensor(x) for x in tensors):
        refuse_transforms(op, *tensors)


def once(op: str, out: Tensor) -> Tensor:
    """An output that is differentiable once: a gradient that could be differentiated again is refused when it is asked for."""
    if out.requires_grad:
        out.register_hook(functools.partial(_refuse_second, op))
    return out


def _refuse_second(op: str, _: Tensor) -> None:
    if torch.is_grad_enabled():
        raise RuntimeError(f"{op}: create_graph must be False; masks and attention are differentiable once")


# Eager attention: `method` by name, for the two calls where a microsecond counts.


def attention(method: Any, q: Tensor, k: Tensor, v: Tensor, route: str, eps: float, memory_budget: int) -> Tensor:
    refuse_transforms("attention", q, k, v)
    note_attention()
    try:
        out: Tensor = method(q, k, v, route, eps, memory_budget)
        return out
    except RuntimeError as error:
        raise translated(error) from None


def softmax_attention(
    method: Any, q: Tensor, k: Tensor, v: Tensor, mode: str, scale: float | None, route: str, eps: float, memory_budget: int
) -> Tensor:
    refuse_transforms("softmax_attention", q, k, v)
    note_attention()
    try:
        out: Tensor = method(q, k, v, mode, scale, route, eps, memory_budget)
        return out
    except RuntimeError as error:
        raise translated(error) from None


def signed(seed: int) -> int:
    """A seed of 64 bits as the signed number that a schema takes."""
    if not -(2**63) <= seed < 2**64:
        raise ValueError(f"topomask: seed must be in [0, 2^64), got {seed}")
    return seed - 2**64 if seed >= 2**63 else seed


# Operators, for torch.compile. A pattern is the list of its five tensors, followed by its tiles where it has them.


def sparse_attention(q: Tensor, k: Tensor, v: Tensor, values: Tensor, pattern: Sequence[Tensor], eps: float) -> Tensor:
    out: Tensor = _ops.sparse_attention.default(q, k, v, values, list(pattern), eps)[0]
    return out


def sparse_softmax_attention(
    q: Tensor, k: Tensor, v: Tensor, values: Tensor, pattern: Sequence[Tensor], scale: float, eps: float
) -> Tensor:
    out: Tensor = _ops.sparse_softmax_attention.default(q, k, v, values, list(pattern), scale, eps)[0]
    return out


def factored_product(
    q: Tensor, k: Tensor, v: Tensor, left: Tensor, left_pattern: Sequence[Tensor], right: Tensor, right_pattern: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    numerator, denominator = _ops.factored_product.default(q, k, v, left, list(left_pattern), right, list(right_pattern))
    return numerator, denominator


def fused_attention(*arguments: Any) -> Tensor:
    """q, k, v, values, right, index, kind, shift, globals, weighting, scale, eps."""
    out: Tensor = _ops.fused_attention.default(*arguments)[0]
    return out


def walk_features(f: Tensor, hops: Tensor, loads: Tensor, feature_offsets: Tensor, scale: float) -> Tensor:
    features: Tensor = _ops.walk_features(f, hops, loads, feature_offsets, scale)
    return features


def sparse_gram(values: Tensor, pattern: Sequence[Tensor], product: Sequence[Tensor]) -> Tensor:
    gram: Tensor = _ops.sparse_gram(values, list(pattern[:5]), list(product[:5]))
    return gram


def sparse_product(
    a: Tensor, b: Tensor, a_pattern: Sequence[Tensor], b_pattern: Sequence[Tensor], product: Sequence[Tensor]
) -> Tensor:
    """A·Bᵀ at the entries of `product`."""
    values: Tensor = _ops.sparse_product(a, b, list(a_pattern[:5]), list(b_pattern[:5]), list(product[:5]))
    return values


def hop_pairs(
    left: Sequence[Tensor], right: Sequence[Tensor], product: Sequence[Tensor], terms: int, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Lists of hop pairs of each entry: offsets, pairs, sums. A side: offsets, columns, feature_offsets, hops, loads."""
    offsets, pairs, sums = _ops.hop_pairs(list(left), list(right), list(product[:2]), terms, most)
    return offsets, pairs, sums


def hop_pair_values(g: Tensor, lists: Sequence[Tensor]) -> Tensor:
    values: Tensor = _ops.hop_pair_values(g, *lists)
    return values


def block_before(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = _ops.block_before(*arguments)
    return q, k, v


def block_before_backward(*arguments: Any) -> list[Tensor]:
    return list(_ops.block_before_backward(*arguments))


def block_after(*arguments: Any) -> Tensor:
    out: Tensor = _ops.block_after(*arguments)
    return out


def block_after_backward(*arguments: Any) -> list[Tensor]:
    return list(_ops.block_after_backward(*arguments))


def layer_norm_rows(x: Tensor, weight: Tensor, bias: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    out: Tensor = _ops.layer_norm_rows(x, weight, bias, eps, dtype)[0]
    return out


def apply_mask(
    inputs: Sequence[Tensor],
    parameters: Sequence[Tensor],
    mask: int,
    what: str,
    route: str,
    scale: float | None,
    eps: float,
    memory_budget: int,
) -> Tensor:
    """Any mask, known by its number; a registered operator. The backward pass computes the forward pass once more."""
    out: Tensor = _ops.apply_mask([*inputs, *parameters], len(inputs), mask, what, route, scale, eps, memory_budget)
    return out


# Python functions and masks that C++ calls.

_callbacks: dict[int, Callable[[str, list[Tensor]], list[Tensor]]] = {}
_next_callback = 0


def callback(function: Callable[[str, list[Tensor]], list[Tensor]]) -> int:
    """A number by which C++ calls `function(method, arguments)`; kept until C++ lets go of it."""
    global _next_callback
    _next_callback += 1
    _callbacks[_next_callback] = function
    return _next_callback


def _run_callback(id: int, method: str, arguments: list[Tensor]) -> list[Tensor]:
    if method == "release":
        _callbacks.pop(id, None)
        return []
    return _callbacks[id](method, arguments)


_registry = torch.library.Library("topomask_python", "DEF")
_registry.define("call(int id, str method, Tensor[] arguments) -> Tensor[]")
_registry.impl("call", _run_callback, "CompositeImplicitAutograd")


def operator(schema: str, function: Callable[..., Any], shapes: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors without gradients that torch.compile leaves as it is; shapes: empty results of the right shapes."""
    name = schema.split("(")[0]
    _registry.define(schema)
    _registry.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"topomask_python::{name}", shapes)
    made: Callable[..., Any] = getattr(torch.ops.topomask_python, name)
    return made


atexit.register(lambda: _classes.Functions.close_callbacks())
