"""topomask: the operators of the C++ library, `torch.ops.topomask.*`, with what tracing needs beside them.

Importing loads the shared library: the one TOPOMASK_LIBRARY names, the one beside this package, or the one of a build in the
checkout this package lies in (build/release/lib).
"""

import os
import pathlib

import torch


def library_path():
    """The shared library that importing this package loads."""
    named = os.environ.get("TOPOMASK_LIBRARY")
    if named:
        return pathlib.Path(named)
    package = pathlib.Path(__file__).resolve().parent
    places = [package, package.parent.parent / "build" / "release" / "lib"]
    for place in places:
        if (place / "libtopomask.so").exists():
            return place / "libtopomask.so"
    raise ImportError("topomask: no libtopomask.so in " + " or ".join(map(str, places)) + "; TOPOMASK_LIBRARY names another")


torch.ops.load_library(library_path())

from topomask import fake  # noqa: E402, F401  (registers; needs the library)

ops = torch.ops.topomask
