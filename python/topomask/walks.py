"""Random walks and the table of their visits."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _errors, _ops, _values
from ._structure import Structure, device_and_dtype, register
from .graph import Graph
from .pattern import Pattern


@dataclass(frozen=True, eq=False)
class WalkOptions(Structure):
    """How walks are made. Lengths are geometric with `halting_probability`, unless `fixed_hops` or `survival` is given.

    walkers: n ≥ 1 from every node. halting_probability: in (0, 1), before each hop. max_hops: no walk makes more.
    fixed_hops: every walk makes exactly this many. survival: float64 [K], P(L ≥ t). exact_hops: no halting in the first hops, so
    that the exact head of a series can take their place. coupling: "independent", "antithetic", "repelling" or
    "antithetic_repelling"; ensemble: repelling walkers come in ensembles of this many, 0: all n are one. proposal: "uniform",
    "weights" (proportional to |W|) or "given" (proportional to proposal_weights [entries of W]). group_products: keep what the
    debiased diagonal needs. first_walker: disjoint ranges of walkers of one seed are independent tables.
    """

    walkers: int = 4
    halting_probability: float = 0.5
    max_hops: int = 100
    fixed_hops: int | None = None
    survival: Tensor | None = None
    exact_hops: int = 0
    coupling: str = "independent"
    ensemble: int = 0
    proposal: str = "uniform"
    proposal_weights: Tensor | None = None
    group_products: bool = False
    seed: int = 0
    first_walker: int = 0

    def __post_init__(self) -> None:
        self._object  # noqa: B018  (types and names are checked)

    def _make(self) -> Any:
        fields = self._fields()
        fields["seed"] = _ops.signed(self.seed)
        fields["halting_probability"] = float(self.halting_probability)
        return _ops.new("WalkOptions", *fields.values())

    @classmethod
    def _of(cls, made: Any) -> WalkOptions:
        values = list(_ops.method(made, "fields"))
        values[11] %= 2**64
        return cls(*values)


register(WalkOptions)


@dataclass(frozen=True, eq=False, repr=False)
class WalkTable(Structure):
    """The visits of walks from every node, independent of f: for row i the triples (column, hop, load), ordered by column and
    then hop, with the loads summed over the walkers that met there.

    offsets int64 [N + 1]; columns int32 [T]; hops int16 [T]; loads float32 or float64 [T]; counts int32 [T]. product_*: with
    group_products, what the debiased diagonal needs. With R_t[i, v] = load(i, v, t)/n, E[R_t] = W^t, and Φ̂ = Σ_t f_t R_t: f stays
    learnable with no resampling. The same seed gives the same walks for any number of threads, on any device.

    Cost: O(T) memory, and O(T) for `to`. Gradient: masks and features have one in f; loads that `sample_walks` made of a graph whose
    weights require grad, on the CPU with uniform proposals, have one in these weights, for one backward pass.
    """

    offsets: Tensor
    columns: Tensor
    hops: Tensor
    loads: Tensor
    counts: Tensor
    product_offsets: Tensor | None
    product_hops: Tensor | None
    product_values: Tensor | None
    options: WalkOptions
    sampled: bool = True

    def _make(self) -> Any:
        tensors = [self.offsets, self.columns, self.hops, self.loads, self.counts]
        products = [self.product_offsets, self.product_hops, self.product_values]
        given = [tensor for tensor in products if tensor is not None]
        return _ops.static("WalkTable", "from_tensors", [*tensors, *given], self.options._object, self.sampled)

    @classmethod
    def _of(cls, made: Any) -> WalkTable:
        names = [
            "offsets",
            "columns",
            "hops",
            "loads",
            "counts",
            "product_offsets",
            "product_hops",
            "product_values",
        ]
        tensors: list[Tensor | None] = [*_ops.method(made, "tensors")]
        tensors += [None] * (len(names) - len(tensors))
        fields: dict[str, Any] = dict(zip(names, tensors))
        fields["options"] = WalkOptions._of(_ops.method(made, "options"))
        fields["sampled"] = _ops.method(made, "sampled")
        return cls._unchecked(fields)._with_object(made)

    @property
    def num_nodes(self) -> int:
        return self.offsets.shape[0] - 1

    @property
    def walkers(self) -> int:
        return self.options.walkers

    @property
    def max_hops(self) -> int:
        """The longest walk that the options allow: f has at most max_hops + 1 coefficients."""
        return int(_ops.method(self._object, "max_hops"))

    @property
    def groups(self) -> int:
        """The number of independent groups of walkers."""
        return int(_ops.method(self._object, "groups"))

    @property
    def independent_pairs(self) -> int:
        """The ordered pairs of walkers in different groups."""
        return int(_ops.method(self._object, "independent_pairs"))

    @property
    def has_group_products(self) -> bool:
        return self.product_values is not None

    @property
    def pattern(self) -> Pattern:
        """The entries of Φ̂."""
        return Pattern._of(_ops.method(self._object, "pattern"), self.num_nodes)

    @property
    def feature_offsets(self) -> Tensor:
        """int64 [entries + 1]: entry p of Φ̂ has the triples feature_offsets[p] … feature_offsets[p + 1] − 1."""
        offsets: Tensor = _ops.method(self._object, "feature_offsets")
        return offsets

    @property
    def kept_loads(self) -> Tensor:
        """The loads that features and masks compute from: on the CPU `loads`; on a GPU a copy made when they are first used, which
        later writes to `loads` do not reach."""
        loads: Tensor = _ops.method(self._object, "kept_loads")
        return loads

    @property
    def device(self) -> torch.device:
        return self.loads.device

    @property
    def dtype(self) -> torch.dtype:
        return self.loads.dtype

    def to(self, *args: Any, **kwargs: Any) -> WalkTable:
        """The same walks with loads in another precision, or on another device."""
        device, dtype = device_and_dtype(args, kwargs)
        return WalkTable._of(_ops.method(self._object, "to", device, dtype))

    def __repr__(self) -> str:
        return f"WalkTable({self.num_nodes} nodes, {self.walkers} walkers, {self.columns.shape[0]} visits, {str(self.dtype)[6:]})"


register(WalkTable)


def _options(options: WalkOptions | None, changes: dict[str, Any]) -> WalkOptions:
    _values.known("walks", changes, [field.name for field in fields(WalkOptions)])
    given = options._fields() if options is not None else {}
    return WalkOptions(**{**given, **changes})


def sample_walks(graph: Graph, options: WalkOptions | None = None, **changes: Any) -> WalkTable:
    """n walks from every node: `sample_walks(graph, walkers=4, halting_probability=0.5, seed=7)`; see WalkOptions.

    Cost: O(N·n·hops) time on all threads, O(visits) memory. Gradient: in the graph's weights where they require grad: ∂load/∂W_e =
    load/W_e, on the CPU with uniform proposals; the backward pass walks again. Other walks refuse such weights.
    """
    return WalkTable._of(_ops.static("WalkTable", "sample", graph._object, _options(options, changes)._object))


def extend_walks(table: WalkTable, graph: Graph, more_walkers: int) -> WalkTable:
    """The table that sample_walks gives for that many more walkers, bit for bit; only the new ones walk where that is possible.

    Cost: that of sampling more_walkers, and O(visits). Gradient: none; loads and weights that require grad are refused.
    """
    return WalkTable._of(_ops.method(table._object, "extend", graph._object, more_walkers))


class ResampledWalks(NamedTuple):
    """table: the new walks; rows: how many were sampled again."""

    table: WalkTable
    rows: int


def resample_walks(table: WalkTable, before: Graph, after: Graph, proposal_weights: Tensor | None = None) -> ResampledWalks:
    """The table that sample_walks gives on `after`, bit for bit, from the one on `before`: only rows that visit a changed node
    are sampled again. proposal_weights: those of `after`, [entries].

    Cost: that of sampling these rows, and O(visits). Gradient: none; loads and weights that require grad are refused.
    """
    made, rows = _ops.method(table._object, "resample", before._object, after._object, proposal_weights)
    return ResampledWalks(WalkTable._of(made), rows)


def walk_table_from_walks(
    graph: Graph, nodes: Tensor, options: WalkOptions | None = None, loads: Tensor | None = None, **changes: Any
) -> WalkTable:
    """A table of walks that you bring: nodes int64 or int32 [N, walkers, L], the start first, −1 after the end. loads: of the same
    shape, by the rule of sample_walks where left out.

    Cost: O(N·walkers·L), with a sort of each row. Gradient: none; weights and loads that require grad are refused.
    """
    chosen = _options(options, changes)
    return WalkTable._of(_ops.static("WalkTable", "from_walks", graph._object, nodes, chosen._object, loads))


def with_exact_head(walks: WalkTable, graph: Graph) -> WalkTable:
    """The table with the first options.exact_hops hops exact: R_t = W^t there, as the walks left them beyond.

    Cost: O(entries of the exact_hops-hop neighbourhoods·degree), and O(visits). Gradient: none; weights and loads that require
    grad are refused.
    """
    return WalkTable._of(_ops.method(walks._object, "with_exact_head", graph._object))


def walk_features(table: WalkTable, f: Tensor) -> Tensor:
    """Values of Φ̂ over table.pattern: Σ f_hop·load/n over the visits of each entry; f [K] → [entries], [H, K] → [H, entries].

    Cost: O(visits·H). Gradient: in f, any number of times; once in the loads where they require grad.
    """
    values: Tensor = _ops.method(table._object, "walk_features", f)
    return values


def adhoc_features(table: WalkTable, f: Tensor) -> Tensor:
    """The same without importance weights: counts in place of loads. f [K] → [entries], [H, K] → [H, entries].

    Cost: O(visits·H). Gradient: in f, any number of times.
    """
    values: Tensor = _ops.method(table._object, "adhoc_features", f)
    return values


def walk_frequencies(walks: WalkTable, discount: Tensor | None = None) -> Tensor:
    """F_h[i] = Σ over visits of i by walks from h of discount^t, over walks.pattern: [entries] or [H, entries]. discount: []
    or [H], 1 where left out.

    Cost: O(visits·H). Gradient: in the discount; loads that require grad are refused.
    """
    values: Tensor = _ops.method(walks._object, "walk_frequencies", discount)
    return values


def save_walks(table: WalkTable, path: str | os.PathLike[str]) -> None:
    """One file with a checksum; it appears under its name when it is whole. Cost: O(visits). Gradient: none is saved."""
    _ops.method(table._object, "save", os.fspath(path))


def load_walks(path: str | os.PathLike[str]) -> WalkTable:
    """The table of a file that save_walks wrote; one that is damaged in any byte is refused. Cost: O(size of the file), in time and
    memory. Gradient: none."""
    return WalkTable._of(_ops.static("WalkTable", "load", os.fspath(path)))


_errors.explain_arguments(__name__)
