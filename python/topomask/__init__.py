"""topomask: transformer attention modulated by a function of a graph, without ever forming the N×N matrix.

    import torch, topomask as tm

    graph = tm.Graph.grid(128, 128)
    mask = tm.GRFMask(graph, walkers=4, halting_probability=0.5, heads=8)  # an nn.Module; mask.f is learnable
    out = tm.attention(q, k, v, mask)  # [..., N, D]; gradients to q, k, v and f
    print(tm.explain(q, k, v, mask))  # the routes, their cost, the choice and why

Masks, estimators, samplers and theory have the names of the C++ library; docs/python.md has the guide.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _library
from ._exports import *  # noqa: F403
from ._exports import __all__ as _exported
from ._ops import _ops as ops

if TYPE_CHECKING:
    from . import dist as dist
    from . import episodes as episodes
    from . import hf as hf
    from . import nn as nn
    from . import plotting as plotting
    from . import pyg as pyg
    from . import timm as timm
    from . import train as train

library_path = _library.library_path
__version__ = _library.build_of(_library.library_path()).get("version", "0.1.0")

_LAZY = ("dist", "episodes", "nn", "pyg", "hf", "timm", "plotting", "train")


if not TYPE_CHECKING:  # type checkers see the imports above, and that there is nothing else

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LAZY})


__all__ = [*_exported, *_LAZY, "library_path", "ops"]
