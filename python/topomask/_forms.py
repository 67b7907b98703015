"""Masks as tensors and registered operators: what torch.compile and torch.export trace, by a route that was planned beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from . import _ops
from ._traced import How, fold, normalise
from .pattern import Pattern, rows_of_entries


class Form:
    """A mask as tensors and operators."""

    route = "features"

    def serves(self, how: How) -> bool:
        return how.what == "attention" and how.route in ("automatic", self.route)

    def chosen(self, how: How, q: Tensor, v: Tensor) -> Form | None:
        """The form that computes this call, where there is one."""
        return self if self.serves(how) else None

    def bordered(self, tokens: int, nodes: int) -> Form | None:
        """The form of this mask, over so many nodes, with global tokens around it; it is given the mask around."""
        return None

    def attention(self, mask: Any, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
        raise NotImplementedError


class Linear(Form):
    """M = 1: linear attention."""

    def attention(self, mask: Any, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        fq, fk, fv = q.to(wide), k.to(wide), v.to(wide)
        numerator = fq @ (fk.mT @ fv)
        denominator = (fq @ fk.sum(-2).unsqueeze(-1)).squeeze(-1)
        return normalise(numerator, denominator, how.eps).to(v.dtype)

    def bordered(self, tokens: int, nodes: int) -> Form:
        return self


class Causal(Form):
    """M_ij = 1 for j ≤ i: dense inside chunks of rows, a state [m, D + 1] between them."""

    route = "operator"

    def attention(self, mask: Any, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        size, chunk = q.shape[-2], max(64, q.shape[-1])
        chunks = -(-size // chunk)
        ones = torch.ones_like(v[..., :1], dtype=wide)
        inputs = q.to(wide), k.to(wide), torch.cat([v.to(wide), ones], -1)
        a, b, c = (nn.functional.pad(x, (0, 0, 0, chunks * chunk - size)).unflatten(-2, (chunks, chunk)) for x in inputs)
        before = nn.functional.pad((b.mT @ c)[..., :-1, :, :], (0, 0, 0, 0, 1, 0)).cumsum(-3)
        joint = ((a @ b.mT).tril() @ c + a @ before).flatten(-3, -2)[..., :size, :]
        return normalise(joint[..., :-1], joint[..., -1], how.eps).to(v.dtype)


class Sparse(Form):
    """Values over a pattern. A subclass says how the values follow from the parameters."""

    route = "sparse"

    def __init__(self, pattern: list[Tensor]) -> None:
        self.pattern = pattern
        # On a GPU the kernels take rows of q, k and v up to a width; wider ones go by another route, as in eager mode.
        self.most_row_bytes: int | None = _ops.static("Functions", "most_sparse_row_bytes") if pattern[1].is_cuda else None

    def values(self, mask: Any) -> Tensor:
        """[1 or H, entries]"""
        raise NotImplementedError

    def chosen(self, how: How, q: Tensor, v: Tensor) -> Form | None:
        wide = max(q.shape[-1], v.shape[-1]) * q.element_size()
        return self if self.serves(how) and (self.most_row_bytes is None or wide <= self.most_row_bytes) else None

    def serves(self, how: How) -> bool:
        return how.what in ("attention", "multiplicative") and how.route in ("automatic", "sparse")

    def attention(self, mask: Any, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
        heads = mask._traced_heads
        values = self.values(mask).reshape(heads, -1)
        folded = fold(q, heads), fold(k, heads), fold(v, heads)
        if how.what == "attention":
            return _ops.sparse_attention(*folded, values, self.pattern, how.eps).reshape(v.shape)
        scale = how.scale if how.scale is not None else 1.0 / math.sqrt(max(q.shape[-1], 1))
        return _ops.sparse_softmax_attention(*folded, values, self.pattern, scale, how.eps).reshape(v.shape)

    def bordered(self, tokens: int, nodes: int) -> Form:
        around = Border(tokens, tokens, tokens + nodes, tuple(range(tokens)))
        return BorderedSparse(self, *around.pattern(self.pattern, nodes, tiled=True))


@dataclass(frozen=True)
class Border:
    """Rows and columns of ones before those of a sparse matrix: the new rows have ones in their first `full` columns, the others in
    the columns `before`, both among all columns."""

    rows: int
    columns: int
    full: int
    before: tuple[int, ...]

    def pattern(self, inner: Sequence[Tensor], columns: int, *, tiled: bool) -> tuple[list[Tensor], Tensor]:
        """The pattern with the border, of one with so many columns, and the places of its entries there. tiled: with tiles, on a
        GPU."""
        offsets, device = inner[0], inner[0].device
        rows, width, above = len(offsets) - 1, len(self.before), self.rows * self.full
        row = torch.arange(rows + 1, device=device)
        starts = above + width * row + offsets
        places = torch.arange(len(inner[1]), device=device) + above + width * (rows_of_entries(offsets) + 1)
        whole = torch.empty(above + width * rows + len(inner[1]), dtype=torch.int32, device=device)
        whole[:above] = torch.arange(self.full, device=device).repeat(self.rows)
        before = torch.tensor(self.before, dtype=torch.int32, device=device)
        whole[(starts[:-1].unsqueeze(1) + torch.arange(width, device=device)).flatten()] = before.repeat(rows)
        whole[places] = inner[1] + self.columns
        heads = torch.arange(self.rows, device=device) * self.full
        pattern = Pattern(torch.cat([heads, starts]), whole, self.columns + columns)
        return pattern._operands(tiled=tiled), places


def spread(values: Tensor, places: Tensor, pattern: Sequence[Tensor]) -> Tensor:
    """Values [..., entries] at their places among the ones of a border."""
    return values.new_ones(*values.shape[:-1], pattern[1].shape[0]).index_copy(-1, places, values)


class BorderedSparse(Sparse):
    """Another sparse form with global tokens around it."""

    def __init__(self, inner: Sparse, pattern: list[Tensor], places: Tensor) -> None:
        super().__init__(pattern)
        self.inner, self.places = inner, places

    def values(self, mask: Any) -> Tensor:
        return spread(self.inner.values(mask.mask), self.places, self.pattern)


class GivenValues(Sparse):
    """The values are the parameter, in the order the user gave them in."""

    def __init__(self, pattern: list[Tensor], order: Tensor | None) -> None:
        super().__init__(pattern)
        self.order = order

    def values(self, mask: Any) -> Tensor:
        values: Tensor = mask.values
        return values if self.order is None else values.index_select(-1, self.order)


class Constant(Sparse):
    """Values without parameters."""

    def __init__(self, pattern: list[Tensor], constant: Tensor) -> None:
        super().__init__(pattern)
        self.constant = constant

    def values(self, mask: Any) -> Tensor:
        return self.constant


class Series(Sparse):
    """Σ_k α_k W^k from the powers of W, [K, entries]."""

    def __init__(self, pattern: list[Tensor], powers: Tensor) -> None:
        super().__init__(pattern)
        self.powers = powers

    def values(self, mask: Any) -> Tensor:
        alpha: Tensor = mask.alpha
        return alpha.reshape(-1, alpha.shape[-1]) @ self.powers


class Walked(Sparse):
    """Φ̂, or Φ̂Φ̂ᵀ where `product` is given, from visits."""

    def __init__(
        self, visits: tuple[Tensor, Tensor, Tensor], walkers: int, pattern: list[Tensor], product: list[Tensor] | None
    ) -> None:
        super().__init__(pattern if product is None else product)
        self.hops, self.loads, self.feature_offsets = visits
        self.scale = 1.0 / walkers
        self.features, self.product = pattern, product

    def phi(self, mask: Any) -> Tensor:
        f: Tensor = mask.f
        return _ops.walk_features(f.reshape(-1, f.shape[-1]), self.hops, self.loads, self.feature_offsets, self.scale)

    def values(self, mask: Any) -> Tensor:
        phi = self.phi(mask)
        return phi if self.product is None else _ops.sparse_gram(phi, self.features, self.product)


class Factored(Form):
    """M = LRᵀ without forming it: two sparse products per feature."""

    def __init__(self, features: int) -> None:
        self.features = features  # columns of L and R

    def factors(self, mask: Any) -> tuple[Tensor, list[Tensor], Tensor, list[Tensor]]:
        """Values and pattern of L and of R."""
        raise NotImplementedError

    def patterns(self) -> tuple[list[Tensor], list[Tensor]]:
        """Those of L and of R."""
        raise NotImplementedError

    def bordered(self, tokens: int, nodes: int) -> Form:
        # [1 1; 1 M] = (1,0)(1,1)ᵀ + (0,1)(1,0)ᵀ + (0,L)(0,R)ᵀ: two more features.
        sides = Border(tokens, 2, 1, (1,)), Border(tokens, 2, 2, (0,))
        bordered = (side.pattern(own, self.features, tiled=False) for side, own in zip(sides, self.patterns()))
        return BorderedFactors(self, *bordered)

    def attention(self, mask: Any, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
        heads = mask._traced_heads
        folded = fold(q, heads), fold(k, heads), fold(v, heads)
        left, left_pattern, right, right_pattern = self.factors(mask)
        numerator, denominator = _ops.factored_product(*folded, left, left_pattern, right, right_pattern)
        return normalise(numerator, denominator, how.eps).to(v.dtype).reshape(v.shape)


class WalkedFeatures(Factored):
    """Φ̂Φ̂ᵀ."""

    def __init__(self, walked: Walked, nodes: int) -> None:
        super().__init__(nodes)
        self.walked = walked

    def patterns(self) -> tuple[list[Tensor], list[Tensor]]:
        return self.walked.features, self.walked.features

    def factors(self, mask: Any) -> tuple[Tensor, list[Tensor], Tensor, list[Tensor]]:
        phi, pattern = self.walked.phi(mask), self.walked.features
        return phi, pattern, phi, pattern


class BorderedFactors(Factored):
    """Another factored form with global tokens around it."""

    def __init__(self, inner: Factored, left: tuple[list[Tensor], Tensor], right: tuple[list[Tensor], Tensor]) -> None:
        super().__init__(inner.features + 2)
        self.inner, self.left, self.right = inner, left, right

    def patterns(self) -> tuple[list[Tensor], list[Tensor]]:
        return self.left[0], self.right[0]

    def factors(self, mask: Any) -> tuple[Tensor, list[Tensor], Tensor, list[Tensor]]:
        left, _, right, _ = self.inner.factors(mask.mask)
        (left_pattern, left_places), (right_pattern, right_places) = self.left, self.right
        values = spread(left, left_places, left_pattern), spread(right, right_places, right_pattern)
        return values[0], left_pattern, values[1], right_pattern


TILES = ("ones", "causal", "offsets", "matrix", "places", "hamming", "factors")
"""TileKind of C++, by number."""

_WEIGHTINGS = ("attention", "additive", "multiplicative")  # Weighting of C++, by number


MOST_FUSED_WIDTH = int(_ops.static("Functions", "most_fused_width"))
"""The widest rows of the fused kernels on a GPU."""


def fused_kernel(dtype: torch.dtype, features: int, value_dim: int, device: str) -> bool:
    """Whether there is one: on a GPU not for float64 and for rows that are wider. C++ has the same rule, which torch.compile cannot
    ask while it traces."""
    if device == "cpu":
        return True
    return dtype != torch.float64 and 1 <= features <= MOST_FUSED_WIDTH and 1 <= value_dim <= MOST_FUSED_WIDTH


@dataclass(frozen=True)
class Tiles(Form):
    """Tiles of M that are made where they are used, MaskTiles of C++. kernel: for kernel attention too, not for softmax alone."""

    kind: str
    index: Tensor | None = None
    shift: int = 0
    globals: int = 0
    kernel: bool = True
    depth: int = 0  # how many masks around the one that the values are of
    route = "fused"

    def values(self, mask: Any) -> Tensor:
        """[1 or H, …] for kinds that have values."""
        return torch.empty(0)

    def serves(self, how: How) -> bool:
        if how.what not in _WEIGHTINGS:
            return False
        return how.route == "fused" or (how.route == "automatic" and (self.kernel or how.what != "attention"))

    def chosen(self, how: How, q: Tensor, v: Tensor) -> Form | None:
        return self if fused_kernel(q.dtype, q.shape[-1], v.shape[-1], q.device.type) and self.serves(how) else None

    def attention(self, mask: Any, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
        heads, own = mask._traced_heads, mask
        for _ in range(self.depth):
            own = own.mask
        scale = how.scale if how.scale is not None else 1.0 / math.sqrt(max(q.shape[-1], 1))
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        none = q.new_empty(0, dtype=wide)
        values = none if self.kind in ("ones", "causal") else self.values(own)
        index = q.new_empty(0, dtype=torch.int32) if self.index is None else self.index
        numbers = TILES.index(self.kind), self.shift, self.globals, _WEIGHTINGS.index(how.what)
        folded = fold(q, heads), fold(k, heads), fold(v, heads)
        return _ops.fused_attention(*folded, values, none, index, *numbers, scale, how.eps).reshape(v.shape)

    def bordered(self, tokens: int, nodes: int) -> Form:
        return replace(self, globals=self.globals + tokens, depth=self.depth + 1)


@dataclass(frozen=True)
class MatrixTiles(Tiles):
    """The parameter is the matrix."""

    def values(self, mask: Any) -> Tensor:
        matrix: Tensor = mask.matrix
        return matrix.reshape(-1, *matrix.shape[-2:])


@dataclass(frozen=True)
class DistanceTiles(Tiles):
    """The parameter is a value for each distance."""

    def values(self, mask: Any) -> Tensor:
        bias: Tensor = mask.bias
        return bias.reshape(-1, bias.shape[-1])


@dataclass(frozen=True)
class OffsetTiles(Tiles):
    """The parameter is a value for each offset on a grid, or for each distance, or its logarithm."""

    parameter: str = "offsets"
    logarithmic: bool = False
    distance: Tensor | None = None  # int64 [L], of each offset
    allowed: Tensor | None = None  # [L], 1 or 0, where there is a direction

    def values(self, mask: Any) -> Tensor:
        given: Tensor = getattr(mask, self.parameter)
        values = given.exp() if self.logarithmic else given
        if self.distance is None:
            values = values.reshape(mask._traced_heads, -1)
        else:
            values = values.reshape(-1, values.shape[-1]).index_select(-1, self.distance)
        return values if self.allowed is None else values * self.allowed.to(values.dtype)


class Choice(Form):
    """The first form that can compute a call."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.forms = forms

    def serves(self, how: How) -> bool:
        return any(form.serves(how) for form in self.forms)

    def chosen(self, how: How, q: Tensor, v: Tensor) -> Form | None:
        for form in self.forms:
            found = form.chosen(how, q, v)
            if found is not None:
                return found
        return None

    def attention(self, mask: Any, q: Tensor, k: Tensor, v: Tensor, how: How) -> Tensor:
        found = self.chosen(how, q, v)
        assert found is not None
        return found.attention(mask, q, k, v, how)

    def bordered(self, tokens: int, nodes: int) -> Form | None:
        found = [around for form in self.forms if (around := form.bordered(tokens, nodes)) is not None]
        return Choice(found) if found else None
