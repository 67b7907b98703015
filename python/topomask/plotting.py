"""Pictures of graphs and of rows of masks, with matplotlib, which is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import _values
from ._values import Values
from .graph import Graph

if TYPE_CHECKING:
    from .mask import Mask

LAYOUT_LIMIT = 2000
"""Nodes up to which a layout is computed, in O(N²) memory."""


def _axes(op: str, ax: Any, three: bool = False) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(f"{op}: needs matplotlib; install it with pip install matplotlib") from None
    figure = pyplot.figure(figsize=(5, 5), layout="constrained")
    return figure.add_subplot(projection="3d" if three else None)


def grid_shape(graph: Graph) -> tuple[int, int] | None:
    """(rows, columns) where the graph is a two-dimensional grid in row-major order, as Graph.grid makes it. Cost: O(E).
    Gradient: none."""
    rows, columns = graph.edge_index()
    steps = (rows - columns).abs()
    nodes, width = graph.num_nodes, int(steps.max()) if steps.numel() else 0
    if width < 2 or nodes % width or graph.directed:
        return None
    height = nodes // width
    along = steps == 1
    crossing = torch.div(rows, width, rounding_mode="floor") != torch.div(columns, width, rounding_mode="floor")
    whole = bool((along | (steps == width)).all()) and not bool((along & crossing).any())
    return (height, width) if whole and graph.num_entries == 2 * (height * (width - 1) + (height - 1) * width) else None


def layout(graph: Graph) -> Tensor:
    """float64 [N, 2]: places that keep distances in hops as well as two coordinates can, near ones above all (classical scaling, then
    stress majorisation with weights 1/hops²). A grid lies as one.

    Cost: O(N²) memory and O(N³) time, refused beyond 2 000 nodes unless the graph is a grid. Gradient: none.
    """
    shape = grid_shape(graph)
    if shape is not None:
        nodes = torch.arange(graph.num_nodes, device="cpu")
        across, down = nodes % shape[1], torch.div(nodes, shape[1], rounding_mode="floor")
        return torch.stack([across, -down], 1).to(torch.float64)
    if graph.num_nodes > LAYOUT_LIMIT:
        raise ValueError(f"plot: positions [N, 2] must be given beyond {LAYOUT_LIMIT} nodes, got {graph.num_nodes} nodes")
    from .theory import shortest_paths

    cpu = graph.to(torch.device("cpu"))
    if cpu.directed:
        cpu = Graph.from_edge_index(cpu.edge_index(), num_nodes=cpu.num_nodes)
    hops = shortest_paths(cpu).to(torch.float64)
    reached = hops[torch.isfinite(hops) & (hops >= 0)]
    far = 1.5 * float(reached.max()) if reached.numel() else 1.0
    wanted = torch.where(torch.isfinite(hops) & (hops >= 0), hops, far)
    squares = wanted.square()
    centred = squares - squares.mean(0, keepdim=True) - squares.mean(1, keepdim=True) + squares.mean()
    values, vectors = torch.linalg.eigh(-centred / 2)
    return _majorised(vectors[:, -2:].flip(1) * values[-2:].flip(0).clamp(min=0).sqrt(), wanted)


def _majorised(at: Tensor, wanted: Tensor, rounds: int = 60) -> Tensor:
    """Places with less stress Σ w_ij(‖x_i − x_j‖ − d_ij)², w = 1/d²: every round solves for the places that the last ones ask for."""
    weights = torch.where(wanted > 0, wanted, 1.0).pow(-2).fill_diagonal_(0)
    shift = 1.0 / max(len(at), 1)
    inverse = torch.linalg.inv(torch.diag(weights.sum(1)) - weights + shift) if len(at) else weights
    for _ in range(rounds):
        pulls = weights * wanted / torch.cdist(at, at).clamp(min=1e-9)
        at = inverse @ (pulls.sum(1, keepdim=True) * at - pulls @ at)
        at = at - at.mean(0)
    return at


def _places(graph: Graph | None, positions: Values | None, nodes: int, op: str) -> Tensor | None:
    if positions is None:
        return None if graph is None else layout(graph)
    positions = _values.tensor(f"{op}: positions", positions)
    if positions.dim() != 2 or positions.shape[0] != nodes or positions.shape[1] not in (2, 3):
        raise ValueError(f"{op}: positions must be [{nodes}, 2] or [{nodes}, 3], got {list(positions.shape)}")
    return positions.detach().cpu().to(torch.float64)


def _scatter(ax: Any, at: Tensor, size: float, **style: Any) -> Any:
    return ax.scatter(*at.T.tolist(), s=size, **style)


def _point_size(nodes: int) -> float:
    return max(0.5, min(60.0, 6000.0 / max(nodes, 1)))


def plot_graph(graph: Graph, positions: Values | None = None, values: Values | None = None, ax: Any = None) -> Any:
    """`Graph.plot`: positions [N, 2] or [N, 3], values [N]. Cost: O(N + E), and that of `layout` without positions. Gradient: none."""
    at = _places(graph, positions, graph.num_nodes, "Graph.plot")
    assert at is not None
    ax = _axes("Graph.plot", ax, at.shape[1] == 3)
    rows, columns = graph.edge_index().cpu()
    once = rows < columns if not graph.directed else rows != columns
    ends = torch.stack([at[rows[once]], at[columns[once]]], 1).tolist()
    if at.shape[1] == 3:
        from mpl_toolkits.mplot3d.art3d import Line3DCollection as Lines
    else:
        from matplotlib.collections import LineCollection as Lines
    ax.add_collection(Lines(ends, colors="0.7", linewidths=0.6, zorder=1))
    colour: dict[str, Any] = {"c": "C0"}
    if values is not None:
        colour = {"c": _values.tensor("Graph.plot: values", values).detach().cpu().tolist(), "cmap": "viridis"}
    _scatter(ax, at, _point_size(graph.num_nodes), zorder=2, **colour)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_title(repr(graph), fontsize=9)
    return ax


def mask_row(mask: Mask, node: int, head: int) -> Tensor:
    """[N]: what node attends to, row `node` of M. Cost: one product with Mᵀ. Gradient: none."""
    if not 0 <= node < mask.size:
        raise ValueError(f"Mask.plot: node must be in [0, {mask.size}), got {node}")
    if not 0 <= head < mask.heads:
        raise ValueError(f"Mask.plot: head must be in [0, {mask.heads}), got {head}")
    like = next((t for t in (*mask.parameters(), *mask.buffers()) if t.is_floating_point()), torch.empty(0, device="cpu"))
    unit = torch.zeros(mask.size, 1, dtype=like.dtype, device=like.device)
    unit[node] = 1
    with torch.no_grad():
        if mask.heads > 1:
            return mask.matmul_transposed(unit.expand(mask.heads, -1, -1).contiguous())[head, :, 0]
        return mask.matmul_transposed(unit)[:, 0]


def plot_mask(mask: Mask, node: int, head: int, positions: Values | None, graph: Graph | None, ax: Any) -> Any:
    """`Mask.plot`: positions [N, 2] or [N, 3]. Cost: one product with Mᵀ, and that of `layout` where a graph has to be laid out.
    Gradient: none."""
    row = mask_row(mask, node, head).cpu().to(torch.float64)
    graph = mask._drawn_on() if graph is None else graph
    if graph is not None and graph.num_nodes != mask.size:  # tokens of its own, or a product
        graph = None
    shape = None if graph is None or positions is not None else grid_shape(graph)
    at = None if shape is not None else _places(graph, positions, mask.size, "Mask.plot")
    ax = _axes("Mask.plot", ax, at is not None and at.shape[1] == 3)
    ax.set_title(f"{type(mask).__name__}: what node {node} sees" + (f", head {head}" if mask.heads > 1 else ""), fontsize=9)
    if at is None and shape is None:
        ax.plot(row.tolist(), linewidth=1)
        ax.set_xlabel("node")
        return ax
    signed = bool((row < 0).any())
    reach = float(row.abs().max()) or 1.0
    from matplotlib.colors import PowerNorm

    if signed:
        style: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -reach, "vmax": reach}
    else:  # by the square root: a node weighs most itself, and the rest should be seen
        style = {"cmap": "viridis", "norm": PowerNorm(0.5, vmin=0.0, vmax=reach)}
    if shape is not None:
        drawn = ax.imshow(row.view(shape).tolist(), **style)
        ax.plot([node % shape[1]], [node // shape[1]], "rx", markersize=5)
    else:
        assert at is not None
        order = row.abs().argsort()  # the largest on top
        drawn = _scatter(ax, at[order], _point_size(mask.size), c=row[order].tolist(), **style)
        ax.scatter(*([float(x)] for x in at[node]), marker="x", c="red", s=30)
        ax.set_aspect("equal")
    ax.set_axis_off()
    ax.figure.colorbar(drawn, ax=ax, shrink=0.7)
    return ax
