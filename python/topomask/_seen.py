"""Tensors that were seen before: what was made of one is kept while it lives and is not written to."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary


class Seen:
    """A tensor as it was. On the CPU a copy is compared with it, since NumPy, `.data` and pointers write without raising a version;
    on a GPU, where a comparison would wait for the device, and for sparse tensors the version and the memory tell."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        strided = tensor.layout == torch.strided
        compared = strided and (tensor.device.type == "cpu" or tensor.is_inference())
        self.copy = tensor.detach().clone() if compared else None
        self.mark = None if compared or tensor.is_inference() else _mark(tensor)

    def again(self, tensor: Tensor) -> bool:
        """Whether this is the same tensor with the same values."""
        if self.tensor() is not tensor:
            return False
        if self.copy is not None:
            alike = self.copy.dtype == tensor.dtype and self.copy.device == tensor.device
            return alike and torch.equal(self.copy, tensor)
        return self.mark is not None and self.mark == _mark(tensor)


def _mark(tensor: Tensor) -> tuple[Any, ...]:
    memory = (tensor.data_ptr(), tensor.stride()) if tensor.layout == torch.strided else ()
    return tensor._version, tuple(tensor.shape), *memory


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
