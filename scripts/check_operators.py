#!/usr/bin/env python3
"""Checks that the folders of src/ops have the files that docs/architecture.md names for an operator.

A folder has op.h and op.cpp, and what is registered for a dispatch key is in the file of that key: schemas and meta kernels in
op.cpp, gradients and autocast in autograd.cpp, CPU kernels in cpu.cpp, CUDA kernels in cuda.cpp. Files for nvcc are called
cuda_<part>.cu. `cuda` has what kernels share and `deprecated` has old forms of operators. Each operator has tests in the folder
of tests/ops with its name. Prints every file that differs or is missing, and fails where there is one.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE_OF_KEY = {
    "schema": "op.cpp",
    "Meta": "op.cpp",
    "CompositeImplicitAutograd": "op.cpp",
    "Autograd": "autograd.cpp",
    "AutocastCPU": "autograd.cpp",
    "AutocastCUDA": "autograd.cpp",
    "CPU": "cpu.cpp",
    "CUDA": "cuda.cpp",
}


def registered(text):
    """The dispatch keys for which a file registers kernels, and `schema` where it defines operators."""
    if re.search(r"^TORCH_LIBRARY(_FRAGMENT)?\(", text, re.M):
        yield "schema"
    yield from re.findall(r"^TORCH_LIBRARY_IMPL\(topomask, (\w+), m\)", text, re.M)


def main():
    wrong = []
    for folder in sorted(p for p in (ROOT / "src/ops").iterdir() if p.is_dir() and p.name != "cuda"):
        where = folder.relative_to(ROOT)
        wrong += [f"{where}: has no {name}" for name in ("op.h", "op.cpp") if not (folder / name).exists()]
        tests = ROOT / "tests/ops" / folder.name
        if not any(tests.glob("*.cpp")):
            wrong.append(f"{where}: has no tests in {tests.relative_to(ROOT)}")
        for file in sorted(folder.glob("*.cpp")):
            for key in registered(file.read_text()):
                if FILE_OF_KEY.get(key) != file.name:
                    wrong.append(f"{where}/{file.name}: {key} belongs in {FILE_OF_KEY.get(key, 'a file that is listed')}")
        for file in sorted(folder.glob("*.cu")):
            if not file.name.startswith("cuda_"):
                wrong.append(f"{where}/{file.name}: must be called cuda_<part>.cu")
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
