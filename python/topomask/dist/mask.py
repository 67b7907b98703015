"""Masks over ranks: a rank has the rows of its nodes, and `tm.attention` of them is that of the whole graph."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .. import _traced
from ..mask import Mask
from .exchange import shared
from .group import Group
from .layout import Layout
from .rows import LocalRows, operator_of


class Held(nn.Module):
    """A module with tensors that differ from rank to rank. They move with the module, but are not its buffers: DDP would replace
    them by those of the first rank, and a checkpoint does not depend on the number of ranks."""

    def __init__(self) -> None:
        super().__init__()
        self._local: dict[str, Tensor] = {}

    def hold(self, **tensors: Tensor) -> None:
        self._local |= tensors

    def held(self, name: str) -> Tensor:
        return self._local[name]

    def keep(self, name: str, tensor: Tensor) -> None:
        """An nn.Parameter is one of the module; gradients flow to any other tensor that requires them."""
        if isinstance(tensor, nn.Parameter):
            self.register_parameter(name, tensor)
        else:
            self.hold(**{name: tensor})

    def kept(self, name: str) -> Tensor:
        parameter = self._parameters.get(name)
        return self._local[name] if parameter is None else parameter

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Held:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._local = {name: fn(tensor) for name, tensor in self._local.items()}
        return self


class DistributedMask(Mask, Held):
    """A mask whose rows are divided over the ranks of a group. `size` is the number of rows that this rank has; q, k, v and the
    output have these rows only. Attention, `matmul` and their backward passes are collective calls.

    Parameters are the same on every rank, and their gradients are summed over the ranks (reduce=True), so that each has the
    gradient of the sum of the losses; but those of values in the rows of a rank are its own. Under DDP, which averages: reduce=False
    and the loss times the number of ranks of the graph.
    """

    def __init__(self, layout: Layout, rows: int, heads: int = 1, *, reduce: bool = True) -> None:
        Held.__init__(self)
        self._size, self._heads = rows, heads
        self.layout = layout
        self.reduce = reduce

    @property
    def group(self) -> Group:
        return self.layout.group

    def _shared(self, parameter: Tensor) -> Tensor:
        """A parameter as the computation uses it."""
        return shared(self.group, parameter) if self.reduce else parameter

    row_parameters: tuple[str, ...] = ()
    """The parameters that belong to the rows of this rank."""

    def gathered(self, name: str, tensor: Tensor) -> Tensor:
        """One of row_parameters for all rows, in the order of the whole graph, on every rank. A collective call."""
        return self.layout.gather(tensor)

    def scattered(self, name: str, whole: Tensor) -> Tensor:
        """Back: for the rows of this rank. A collective call."""
        return self.layout.rows_of(whole)

    def _checked(self, op: str, q: Tensor, k: Tensor, v: Tensor, route: str, routes: tuple[str, ...]) -> None:
        if route not in routes:
            raise ValueError(f"{op}: route must be {' or '.join(routes)} for {type(self).__name__}, got {route}")
        for name, x in (("q", q), ("k", k), ("v", v)):
            if x.dim() < 2 or x.shape[-2] != self.size:
                raise ValueError(f"{op}: {name} must be [..., {self.size}, C], the rows of this rank, got {list(x.shape)}")
            if self.heads > 1 and (x.dim() < 3 or x.shape[-3] != self.heads):
                raise ValueError(f"{op}: {name} must be [..., {self.heads}, {self.size}, C], got {list(x.shape)}")

    def _run(self, q: Tensor, k: Tensor, v: Tensor, softmax: bool, scale: float, eps: float) -> Tensor:
        """Attention of q, k, v [B, H, rows, C]."""
        raise NotImplementedError

    def _computed(self, q: Tensor, k: Tensor, v: Tensor, softmax: bool, scale: float, eps: float) -> Tensor:
        """Attention of q, k, v [..., rows, C]. They come in the dtype of autocast, as those of one process; what follows is computed
        without it."""
        kind = q.device.type
        if torch.is_autocast_enabled(kind):
            q, k, v = (_traced.narrowed(x) for x in (q, k, v))
        fq, fk, fv = (_traced.fold(x, self.heads) for x in (q, k, v))
        with torch.autocast(kind, enabled=False):
            return self._run(fq, fk, fv, softmax=softmax, scale=scale, eps=eps).reshape(v.shape)

    def _attention(self) -> Any:
        def kernel(q: Tensor, k: Tensor, v: Tensor, route: str, eps: float, memory_budget: int) -> Tensor:
            self._checked("attention", q, k, v, route, ("automatic", *self._routes))
            return self._computed(q, k, v, softmax=False, scale=1.0, eps=eps)

        return kernel

    _routes: tuple[str, ...] = ("sparse",)

    def _softmax_attention(self) -> Any:
        def softmax(
            q: Tensor, k: Tensor, v: Tensor, mode: str, scale: float | None, route: str, eps: float, memory_budget: int
        ) -> Tensor:
            self._checked("softmax_attention", q, k, v, route, ("automatic", "sparse"))
            if mode != "multiplicative":
                raise ValueError(
                    "softmax_attention: mode must be multiplicative for a distributed mask, got additive, in which every pair "
                    "attends"
                )
            factor = scale if scale is not None else 1.0 / math.sqrt(max(q.shape[-1], 1))
            return self._computed(q, k, v, softmax=True, scale=factor, eps=eps)

        return softmax

    def dense(self) -> Tensor:
        raise RuntimeError(f"{type(self).__name__}.dense: no rank has the whole matrix")

    @property
    def _object(self) -> Any:
        raise TypeError(f"{type(self).__name__}: a distributed mask has one route; there is nothing to plan or explain")

    def _traced_attention(self, q: Tensor, k: Tensor, v: Tensor, how: _traced.How) -> Tensor:
        raise RuntimeError(
            f"topomask: {type(self).__name__} cannot be compiled; @torch.compiler.disable keeps attention over ranks outside"
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()} of {self.layout.num_nodes} nodes, rank {self.group.rank} of {self.group.size}"


class SparseDistributedMask(DistributedMask):
    """A mask with few nonzeros in each row. A subclass says what the values are."""

    def __init__(self, layout: Layout, rows: LocalRows, heads: int = 1, *, reduce: bool = True) -> None:
        super().__init__(layout, layout.num_rows, heads, reduce=reduce)
        self.local = rows

    def values(self) -> Tensor:
        """[1 or H, entries] over local.pattern. Differentiable."""
        raise NotImplementedError

    _function = ""

    def sharing(self, function: Tensor) -> SparseDistributedMask:
        """The same structure with a function of its own (f or alpha): the layers of a model share walks or powers and the pattern,
        which are kept once. `function` has the shape and dtype of the one here, and is the same on every rank."""
        op, own = f"{type(self).__name__.strip('_')}.sharing", self.kept(self._function) if self._function else None

        def checked() -> None:
            if own is None or own.shape != function.shape or own.dtype != function.dtype:
                want = "given to a mask that has one" if own is None else f"{own.dtype} {list(own.shape)}"
                raise ValueError(f"function must be {want}, got {function.dtype} {list(function.shape)}")

        self.group.together(op, checked)
        self.group.agree_on(op, **{self._function: function})
        made = copy.copy(self)
        made._parameters, made._modules, made._local = dict(self._parameters), dict(self._modules), dict(self._local)
        made._parameters.pop(self._function, None)
        made._local.pop(self._function, None)
        made.keep(self._function, function)
        return made

    def _arranged(self, values: Tensor) -> Tensor:
        """Values [1 or H, entries] from the order they were given in to that of local.pattern."""
        return values.index_select(1, self.held("order")) if "order" in self._local else values

    @property
    def halo_rows(self) -> int:
        """Rows of other ranks that this rank receives in each call."""
        return self.local.plan.num_halo

    def _run(self, q: Tensor, k: Tensor, v: Tensor, softmax: bool, scale: float, eps: float) -> Tensor:
        return self.local.attention(q, k, v, self.values(), operator_of(softmax, scale, eps))

    def matmul(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            values = self.values()
            return self.local.matmul(values if self.heads > 1 else values[0], x)

    def matmul_transposed(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            values = self.values()
            return self.local.matmul_transposed(values if self.heads > 1 else values[0], x)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SparseDistributedMask:
        super()._apply(fn, recurse)
        device = fn(torch.empty(0)).device
        if device != self.local.pattern.columns.device:
            self.local = self.local.to(device)
        return self


def heads_of(op: str, name: str, values: Tensor, entries: bool = False) -> int:
    """[K] → 1, [H, K] → H. entries: K are those of a rank, which may have none."""
    empty = values.dim() > 0 and values.shape[0] == 0 and not (entries and values.dim() == 1)
    if values.dim() not in (1, 2) or empty or values.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{op}: {name} must be float32 or float64 [K] or [H, K], got {values.dtype} {list(values.shape)}")
    return values.shape[0] if values.dim() == 2 else 1
