"""Masks of the C++ library as modules: a family and its arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from . import _errors, _ops, _traced
from ._arguments import Arguments, Recipe, bound, filled, same
from ._forms import Form
from .graph import Graph
from .mask import DEFAULT_MEMORY_BUDGET, Mask, keeping_precision
from .pattern import Pattern


@contextlib.contextmanager
def learning(tensors: list[Tensor]) -> Iterator[None]:
    """Tensors that require grad for as long as C++ makes something of them: C++ decides then whether it follows later changes."""
    frozen = [tensor for tensor in tensors if not tensor.requires_grad and not tensor.is_inference()]
    try:
        for tensor in frozen:
            tensor.requires_grad_(True)
        yield
    finally:
        for tensor in frozen:
            tensor.requires_grad_(False)


class LibraryMask(Arguments, Mask):
    """A mask M = family(arguments) of the C++ library, [N, N] or one per head [H, N, N], by its products with x [..., N, C].

    Parameters among the arguments are parameters of the module; the tensors of graphs, walks and patterns are its buffers, so
    that `state_dict`, `.to`, `copy.deepcopy` and DDP work as on any module. Other tensors that require grad are kept as they
    are. Mask values are float32 or float64: `.half()` and `.bfloat16()` leave their precision alone.

    Weights of a graph that required grad in this mask are followed from then on, after `requires_grad_(False)` too: the mask, its
    copies and what `.to` makes of it see changes in place. Weights that never required grad are taken as they are at first.

    Cost: that of the family. Gradient: once, in x and in every tensor among the arguments that requires one.
    """

    _made_on_cpu = False  # the C++ function that makes the mask takes tensors on the CPU only

    def __new__(cls, *args: Any, **kwargs: Any) -> LibraryMask:
        _ops.refuse_transforms(cls.__name__)
        return super().__new__(cls)

    def __init__(self, family: str, arguments: dict[str, Any], *, kind: str = "Mask") -> None:
        nn.Module.__init__(self)
        self._family = family
        self._kind = kind
        self._given = {}
        self._cache = {}
        self._latest: _Latest | None = None
        self._route: str | None = None
        self._number = 0
        self._form: Form | None = None
        self._learnt: list[str | Tensor] = []
        self._source: Graph | None = None  # of walks; for pictures
        for name, value in arguments.items():
            self._given[name] = self._take(name, value)
        self._object  # noqa: B018  (bad arguments are refused here)

    def argument(self, name: str) -> Any:
        """An argument of the family by its name: a graph, walks, a number, …, with the tensors the module has now. Cost:
        O(number of its tensors)."""
        return self._give(self._given[name])

    # The C++ mask.

    @property
    def _object(self) -> Any:
        """The C++ mask over the tensors that the module has now: the latest one, unless something changed. Every call of attention
        asks, so that the common answer takes about a microsecond."""
        return self._checked_latest().made

    def _checked_latest(self) -> _Latest:
        latest = self._latest
        if latest is None or not latest.holds():
            latest = self._latest = _Latest(self, self._checked_object())
        return latest

    def _attention(self) -> Any:
        return self._checked_latest().attention

    def _softmax_attention(self) -> Any:
        return self._checked_latest().softmax_attention

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            self.__dict__["_latest"] = None
        super().__setattr__(name, value)

    def _checked_object(self) -> Any:
        inner = (item for module in self.children() if isinstance(module, Mask) for item in _identity(module))
        key = (*self._key(iter(self._tensor_names())), *inner)
        kept = self._cache.get("")
        if kept is None or not same(kept[0], key):
            weights = self._graph_weights()
            with learning([tensor for name, tensor in weights.items() if name in self._followed]):
                kept = self._cache[""] = (key, self._make())
            learnt = {name for name, tensor in weights.items() if tensor.requires_grad}
            if not learnt <= self._followed:
                self._followed |= learnt
            if self._number:  # a compiled function finds the mask by its number, and is traced again for another
                self._number = int(_ops.method(kept[1], "number"))
        return kept[1]

    def _graph_weights(self) -> dict[str, Tensor]:
        """The weights of the graphs among the arguments, by name."""
        recipes = [item for recipe in self._given.values() for item in (recipe if isinstance(recipe, list) else [recipe])]
        graphs = (recipe.name for recipe in recipes if isinstance(recipe, Recipe) and recipe.cls is Graph)
        return {f"{name}_weights": getattr(self, f"{name}_weights") for name in graphs}

    def _make(self) -> Any:
        tensors = [getattr(self, name) for name in self._tensor_names()]
        if self._made_on_cpu and any(tensor.device.type != "cpu" for tensor in tensors):
            return self._made_and_moved(tensors[0].device)
        return _ops.static(self._kind, self._family, *self._arguments())

    def _made_and_moved(self, device: torch.device) -> Any:
        """The C++ mask made of copies on the CPU, moved, and given this module's own parameters in place of its copies."""
        own = {name: self._tensor(name) for name in self._tensor_names()}
        copies = {name: tensor.detach().cpu().requires_grad_(tensor.requires_grad) for name, tensor in own.items()}

        def given(recipe: Any) -> Any:
            if isinstance(recipe, list):
                return [given(item) for item in recipe]
            if not isinstance(recipe, Recipe) or recipe.kind == "module":
                return self._give(recipe)
            if recipe.kind == "tensor":
                return copies[recipe.name]
            return filled(recipe.cls, recipe.fields, {name: copies[f"{recipe.name}_{name}"] for name in recipe.tensors})

        made = _ops.static(self._kind, self._family, *(bound(given(recipe)) for recipe in self._given.values()))
        original = {id(copies[name]): own[name] for name in own}
        parameters = [original[id(parameter)] for parameter in _ops.method(made, "parameters")]
        return _ops.method(made, "moved", device, parameters)

    @property
    def name(self) -> str:
        """The name of the mask that `explain` shows."""
        return str(_ops.method(self._object, "name"))

    @property
    def size(self) -> int:
        return int(_ops.method(self._object, "size"))

    @property
    def heads(self) -> int:
        return int(_ops.method(self._object, "heads"))

    def matmul(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return self._numbered((x,), _traced.How("matmul"))
        _ops.refuse_transforms("matmul", x)
        product: Tensor = _ops.method(self._object, "matmul", x)
        return product

    def matmul_transposed(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return self._numbered((x,), _traced.How("matmul_transposed"))
        _ops.refuse_transforms("matmul_transposed", x)
        product: Tensor = _ops.method(self._object, "matmul_transposed", x)
        return product

    def dense(self) -> Tensor:
        matrix: Tensor = _ops.method(self._object, "dense")
        return matrix

    def sparse(self) -> tuple[Pattern, Tensor] | None:
        """M as a sparse matrix: its pattern and values [entries] or [H, entries], differentiable; None where it has none.
        Cost: that of the family, on first use for the pattern."""
        made = _ops.method(self._object, "sparse")
        return None if made is None else (Pattern._of(made[0], self.size), made[1])

    def _drawn_on(self) -> Graph | None:
        if self._source is not None:
            return self._source
        graph = self.argument("graph") if "graph" in self._given else None
        return graph if isinstance(graph, Graph) else None

    # torch.compile

    def prepare(self, features: int = 64, value_dim: int = 64, *, batch: int = 1, training: bool = True) -> LibraryMask:
        """Plans the route that torch.compile will take, for q, k [batch, heads, N, features] and v [..., value_dim], and makes what
        it needs beforehand. Modules do so when they are made and moved; eager attention plans each call separately. Cost: that of the
        forms it makes, such as the sparse one."""
        made = self._object
        like = next((tensor for _, tensor in self._named_tensors() if tensor.is_floating_point()), None)
        dtype, device = (torch.float32, torch.device("cpu")) if like is None else (like.dtype, like.device)
        counts = [batch * self.heads, self.heads, self.size, features, value_dim, torch.get_num_threads()]
        plan = _ops.method(made, "plan_attention", counts, dtype, device, training, DEFAULT_MEMORY_BUDGET)
        self._route = plan[0]
        names = {id(tensor): name for name, tensor in self._named_tensors()}
        parameters = _ops.method(made, "parameters")
        # A parameter that C++ made of those here (a part of one, a sum) has no gradient that an operator could name.
        known = all(id(parameter) in names or not parameter.requires_grad for parameter in parameters)
        self._learnt = [names.get(id(parameter), parameter) for parameter in parameters]
        self._number = int(_ops.method(made, "number")) if known else 0
        self._traced_size, self._traced_heads = self.size, self.heads
        self._form = self._traced_form(plan[0])
        return self

    def _traced_form(self, route: str) -> Form | None:
        """The mask as tensors and operators for the route planned, where it has such a form."""
        return None

    def _traced_shape(self) -> tuple[int, int] | None:
        return None if self._route is None else (self._traced_size, self._traced_heads)

    def _numbered(self, inputs: tuple[Tensor, ...], how: _traced.How) -> Tensor:
        # The number is known to this process alone. torch.compile of torch 2.11 takes is_exporting() for True; the flag is right.
        if torch.compiler._is_exporting_flag:
            raise RuntimeError(
                f"topomask: {type(self).__name__} cannot be exported; none, causal, dense, sparse, neighbours, power series, graph "
                "random features, Toeplitz, shortest paths and global tokens around them can"
            )
        if not self._number:
            raise RuntimeError(
                f"topomask: {type(self).__name__} must be prepared for torch.compile; mask.prepare() does so, before compiling"
                if self._route is None
                else f"topomask: {type(self).__name__} has no form for torch.compile; @torch.compiler.disable keeps it outside"
            )
        parameters = [item if isinstance(item, Tensor) else self._found(item) for item in self._learnt]
        return _ops.apply_mask(inputs, parameters, self._number, how.what, how.route, how.scale, how.eps, how.memory_budget)

    def _found(self, path: str) -> Tensor:
        tensor: Any = self
        for name in path.split("."):
            tensor = getattr(tensor, name)
        found: Tensor = tensor
        return found

    def _traced_attention(self, q: Tensor, k: Tensor, v: Tensor, how: _traced.How) -> Tensor:
        form = None if self._form is None else self._form.chosen(how, q, v)
        return self._numbered((q, k, v), how) if form is None else form.attention(self, q, k, v, how)

    # nn.Module

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> LibraryMask:
        keeping = keeping_precision(fn)
        self._latest = None
        super()._apply(fn, recurse)
        for name in self._tensor_names():
            if name in self.__dict__:
                setattr(self, name, keeping(self.__dict__[name]))
        if self._route is not None:
            self.prepare()
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
    ) -> None:
        """Parameters are loaded; graphs and walks must be those that the state was saved with. They are shared with the values the
        mask was made of, and C++ keeps what follows from them, so nothing is written into them."""
        own = {}
        for name in self._tensor_names():
            mine = self._buffers.get(name)
            given = state_dict.get(prefix + name)
            if mine is None or given is None:
                continue
            own[prefix + name] = mine
            if given.shape != mine.shape or not torch.equal(given.to(mine), mine):
                errors.append(
                    f"{prefix}{name}: {type(self).__name__} must be made of the graph, the walk options and the seed "
                    "that the state was saved with, got others"
                )
        super()._load_from_state_dict({**state_dict, **own}, prefix, metadata, strict, missing, unexpected, errors)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_cache"] = {}
        state["_latest"] = None
        state["_form"] = None
        state["_number"] = 0
        state["_learnt"] = []
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if self._route is not None:
            self.prepare()

    def extra_repr(self) -> str:
        shown = [super().extra_repr()]
        for name, value in self._given.items():
            if isinstance(value, (int, float, str)) and not isinstance(value, Recipe):
                shown.append(f"{name}={value}")
        return ", ".join(shown)


def _identity(mask: Mask) -> Iterator[tuple[Any, ...]]:
    """What tells whether a mask inside another is the same as before. A mask written in Python makes a C++ mask for each use, which
    serves as long as the module and its parameters are the same: it calls the module."""
    if isinstance(mask, LibraryMask):
        yield (mask._object,)
    else:
        yield mask, float(mask.work), mask.size, mask.heads
        yield from ((x, x.data_ptr(), x.dtype, x.device, x.requires_grad) for x in mask.parameters())


class _Latest:
    """The C++ mask made last, and what must be unchanged for it to be the mask still: parameters and other tensors that learn, and
    the masks inside. Buffers change by assignment or `.to` alone, which the module notices."""

    def __init__(self, mask: LibraryMask, made: Any) -> None:
        self.made = made
        self.attention, self.softmax_attention = made.attention, made.softmax_attention  # bound once
        self.tensors = [
            (holder, name, tensor, tensor.data_ptr(), tensor.requires_grad)
            for holder in (mask._parameters, mask.__dict__)
            for name in mask._tensor_names()
            if isinstance(tensor := holder.get(name), Tensor)
        ]
        self.inside = [(module, module._object) for module in mask.children() if isinstance(module, LibraryMask)]
        self.constant = all(isinstance(module, LibraryMask) for module in mask.children())

    def holds(self) -> bool:
        for holder, name, tensor, place, learns in self.tensors:
            if holder.get(name) is not tensor or tensor.data_ptr() != place or tensor.requires_grad != learns:
                return False
        return self.constant and all(module._object is made for module, made in self.inside)


_errors.explain_arguments(__name__)
