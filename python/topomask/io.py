"""Readers and writers of graph files. Every size in a file is checked before memory is allocated for it."""

from __future__ import annotations

import os
import warnings

import torch

from . import _errors, _ops
from .graph import Graph

Path = str | os.PathLike[str]


def _read(
    format: str,
    path: Path,
    directed: bool,
    duplicates: str,
    self_loops: str,
    limits: tuple[int, int, int],
    dtype: torch.dtype,
    one_based: bool = False,
) -> Graph:
    """limits: max_nodes, max_edges, max_isolated. What the reader reports about the file becomes a warning at the caller's line."""
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{format}: dtype must be torch.float32 or torch.float64, got {dtype}")
    wide = dtype == torch.float64
    options = (directed, duplicates, self_loops, list(limits), wide, one_based)
    made, messages = _ops.static("Graph", "read", format, os.fspath(path), *options)
    for message in messages:
        warnings.warn(_errors.in_python(message), UserWarning, stacklevel=_errors.callers_level())
    return Graph._of(made)


def read_graph(
    path: Path,
    *,
    directed: bool = False,
    duplicates: str = "first",
    self_loops: str = "keep",
    max_nodes: int = 2**31,
    max_edges: int = 2**33,
    max_isolated: int = 2**24,
    dtype: torch.dtype = torch.float32,
    one_based: bool = False,
) -> Graph:
    """A graph file by its extension: .txt .edges .el (SNAP), .graph .metis (METIS), .mtx (Matrix Market), each with or without
    .gz; .npz.

    directed: for SNAP and npz. duplicates: "first", "sum" or "refuse"; self_loops: "keep", "drop" or "refuse". A file that has or
    promises more than max_nodes, max_edges or max_isolated is refused. dtype: of the weights, for text formats. one_based: for SNAP
    and npz, id 1 is node 0; a file whose ids begin at 1 is read as it stands without it, with a warning.

    Cost: O(size of the file + N + E) time and memory. Gradient: none.
    """
    limits = (max_nodes, max_edges, max_isolated)
    return _read("read_graph", path, directed, duplicates, self_loops, limits, dtype, one_based)


def read_snap(
    path: Path,
    *,
    directed: bool = False,
    duplicates: str = "first",
    self_loops: str = "keep",
    max_nodes: int = 2**31,
    max_edges: int = 2**33,
    max_isolated: int = 2**24,
    dtype: torch.dtype = torch.float32,
    one_based: bool = False,
) -> Graph:
    """SNAP edge list: `source target [weight]` per line, `#` comments; plain or gzip. Options as in `read_graph`.

    Cost: O(size of the file + N + E). Gradient: none.
    """
    limits = (max_nodes, max_edges, max_isolated)
    return _read("read_snap", path, directed, duplicates, self_loops, limits, dtype, one_based)


def read_metis(
    path: Path,
    *,
    duplicates: str = "first",
    max_nodes: int = 2**31,
    max_edges: int = 2**33,
    dtype: torch.dtype = torch.float32,
) -> Graph:
    """METIS graph file: header `N E [fmt [ncon]]`, then the 1-based neighbours of each node. Options as in `read_graph`.

    Cost: O(size of the file + N + E). Gradient: none.
    """
    return _read("read_metis", path, False, duplicates, "keep", (max_nodes, max_edges, 2**24), dtype)


def read_matrix_market(
    path: Path,
    *,
    duplicates: str = "first",
    self_loops: str = "keep",
    max_nodes: int = 2**31,
    max_edges: int = 2**33,
    max_isolated: int = 2**24,
    dtype: torch.dtype = torch.float32,
) -> Graph:
    """Matrix Market coordinate file, square; `general` is directed, `symmetric` undirected. Options as in `read_graph`.

    Cost: O(size of the file + N + E). Gradient: none.
    """
    return _read("read_matrix_market", path, False, duplicates, self_loops, (max_nodes, max_edges, max_isolated), dtype)


def read_npz(
    path: Path,
    *,
    directed: bool = False,
    duplicates: str = "first",
    self_loops: str = "keep",
    max_nodes: int = 2**31,
    max_edges: int = 2**33,
    max_isolated: int = 2**24,
    one_based: bool = False,
) -> Graph:
    """NumPy archive with `src`, `dst` [E], optional `weight` [E], whose dtype is kept, and `num_nodes`; or a square matrix that
    `scipy.sparse.save_npz` wrote (csr, csc, coo), as a directed graph. Options as in `read_graph`.

    Cost: O(size of the file + N + E). Gradient: none.
    """
    limits = (max_nodes, max_edges, max_isolated)
    return _read("read_npz", path, directed, duplicates, self_loops, limits, torch.float32, one_based)


def _write(format: str, graph: Graph, path: Path) -> None:
    _ops.method(graph._object, "write", format, os.fspath(path))


def write_snap(graph: Graph, path: Path) -> None:
    """SNAP edge list; gzip where the path ends in .gz. Directedness is not kept. Cost: O(N + E). Gradient: none."""
    _write("write_snap", graph, path)


def write_metis(graph: Graph, path: Path) -> None:
    """METIS; undirected, loop-free, weights positive integers or all 1. Cost: O(N + E). Gradient: none."""
    _write("write_metis", graph, path)


def write_matrix_market(graph: Graph, path: Path) -> None:
    """Matrix Market, gzip where the path ends in .gz. Cost: O(N + E). Gradient: none."""
    _write("write_matrix_market", graph, path)


def write_npz(graph: Graph, path: Path) -> None:
    """NumPy archive with `src`, `dst`, `weight` [E] and `num_nodes`. Cost: O(N + E). Gradient: none."""
    _write("write_npz", graph, path)


_WRITERS = {
    (".txt", ".edges", ".el"): write_snap,
    (".graph", ".metis"): write_metis,
    (".mtx",): write_matrix_market,
    (".npz",): write_npz,
}


def write_graph(graph: Graph, path: Path) -> None:
    """By extension, as `read_graph` reads it. The file appears under its name when it is whole, or not at all. Cost: O(N + E).
    Gradient: none."""
    name = os.fspath(path).lower().removesuffix(".gz")
    for endings, writer in _WRITERS.items():
        if name.endswith(endings):
            return writer(graph, path)
    known = " ".join(ending for endings in _WRITERS for ending in endings)
    raise ValueError(f"write_graph: path must end in one of {known}, got {os.fspath(path)}")


_errors.explain_arguments(__name__)
