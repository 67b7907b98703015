"""The arguments that a mask of the C++ library is made of, as parameters, buffers and submodules of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ._structure import Structure
from .mask import Mask


class Arguments(nn.Module):
    """Takes arguments apart into what a module can hold, and assembles them again from the tensors that it has now."""

    _given: dict[str, Any]
    _cache: dict[str, tuple[tuple[Any, ...], Any]]
    _followed: frozenset[str] = frozenset()  # tensors that learned when C++ made something of them; see `_key`

    def _take(self, name: str, value: Any) -> Any:
        """Registers an argument; what is left of it is the recipe to assemble it again."""
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], (Structure, Mask)):
            return [self._take(f"{name}{place}", item) for place, item in enumerate(value)]
        if isinstance(value, Mask):
            self.add_module(name, value)
            return Recipe("module", name)
        if isinstance(value, Structure):
            tensors = value._tensors()
            for key, tensor in tensors.items():
                self._keep(f"{name}_{key}", tensor)
            self._cache[name] = (self._key(f"{name}_{key}" for key in tensors), value)
            return Recipe("structure", name, type(value), stripped(value, tensors), tuple(tensors))
        if isinstance(value, Tensor):
            self._keep(name, value)
            return Recipe("tensor", name)
        return value

    def _keep(self, name: str, tensor: Tensor) -> None:
        if isinstance(tensor, nn.Parameter):
            self.register_parameter(name, tensor)
        elif tensor.requires_grad:
            setattr(self, name, tensor)
        elif tensor.dtype == torch.int16:
            self.register_buffer(name, tensor.view(torch.uint8))  # no communication library of DDP sends int16
        else:
            self.register_buffer(name, tensor)

    def _tensor(self, name: str) -> Tensor:
        tensor: Tensor = getattr(self, name)
        return tensor.view(torch.int16) if tensor.dtype == torch.uint8 else tensor

    def _key(self, names: Iterator[str]) -> tuple[Any, ...]:
        """What tells whether tensors are the same as before; the tensors themselves, so that their identity stays theirs. Those
        that C++ follows count as learning after they were frozen too: what C++ made of them still serves."""
        tensors = [(name, getattr(self, name)) for name in names]
        return tuple((t, t.data_ptr(), t.dtype, t.device, t.requires_grad or name in self._followed) for name, t in tensors)

    def _give(self, recipe: Any) -> Any:
        """An argument as it is now."""
        if isinstance(recipe, list):
            return [self._give(item) for item in recipe]
        if not isinstance(recipe, Recipe):
            return recipe
        if recipe.kind == "module":
            return self.get_submodule(recipe.name)
        if recipe.kind == "tensor":
            return self._tensor(recipe.name)
        key = self._key(f"{recipe.name}_{name}" for name in recipe.tensors)
        kept = self._cache.get(recipe.name)
        if kept is None or not same(kept[0], key):
            tensors = {name: self._tensor(f"{recipe.name}_{name}") for name in recipe.tensors}
            kept = self._cache[recipe.name] = (key, filled(recipe.cls, recipe.fields, tensors))
        return kept[1]

    def _tensor_names(self) -> list[str]:
        def of(recipe: Any) -> Iterator[str]:
            if isinstance(recipe, list):
                for item in recipe:
                    yield from of(item)
            elif isinstance(recipe, Recipe) and recipe.kind == "tensor":
                yield recipe.name
            elif isinstance(recipe, Recipe) and recipe.kind == "structure":
                yield from (f"{recipe.name}_{name}" for name in recipe.tensors)

        return [name for recipe in self._given.values() for name in of(recipe)]

    def _named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors of this mask and of masks inside it, with the path to each."""
        yield from ((name, getattr(self, name)) for name in self._tensor_names())
        for path, module in self.named_children():
            if isinstance(module, Arguments):
                yield from ((f"{path}.{name}", tensor) for name, tensor in module._named_tensors())
            else:
                yield from ((f"{path}.{name}", tensor) for name, tensor in module.named_parameters())

    def _arguments(self) -> list[Any]:
        return [bound(self._give(recipe)) for recipe in self._given.values()]


class Recipe:
    """How an argument is assembled from what the module registered."""

    def __init__(
        self,
        kind: str,
        name: str,
        cls: type[Any] | None = None,
        fields: dict[str, Any] | None = None,
        tensors: tuple[str, ...] = (),
    ) -> None:
        self.kind, self.name, self.cls, self.fields, self.tensors = kind, name, cls, fields or {}, tensors


def stripped(value: Structure, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The fields that are no tensors, or, for values that nest, the value itself with empty tensors."""
    if hasattr(value, "_replaced"):
        return {"": value._replaced({name: torch.empty(0, device="cpu") for name in tensors})}
    return {name: field for name, field in value._fields().items() if name not in tensors}


def filled(cls: Any, fields: dict[str, Any], tensors: dict[str, Tensor]) -> Structure:
    if "" in fields:
        filled: Structure = fields[""]._replaced(tensors)
        return filled
    made: Structure = cls._unchecked({**fields, **tensors})
    return made


def same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(x[0] is y[0] and x[1:] == y[1:] for x, y in zip(a, b))


def bound(value: Any) -> Any:
    """An argument as C++ takes it."""
    if isinstance(value, (Structure, Mask)):
        return value._object
    return [bound(item) for item in value] if isinstance(value, (list, tuple)) else value
