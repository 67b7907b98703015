"""The halo exchange and reductions as autograd functions. A rank that differentiates its loss takes part in the exchanges of all
others: every rank must run the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
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
        if self.pending is None:
            raise RuntimeError(
                "halo_exchange: every rank must use its halo in what it differentiates, since gradients of the halo travel between "
                "all ranks; on this rank none were sent"
            )
        received = self.pending.wait()
        self.pending = None
        return received


class _Start(torch.autograd.Function):
    """Forward: starts to send rows of xs, each [..., n, C]. Backward: waits for their gradients, and adds them up.

    Returns what is sent, then for each x itself, then for each x its rows `used`. What is computed from these instead of x has
    gradients that come here, where rows are added to one tensor: sums of zeros with few rows take more time than those rows.
    """

    @staticmethod
    def forward(ctx: Any, way: _Way, used: Tensor | None, *xs: Tensor) -> tuple[Tensor, ...]:
        ctx.way, ctx.used, ctx.shapes = way, used, [x.shape for x in xs]
        ctx.set_materialize_grads(False)
        index = way.plan.send_on(xs[0].device)
        rows = [x.index_select(-2, index) for x in xs]
        sent = (rows[0] if len(rows) == 1 else torch.cat(rows, -1)).movedim(-2, 0).flatten(1)  # also where no row is sent
        way.start(sent, back=False)
        seen = [] if used is None else [x.index_select(-2, used) for x in xs]
        return sent, *(x.view_as(x) for x in xs), *seen

    @staticmethod
    def backward(ctx: Any, sent: Tensor | None, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        way, shapes, count = ctx.way, ctx.shapes, len(ctx.shapes)
        totals = list(grads[:count])
        for place, grad in enumerate(grads[count:]):
            if grad is not None and ctx.needs_input_grad[2 + place]:
                totals[place] = _added(totals[place], ctx.used, grad, shapes[place])
        rows = way.finish()  # what `sent` is once the exchange is over
        index = way.plan.send_on(rows.device)
        parts = (
            rows.view(rows.shape[0], *shapes[0][:-2], sum(shape[-1] for shape in shapes))
            .movedim(0, -2)
            .split([shape[-1] for shape in shapes], -1)
        )
        for place, part in enumerate(parts):
            if ctx.needs_input_grad[2 + place]:
                own = totals[place] is not None and totals[place] is not grads[place]
                totals[place] = _added(totals[place], index, part, shapes[place], in_place=own)
            else:
                totals[place] = None
        return None, None, *totals


def _added(total: Tensor | None, index: Tensor, rows: Tensor, shape: torch.Size, in_place: bool = False) -> Tensor:
    """total [..., n, C], 0 where None, with `rows` added to its rows `index`."""
    if total is None:
        return rows.new_zeros(shape).index_add_(-2, index, rows)
    return total.index_add_(-2, index, rows) if in_place else total.index_add(-2, index, rows)


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
    """The rows of xs, each [..., n, C], that other ranks own: making one sends, `end` gives them, [..., h, C] for each x.
    Differentiable in xs.

    own: xs, and used: their rows `used` (xs where that is None), to compute with in the place of xs: then their gradients and
    those of what was sent are added up in one tensor.
    """

    def __init__(self, plan: HaloPlan, xs: Sequence[Tensor], used: Tensor | None = None) -> None:
        self._way = _Way(plan)
        self._leading, self._widths = xs[0].shape[:-2], [x.shape[-1] for x in xs]
        made: tuple[Tensor, ...] = _Start.apply(self._way, used, *xs)  # type: ignore[no-untyped-call]
        self._sent, self.own = made[0], made[1 : 1 + len(xs)]
        self.used = self.own if used is None else made[1 + len(xs) :]

    def end(self) -> tuple[Tensor, ...]:
        rows: Tensor = _Finish.apply(self._sent, self._way)  # type: ignore[no-untyped-call]
        width = sum(self._widths)
        halo: tuple[Tensor, ...] = rows.view(rows.shape[0], *self._leading, width).movedim(0, -2).split(self._widths, -1)
        return halo


def halo_of(plan: HaloPlan, x: Tensor) -> Tensor:
    """The halo rows [..., h, C] of x [..., n, C]. Differentiable; a collective call, also backward."""
    return Exchange(plan, [x]).end()[0]


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
