"""The torch that a wheel is built against: found for CMake (run as a program) and written into the wheel's metadata.

pip's build isolation hides installed packages from imports, but not from the file system: the interpreter is still the one that
topomask is being installed for, so torch is looked for in the folders from which that interpreter imports.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import site
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[2]


def sees_the_system() -> bool:
    """Whether the interpreter imports from outside its prefix: no virtual environment, or one with --system-site-packages."""
    if sys.prefix == sys.base_prefix:
        return True
    settings = pathlib.Path(sys.prefix) / "pyvenv.cfg"
    return settings.exists() and bool(re.search(r"^include-system-site-packages\s*=\s*true", settings.read_text(), re.M | re.I))


def package_folders() -> list[str]:
    """The folders that installed packages are in, the user's own included, which build isolation turns off."""
    folders = [sysconfig.get_path(kind) for kind in ("platlib", "purelib")]
    if sees_the_system():
        folders += [site.getusersitepackages(), *site.getsitepackages([sys.base_prefix, sys.base_exec_prefix])]
    return folders


def torch_folder() -> pathlib.Path:
    """The folder of torch that holds include/ and lib/: TOPOMASK_TORCH, or that of this interpreter."""
    named = os.environ.get("TOPOMASK_TORCH")
    if named:
        if (pathlib.Path(named) / "version.py").exists():
            return pathlib.Path(named)
        raise SystemExit(f"topomask: TOPOMASK_TORCH must be a folder of torch, with version.py in it, got {named}")
    places = [pathlib.Path(folder) / "torch" for folder in package_folders()]
    spec = importlib.util.find_spec("torch")
    places += [pathlib.Path(place) for place in spec.submodule_search_locations or []] if spec else []
    for place in places:
        if (place / "version.py").exists():
            return place
    raise SystemExit(
        f"topomask is built against an installed torch, and there is none for {sys.executable}: install torch first. uv and "
        "`python -m build` build with an interpreter of their own, which does not have it: install scikit-build-core next to torch, "
        "and pass --no-build-isolation (python -m build: --no-isolation). TOPOMASK_TORCH names torch's folder where it is elsewhere"
    )


def torch_says(name: str) -> str:
    """A value of torch/version.py, "" for None."""
    file = torch_folder() / "version.py"
    found = re.search(rf"^{name}\b.*?=\s*(?:'([^']*)'|None)", file.read_text(), re.M)
    if not found:
        raise SystemExit(f"topomask: no {name} in {file}")
    return found[1] or ""


def torch_version() -> str:
    """The minor version, such as 2.13."""
    return ".".join(torch_says("__version__").split(".")[:2])


def label() -> str:
    """What tells builds of one version apart, in file names too: the minor version of torch, and CPU or the version of CUDA."""
    options = f"{os.environ.get('CMAKE_ARGS', '')} {os.environ.get('SKBUILD_CMAKE_DEFINE', '')}"
    given = re.findall(r"(?:\b|-D)TOPOMASK_CUDA(?::\w+)?=(\w+)", options)
    cuda = bool(given) and given[-1].upper() in ("ON", "1", "TRUE", "YES", "Y")
    return f"torch{torch_version()}." + (f"cu{torch_says('cuda').replace('.', '')}" if cuda else "cpu")


def version() -> str:
    """That of CMakeLists.txt, with the label."""
    found = re.search(r"^project\(topomask VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)
    assert found
    return f"{found[1]}+{label()}"


def dynamic_metadata(field: str, settings: dict[str, object] | None = None, _project: object = None) -> list[str] | str:
    """scikit-build-core asks for `version` and `dependencies`: the C++ interface of torch holds within a minor version."""
    if field == "version":
        return version()
    if field != "dependencies":
        raise RuntimeError(f"torch_found: field must be version or dependencies, got {field}")
    return [f"torch=={torch_version()}.*"]


if __name__ == "__main__":
    print(label() if sys.argv[1:] == ["--label"] else torch_folder())
