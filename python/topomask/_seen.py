"""Tensors that were seen before: what was made of one is kept while it lives and is not written to."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary


class Seen:
    """A tensor as it was. On the CPU a copy is compared with it, since NumPy, `.data`, pointers and fused optimisers write without
    raising a version. On a GPU, where a comparison would wait for the device, and for sparse tensors the version and the memory
    tell, which is enough for edges, but not for what an optimiser writes to."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        compared = _compared(tensor)
        self.copy = tensor.detach().clone() if compared else None
        self.mark = None if compared or tensor.is_inference() else _mark(tensor)

    @property
    def notices_all(self) -> bool:
        """Whether no write goes unnoticed."""
        return self.copy is not None

    def again(self, tensor: Tensor) -> bool:
        """Whether this is the same tensor with the same values."""
        if self.tensor() is not tensor:
            return False
        if self.copy is not None:
            alike = self.copy.dtype == tensor.dtype and self.copy.device == tensor.device
            return alike and _equal(self.copy, tensor)
        return self.mark is not None and self.mark == _mark(tensor)


def _compared(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and (tensor.device.type == "cpu" or tensor.is_inference())


def _equal(a: Tensor, b: Tensor) -> bool:
    """Also in the signs of zeros; NaN is equal to nothing."""
    return torch.equal(a, b) and (not a.is_floating_point() or torch.equal(a.signbit(), b.signbit()))


def _mark(tensor: Tensor) -> tuple[Any, ...]:
    memory = (tensor.data_ptr(), tensor.stride()) if tensor.layout == torch.strided else ()
    return tensor._version, tuple(tensor.shape), *memory


class Reads(TorchFunctionMode):
    """Notes whether what is computed inside of it may depend on the values of a tensor. Until then the tensor is only handed on.

    It sees torch's functions called with the tensor or another one in its memory, and calls of the C++ library. C++ extensions
    that take tensors without asking for their address in Python are not seen."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.tensor, self.found = tensor, False
        self._made: list[Any] = []  # C++ objects that hold the tensor
        self._outer: Reads | None = None

    def __enter__(self) -> Reads:
        self._outer, _reading.now = _reading.now, self
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        _reading.now = self._outer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not self.found and not self._hands_on(_name(func), result) and any(map(self.in_memory_of, tree_leaves((args, kwargs)))):
            self.found = True
        return result

    def _hands_on(self, name: str, result: Any) -> bool:
        if name == "data_ptr":  # by which the library tells whether a tensor is another; to anyone else it gives the values
            caller = sys._getframe(2).f_globals.get("__name__", "")
            return bool(caller.startswith(_PACKAGE))
        return name in _WITHOUT_VALUES or (name in _THE_SAME and result is self.tensor)

    def in_memory_of(self, value: Any) -> bool:
        """Whether the value is the tensor, or another in the same memory."""
        if value is self.tensor or not isinstance(value, Tensor):
            return value is self.tensor
        strided = value.layout == self.tensor.layout == torch.strided
        return strided and torch._C._is_alias_of(value, self.tensor)  # type: ignore[attr-defined]

    def called(self, name: str, arguments: Sequence[Any], result: Any) -> None:
        """The C++ library was called. What it made of the tensor may hold it; anything else may depend on its values."""
        if self._outer is not None:
            self._outer.called(name, arguments, result)
        if self.found or name in _OF_MASKS_WITHOUT_VALUES:
            return
        given = tree_leaves(arguments)
        if any(value is made for value in given for made in self._made) or any(map(self.in_memory_of, given)):
            if isinstance(result, torch.ScriptObject):
                self._made.append(result)
            else:
                self.found = True


class _Reading(threading.local):
    now: Reads | None = None


_reading = _Reading()
_PACKAGE = __name__.rpartition(".")[0] + "."

_WITHOUT_VALUES = frozenset(
    "shape dtype device layout ndim requires_grad grad_fn is_leaf is_cuda is_cpu is_sparse itemsize dim size stride numel "
    "storage_offset element_size is_contiguous is_floating_point is_complex is_inference new_empty new_zeros new_ones".split()
)
"""Attributes and methods of a tensor that do not depend on its values."""

_THE_SAME = frozenset("to contiguous float double cpu cuda requires_grad_".split())
"""Methods that return the tensor itself, unchanged, where there is nothing to do."""

_OF_MASKS_WITHOUT_VALUES = frozenset("name size heads number parameters plan_attention plan_softmax".split())
"""Methods of C++ masks that do not depend on the values of parameters."""


def note_call(name: str, arguments: Sequence[Any], result: Any) -> None:
    """Tells the innermost `Reads` of this thread, where there is one, of a call of the C++ library."""
    if _reading.now is not None:
        _reading.now.called(name, arguments, result)


def note_attention() -> None:
    """The same for attention, whose result depends on the values of its mask."""
    reads = _reading.now
    while reads is not None:
        reads.found, reads = True, reads._outer


def _name(function: Any) -> str:
    """Of a function, or of the attribute that it gets."""
    name: str = getattr(function, "__name__", "")
    return getattr(function.__self__, "__name__", "") if name == "__get__" else name


class Shared:
    """What several layers make of the same tensor, by names that say how. Not copied or pickled."""

    def __init__(self) -> None:
        self._of: WeakTensorKeyDictionary = WeakTensorKeyDictionary()

    def of(self, tensor: Tensor) -> dict[Any, Any]:
        """What has been made of the tensor since it was last written to."""
        kept = self._of.get(tensor)
        if kept is None or not kept[0].again(tensor):
            kept = self._of[tensor] = (Seen(tensor), {})
        made: dict[Any, Any] = kept[1]
        return made
