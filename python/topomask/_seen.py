"""Tensors that were seen before: what was made of one is kept while it lives and is not written to."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary


class Seen:
    """A tensor as it was."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        # A tensor of torch.inference_mode counts no versions, and is compared with a copy.
        self.copy = tensor.clone() if tensor.is_inference() and tensor.layout == torch.strided else None
        self.version = None if tensor.is_inference() else tensor._version

    def again(self, tensor: Tensor) -> bool:
        """Whether this is the same tensor with the same values."""
        if self.tensor() is not tensor:
            return False
        if self.version is not None:
            return tensor._version == self.version
        return self.copy is not None and torch.equal(self.copy, tensor)


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
