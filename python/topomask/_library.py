"""Finds the shared library, compares what it was built against with the torch that is installed, and loads it."""

from __future__ import annotations

import os
import pathlib
import runpy

import torch


def library_path() -> pathlib.Path:
    """The shared library: the one TOPOMASK_LIBRARY names, the one next to this package, or that of a build in the checkout."""
    named = os.environ.get("TOPOMASK_LIBRARY")
    if named:
        return pathlib.Path(named)
    package = pathlib.Path(__file__).resolve().parent
    places = [package, package.parent.parent / "build" / "release" / "lib"]
    for place in places:
        if (place / "libtopomask.so").exists():
            return place / "libtopomask.so"
    raise ImportError("topomask: no libtopomask.so in " + " or ".join(map(str, places)) + "; TOPOMASK_LIBRARY names another")


def build_of(library: pathlib.Path) -> dict[str, str]:
    """What `_build.py` next to the library contains: `torch`, the version it was built against, and `cuda`. Empty without one."""
    file = library.parent / "_build.py"
    if not file.exists():
        return {}
    return {name: str(value) for name, value in runpy.run_path(str(file)).items() if not name.startswith("_")}


_AGAIN = "build topomask again for the torch you have with pip install --force-reinstall --no-deps . in a clone of it"


def mismatch(build: dict[str, str], installed: str, cuda: str | None = None) -> str | None:
    """One sentence if a library of that build cannot be loaded together with that torch, whose CUDA version is `cuda`: their C++
    interfaces differ, or the library needs a CUDA runtime that this torch does not bring."""
    built = build.get("torch", "")
    wanted = ".".join(built.split(".")[:2])
    if built and built.split(".")[:2] != installed.split("+")[0].split(".")[:2]:
        return (
            f"topomask: torch {installed} is installed, but this topomask was built for torch {wanted}: "
            f'install it with pip install "torch=={wanted}.*", or {_AGAIN}'
        )
    needed = build.get("cuda", "False")
    if needed in ("", "False", "None"):  # a library without CUDA works with any torch of that version
        return None
    major = needed.split(".")[0] if needed[0].isdigit() else None  # True: the version was not recorded
    if cuda is not None and major in (None, cuda.split(".")[0]):
        return None
    return (
        f"topomask: torch {installed} is installed, which is built {f'for CUDA {cuda}' if cuda else 'without CUDA'}, but this "
        f"topomask was built for CUDA{f' {needed}' if major else ''}: install a torch{f' {wanted}' if wanted else ''} built for "
        f"CUDA{f' {major}' if major else ''}, or {_AGAIN}"
    )


def load() -> None:
    library = library_path()
    sentence = mismatch(build_of(library), torch.__version__, torch.version.cuda)
    if sentence:
        raise ImportError(sentence)
    torch.ops.load_library(library)
