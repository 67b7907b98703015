"""What graphs, patterns, walk tables and forests share: immutable values over tensors, with their C++ twin made on first use."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree

from . import _ops

Self = TypeVar("Self", bound="Structure")


class Structure:
    """A frozen dataclass whose fields are tensors, None or plain values. Pickles, copies and travels through DataLoader workers."""

    def _make(self) -> Any:
        """The C++ object, made of the fields and checked."""
        raise NotImplementedError

    @property
    def _object(self) -> Any:
        made = self.__dict__.get("_kept")
        if made is None:
            made = self._make()
            object.__setattr__(self, "_kept", made)
        return made

    def _with_object(self: Self, made: Any) -> Self:
        object.__setattr__(self, "_kept", made)
        return self

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def _tensors(self) -> dict[str, Tensor]:
        """The tensors among the fields, by name."""
        return {name: value for name, value in self._fields().items() if isinstance(value, Tensor)}

    @classmethod
    def _unchecked(cls: type[Self], fields: dict[str, Any]) -> Self:
        """Makes one from fields that were checked before."""
        made = cls.__new__(cls)
        for name, value in fields.items():
            object.__setattr__(made, name, value)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return self._fields()

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = {field.name for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        if not set(state) <= names:
            unknown = sorted(map(str, set(state) - names))[0]
            raise ValueError(f"{type(self).__name__}: a saved value must have the fields {', '.join(sorted(names))}, got {unknown}")
        for name, value in state.items():  # the C++ object, which checks them, is made when it is first needed
            object.__setattr__(self, name, value)

    def pin_memory(self: Self) -> Self:
        """A copy in page-locked memory, for DataLoader(pin_memory=True); without a GPU refused by torch."""
        return self._unchecked({**self._fields(), **{name: tensor.pin_memory() for name, tensor in self._tensors().items()}})


def register(cls: type[Structure]) -> None:
    """Makes a structure a pytree whose leaves are its tensors, and lets torch.load take it with weights_only=True: nothing of it is
    code, and its values are checked before C++ uses them."""

    def flatten(value: Structure) -> tuple[list[Any], tuple[Any, ...]]:
        tensors = value._tensors()
        rest = {name: field for name, field in value._fields().items() if name not in tensors}
        return list(tensors.values()), (tuple(tensors), tuple(rest.items()))

    def unflatten(leaves: Any, context: Any) -> Structure:
        names, rest = context
        return cls._unchecked({**dict(zip(names, leaves)), **dict(rest)})

    _pytree.register_pytree_node(cls, flatten, unflatten, serialized_type_name=f"topomask.{cls.__name__}")
    torch.serialization.add_safe_globals([cls])


def device_and_dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.device | None, torch.dtype | None]:
    """The arguments of `.to`, in any of torch's ways: a device, a dtype, both, or another tensor."""
    device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
    return device, dtype


__all__ = ["Structure", "register", "device_and_dtype", "_ops"]
