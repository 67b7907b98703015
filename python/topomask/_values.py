"""Arguments as people write them: lists and NumPy arrays where a tensor is meant, one number where sizes are meant."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

Values = Tensor | Sequence[Any]
"""A tensor, a (nested) sequence of numbers or a NumPy array."""


def tensor(what: str, value: Any) -> Tensor:
    """The tensor that `value` is or spells; `what` names the argument in the error."""
    if isinstance(value, Tensor):
        return value
    try:
        given = _array(value) if hasattr(value, "__array__") else value
        return torch.as_tensor(given, device="cpu")  # whatever torch's default device is
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{what} must be a tensor, a sequence of numbers or a NumPy array, got {type(value).__name__}") from None


def _array(value: Any) -> Any:
    """The NumPy array that a value is or has; a copy of it where torch refuses its byte order or its strides."""
    array = value.__array__()
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="), order="C")
    return array.copy() if any(stride < 0 for stride in array.strides) else array


def plain(tensor: Tensor) -> Tensor:
    """The tensor that PyG's EdgeIndex or Index wraps, whose memory C++ can read; any other tensor as it is."""
    unwrapped = None if type(tensor) is Tensor else getattr(tensor, "as_tensor", None)
    return tensor if unwrapped is None else unwrapped()


def numbers_of_nodes(what: str, value: Any) -> Tensor:
    """Edges, or one end of them. No edges are int64 even where they are given as torch.empty(2, 0) or as [[], []]."""
    nodes = plain(tensor(what, value))
    return nodes.to(torch.int64) if nodes.numel() == 0 and nodes.is_floating_point() else nodes


def real(what: str, value: Any) -> Tensor:
    """As `tensor`, in torch's default type where the numbers are whole."""
    made = tensor(what, value)
    return made if made.is_floating_point() else made.to(torch.get_default_dtype())


def sizes(what: str, dims: Any, least: int | None = None) -> list[int]:
    """Sizes given as one number or as a sequence of them."""
    try:
        found = [operator.index(size) for size in (dims if isinstance(dims, (Sequence, torch.Size)) else [dims])]
    except TypeError:
        raise TypeError(f"{what} must be an integer or a sequence of integers, got {dims!r}") from None
    if least is not None and any(size < least for size in found):
        raise ValueError(f"{what} must be >= {least}, got {min(found)}")
    return found


def known(what: str, given: Iterable[str], names: Sequence[str]) -> None:
    """Refuses the first option that is none of `names`, with the nearest of them."""
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; they are {', '.join(names)}"
            raise TypeError(f"{what}: there is no option {name}{hint}")
