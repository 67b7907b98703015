"""The torch that a wheel is built against: found for CMake (run as a program) and written into the wheel's metadata.

pip's build isolation hides installed packages from imports, but not from the file system: the interpreter is still the one that
topomask is being installed for, so torch is looked for in its site-packages.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import sys
import sysconfig


def torch_folder() -> pathlib.Path:
    """The folder of torch that holds include/ and lib/: TOPOMASK_TORCH, or that of this interpreter."""
    places = [os.environ.get("TOPOMASK_TORCH", "")]
    places += [str(pathlib.Path(sysconfig.get_path(kind)) / "torch") for kind in ("platlib", "purelib")]
    spec = importlib.util.find_spec("torch")
    places += list(spec.submodule_search_locations or []) if spec else []
    for place in filter(None, places):
        if (pathlib.Path(place) / "version.py").exists():
            return pathlib.Path(place)
    raise SystemExit(
        "topomask is built against an installed torch, and there is none for " + sys.executable + ": install torch first; "
        "TOPOMASK_TORCH names its folder where it is elsewhere"
    )


def torch_version() -> str:
    text = (torch_folder() / "version.py").read_text()
    found = re.search(r"__version__ = '(\d+\.\d+)", text)
    if not found:
        raise SystemExit(f"topomask: no version in {torch_folder() / 'version.py'}")
    return found[1]


def dynamic_metadata(field: str, settings: dict[str, object] | None = None, _project: object = None) -> list[str]:
    """scikit-build-core asks for the field `dependencies`: the C++ interface of torch holds within a minor version."""
    if field != "dependencies":
        raise RuntimeError(f"torch_found: field must be dependencies, got {field}")
    return [f"torch=={torch_version()}.*"]


if __name__ == "__main__":
    print(torch_folder())
