"""The halo exchange and reductions as autograd functions. A rank that differentiates its loss takes part in the exchanges of all
others: every rank must run the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .group import Group, Pending
from .layout import HaloPlan


class _Way:
    """An exchange that has begun, forward and then backward."""

    def __init__(self, plan: HaloPlan) -> None:
        self.plan = plan
        self.pending: Pending | None = None

    def start(self, x: Tensor, back: bool) -> None:
        plan = self.plan
        splits = (plan.recv_splits, plan.send_splits) if back else (plan.send_splits, plan.recv_splits)
        self.pending = plan.layout.group.all_to_all(x, *splits, plan.largest)

    def finish(self) -> Tensor:
        assert self.pending is not None
        received = self.pending.wait()
        self.pending = None
        return received


class _Start(torch.autograd.Function):
    """Forward: starts to send rows. Backward: waits for their gradients, and adds them up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, way: _Way) -> Tensor:
        ctx.way, ctx.shape = way, x.shape
        index = way.plan.send_on(x.device)
        sent = x.index_select(-2, index).movedim(-2, 0).flatten(1)  # also where no row is sent
        way.start(sent, back=False)
        return sent

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        way, shape = ctx.way, ctx.shape
        rows = way.finish()  # what `grad` is once the exchange is over
        index = way.plan.send_on(rows.device)
        result = rows.new_zeros(shape)
        result.index_add_(-2, index, rows.view(rows.shape[0], *shape[:-2], shape[-1]).movedim(0, -2))
        return result, None


class _Finish(torch.autograd.Function):
    """Forward: waits for the rows of others. Backward: starts to send their gradients back.

    The backward pass of what was computed between the two runs between them too, so that both exchanges have work to hide behind.
    """

    @staticmethod
    def forward(ctx: Any, sent: Tensor, way: _Way) -> Tensor:
        ctx.way, ctx.shape = way, sent.shape
        return way.finish()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        ctx.way.start(grad.contiguous(), back=True)
        return grad.new_empty(ctx.shape), None  # _Start takes the rows from `way`


class Exchange:
    """The rows of x [..., n, C] that other ranks own: `begin` sends, `end` gives them as [..., h, C]. Differentiable in x."""

    def __init__(self, plan: HaloPlan, x: Tensor) -> None:
        self._way = _Way(plan)
        self._shape = x.shape
        self._sent = _Start.apply(x, self._way)  # type: ignore[no-untyped-call]

    def end(self) -> Tensor:
        rows: Tensor = _Finish.apply(self._sent, self._way)  # type: ignore[no-untyped-call]
        return rows.view(rows.shape[0], *self._shape[:-2], self._shape[-1]).movedim(0, -2)


def halo_of(plan: HaloPlan, x: Tensor) -> Tensor:
    """The halo rows [..., h, C] of x [..., n, C]. Differentiable; a collective call, also backward."""
    return Exchange(plan, x).end()


class _Scatter(torch.autograd.Function):
    """The transpose of the exchange: rows of the halo are added to those of their owners."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, plan: HaloPlan, rows: int) -> Tensor:
        ctx.plan, ctx.shape = plan, x.shape
        way = _Way(plan)
        way.start(x.movedim(-2, 0).flatten(1), back=True)
        rows_back = way.finish()
        received = rows_back.view(rows_back.shape[0], *x.shape[:-2], x.shape[-1]).movedim(0, -2)
        result = x.new_zeros(*x.shape[:-2], rows, x.shape[-1])
        return result.index_add_(-2, plan.send_on(x.device), received)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return halo_of(ctx.plan, grad), None, None


def to_owners(plan: HaloPlan, x: Tensor) -> Tensor:
    """x [..., h, C] of the halo → [..., n, C]: what other ranks have for the rows of this one, added up. Differentiable."""
    result: Tensor = _Scatter.apply(x, plan, plan.layout.num_rows)  # type: ignore[no-untyped-call]
    return result


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return group.all_reduce(x.contiguous().clone())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.group.all_reduce(grad.contiguous().clone()), None


def all_sum(group: Group, x: Tensor) -> Tensor:
    """Σ over the ranks of x, on every rank; backward the sum of the gradients of all ranks."""
    result: Tensor = _Sum.apply(x, group)  # type: ignore[no-untyped-call]
    return result


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.group.all_reduce(grad.contiguous().clone()), None


def shared(group: Group, x: Tensor) -> Tensor:
    """x, which is the same on every rank; backward its gradient is summed over the ranks."""
    if group.size == 1 or not x.requires_grad:
        return x
    result: Tensor = _Shared.apply(x, group)  # type: ignore[no-untyped-call]
    return result


class _FromFirst(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return group.broadcast(x.contiguous().clone())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        total = ctx.group.all_reduce(grad.contiguous().clone())
        return total if ctx.group.rank == 0 else torch.zeros_like(total), None


def from_first(group: Group, x: Tensor) -> Tensor:
    """x of the first rank on every rank; backward the sum of all gradients goes to the first."""
    result: Tensor = _FromFirst.apply(x, group)  # type: ignore[no-untyped-call]
    return result


class _Tied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, other: Tensor) -> Tensor:
        ctx.other = (other.shape, other.dtype, other.device)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        shape, dtype, device = ctx.other
        return grad, torch.zeros(shape, dtype=dtype, device=device)


def tied(x: Tensor, other: Tensor) -> Tensor:
    """x; backward, `other` has the gradient 0, so that a rank that has no use for a result still takes part in its collectives."""
    result: Tensor = _Tied.apply(x, other)  # type: ignore[no-untyped-call]
    return result
