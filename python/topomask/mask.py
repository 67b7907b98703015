"""Masks: linear operators M on node signals, as torch modules."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from . import _errors, _ops, _traced
from ._values import Values

if TYPE_CHECKING:
    from .graph import Graph

DEFAULT_MEMORY_BUDGET = 1 << 32
"""4 GiB: bytes beyond inputs and output that a route may take."""


def keeping_precision(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """What `.to`, `.half` and others do to the tensors of a module, for values of masks: these never fall to 16 bits."""

    def keeping(tensor: Tensor) -> Tensor:
        changed = fn(tensor)
        if tensor.is_floating_point() and changed.dtype in (torch.float16, torch.bfloat16):
            return tensor.to(changed.device)
        return changed

    return keeping


def tensors_of(mask: Mask) -> list[Tensor]:
    """The tensors of a mask and of masks inside it, and those in their attributes."""
    attributes = (tree_leaves([*vars(module).values()]) for module in mask.modules())
    return [leaf for leaves in attributes for leaf in leaves if isinstance(leaf, Tensor)]


class Mask(nn.Module):
    """A mask M ∈ R^{N×N}, or one per head, known by its products y = M·x with node signals x [..., N, C].

    What learns is a parameter. A mask of your own derives from this class, calls `super().__init__(size, heads)` and defines
    `matmul`, in torch operations:

        class Ring(tm.Mask):  # M = I + a·(shift left + shift right)
            def __init__(self, nodes):
                super().__init__(nodes)
                self.a = torch.nn.Parameter(torch.tensor(0.5))

            def matmul(self, x):  # [..., N, C] → [..., N, C]
                return x + self.a * (x.roll(1, -2) + x.roll(-1, -2))

    Its tensors stay float32 or float64 under `.half()` and `.bfloat16()`, as those of every mask, and so do products: x comes in
    the dtype of the first parameter.

    Attention and planning follow: M·x is applied to m·(D + 1) columns in slices. `matmul_transposed` may be defined too; by default
    it is the derivative of `matmul`. `work`, the multiply-adds of M·x for one column, tells the planner what a product costs; by
    default 16·N.

    Cost: m·(D + 1) products per slice of attention, O(N·D) memory. Gradient: once, in q, k, v and every parameter.
    """

    def __init__(self, size: int, heads: int = 1) -> None:
        super().__init__()
        self._size = _errors.count("size", size)
        self._heads = _errors.count("heads", heads, 1)

    @property
    def size(self) -> int:
        """N, the number of nodes."""
        return self._size

    @property
    def heads(self) -> int:
        """H; with H > 1 there is a matrix per head, and dimension −3 of what it is applied to must be H."""
        return self._heads

    @property
    def work(self) -> float:
        """Multiply-adds of M·x for one column x."""
        return 16.0 * self.size

    def matmul(self, x: Tensor) -> Tensor:
        """M·x for x [..., N, C], or [..., H, N, C] where heads = H > 1. Differentiable in x and every parameter."""
        raise NotImplementedError(f"{type(self).__name__}.matmul: a mask must define its product")

    def matmul_transposed(self, x: Tensor) -> Tensor:
        """Mᵀ·x for x as `matmul` takes it, [..., N, C] → [..., N, C], differentiable likewise. Cost: as matmul; twice that by default."""
        if torch.compiler.is_compiling():
            transposed: Tensor = torch.func.vjp(self.matmul, torch.zeros_like(x))[1](x)[0]
            return transposed
        learns = torch.is_grad_enabled()
        with torch.inference_mode(False), torch.enable_grad():
            probe = torch.zeros_like(x, requires_grad=True)
            return torch.autograd.grad(self.matmul(probe), probe, x, create_graph=learns)[0]

    def forward(self, x: Tensor) -> Tensor:
        """matmul(x), [..., N, C] → [..., N, C]."""
        return self.matmul(x)

    def dense(self) -> Tensor:
        """M itself, [N, N] or [H, N, N], differentiable. Cost: N columns of matmul, O(N²) memory: for tests and pictures."""
        like = next((t for t in (*self.parameters(), *self.buffers()) if t.is_floating_point()), torch.empty(0, device="cpu"))
        eye = torch.eye(self.size, dtype=like.dtype, device=like.device)
        return self.matmul(eye.expand(self.heads, -1, -1) if self.heads > 1 else eye)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        super()._apply(keeping_precision(fn), recurse)  # type: ignore[no-untyped-call]
        return self

    def frozen(self) -> Mask:
        """A copy with the values the parameters have now, which do not learn: later changes of this mask do not reach it.
        Cost: a copy of its tensors. Gradient: none."""
        # Functions of masks keep tensors that require grad as they are: deepcopy refuses those with a history, others would learn on.
        kept = {id(x): x for x in tensors_of(self) if x.requires_grad and not isinstance(x, nn.Parameter)}
        made = copy.deepcopy(self, {key: x.detach().clone() for key, x in kept.items()})
        made.requires_grad_(False)
        return made

    def plot(
        self, node: int = 0, *, head: int = 0, positions: Values | None = None, graph: Graph | None = None, ax: Any = None
    ) -> Any:
        """Draws what a node attends to, row `node` of M, with matplotlib, and returns the axes. Cost: one product with Mᵀ.

        On a grid it is an image; with positions [N, 2] or [N, 3] the nodes as points; otherwise over the layout of the graph that
        the mask was made of (or `graph`), up to 2 000 nodes; without a graph, over the number of the node.
        """
        from .plotting import plot_mask

        return plot_mask(self, node, head, positions, graph, ax)

    def _drawn_on(self) -> Graph | None:
        """The graph that pictures are drawn on, where there is one."""
        return None

    def _make(self) -> Any:
        """The C++ mask. It calls back for products; it is made again for each use, since it keeps this module alive."""
        parameters = list(self.parameters())
        dtype = parameters[0].dtype if parameters else None
        number = _ops.callback(self._answer)
        return _ops.static(
            "Mask", "python_mask", number, type(self).__name__, self.size, self.heads, dtype, parameters, float(self.work)
        )

    def _answer(self, method: str, arguments: list[Tensor]) -> list[Tensor]:
        if method == "parameter_gradients":
            return self._parameter_gradients(*arguments)
        with torch.no_grad():
            x = arguments[0] if self.heads > 1 else arguments[0].squeeze(1)
            y = self.matmul(x) if method == "matmul" else self.matmul_transposed(x)
            if not isinstance(y, Tensor) or y.shape != x.shape:
                got = list(y.shape) if isinstance(y, Tensor) else _errors.shown(y)
                raise ValueError(f"{type(self).__name__}.{method}: the result must be {list(x.shape)} as x is, got {got}")
            return [y if self.heads > 1 else y.unsqueeze(1)]

    def _parameter_gradients(self, x: Tensor, grad: Tensor) -> list[Tensor]:
        parameters = list(self.parameters())
        learnt = [p for p in parameters if p.requires_grad]
        if self.heads == 1:
            x, grad = x.squeeze(1), grad.squeeze(1)
        with torch.enable_grad():
            found = torch.autograd.grad(self.matmul(x.detach()), learnt, grad, allow_unused=True)
        gradients = dict(zip(map(id, learnt), found))
        filled = (gradients.get(id(p)) for p in parameters)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, filled)]

    @property
    def _object(self) -> Any:
        return self._make()

    def _attention(self) -> Any:
        """The method `attention` of the C++ mask."""
        return self._object.attention

    def _softmax_attention(self) -> Any:
        return self._object.softmax_attention

    def _traced_shape(self) -> tuple[int, int] | None:
        """N and H while torch.compile traces; None where they are not known."""
        return self.size, self.heads

    def _traced_attention(self, q: Tensor, k: Tensor, v: Tensor, how: _traced.How) -> Tensor:
        """Attention while torch.compile traces: plain torch operations around matmul."""
        return _traced.operator_attention(q, k, v, self, how)

    def extra_repr(self) -> str:
        return f"{self.size}, heads={self.heads}" if self.heads > 1 else str(self.size)


_errors.explain_arguments(__name__)
