#!/usr/bin/env python3
"""Compiles every source file of the library, the models and the tool by itself, and every public header by itself.

The other builds of CI compile the files of a folder as one, which hides a name or an include that a file takes from its
neighbour. Syntax and types are checked, templates are instantiated, no code is made.

Parsing torch takes longer than everything else, so that its headers are precompiled, and only those that a file includes
itself or through headers of this project: nothing comes from a precompiled header that the file does not ask for. Files
named *kernel.cpp are compiled by themselves in every build, and are left out.

clang++-14 comes first where it is installed, for its precompiled headers hold torch's templates ready, which the build's
compiler instantiates in every file again: three times the time. What it refuses, the build's compiler decides, with the
warnings of the builds as errors: OpenMP's header, and C++20 that clang 14 does not know. Of clang's warnings, those are errors
that a neighbour can hide in a unity build: names that a file defines and does not use, or uses and does not define. The other
warnings depend on no neighbour, and are errors in the unity builds.

    scripts/check_alone.py             sources and public headers
    scripts/check_alone.py --tests     and the tests
    scripts/check_alone.py TEXT        only files whose path contains the text

JOBS sets the number of compilers at once.
"""

import concurrent.futures
import functools
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "alone"

# What is precompiled together; a file takes the first of which it includes everything.
LAYERS = ["torch/nn/module.h", "torch/nn/modules/linear.h", "torch/nn/modules/normalization.h"]
PRECOMPILED = {
    "tool": [*LAYERS, "CLI/CLI.hpp", "nlohmann/json.hpp"],
    "reports": [*LAYERS, "nlohmann/json.hpp"],
    "models_tests": [*LAYERS[:2], "gtest/gtest.h"],
    "layers": LAYERS,
    "models": LAYERS[:1],
    "autograd": ["torch/csrc/autograd/custom_function.h", "torch/library.h"],
    "functions": ["torch/csrc/autograd/custom_function.h"],
    "tests": ["ATen/ATen.h", "gtest/gtest.h"],
    "library": ["torch/library.h", "ATen/ATen.h"],
    "bridge": ["torch/custom_class.h"],
    "commands": ["CLI/CLI.hpp", "nlohmann/json.hpp", "ATen/ATen.h"],
    "aten": ["ATen/ATen.h"],
    "json": ["nlohmann/json.hpp"],
    "tensor": ["ATen/core/Tensor.h"],
}


CLANG = "clang++-14"
NEIGHBOURS = ["unused-function", "unused-const-variable", "unused-member-function", "unneeded-internal-declaration",
              "undefined-internal", "undefined-inline"]  # fmt: skip


class Compiler:
    """The flags that all files share, and those of each file, as the build has them."""

    def __init__(self, entries):
        words = shlex.split(next(entry["command"] for entry in entries if "/src/train/" in entry["file"]))
        self.system = [word for flag, word in zip(words, words[1:]) if flag == "-isystem"]
        kept = [w for w in words[1:] if w.startswith(("-std", "-W", "-O", "-f")) and w != "-Winvalid-pch" and "visibility" not in w]
        common = ["-DGTEST_HAS_PTHREAD=1"]  # as GTest's own flags have it: it must be alike for a precompiled header
        common += [word for folder in self.system for word in ("-isystem", folder)]
        self.judge = [words[0], *kept, *common]
        self.clang = shutil.which(CLANG)
        self.command = (
            [self.clang, *(w for w in kept if w.startswith("-std")), "-Wno-everything", "-fPIC", *common]
            if self.clang
            else self.judge
        )
        self.parts = {}  # by header of another library: the paths of all files that it includes, and its own

    def find_parts(self, header):
        run = subprocess.run(
            [*self.command, "-M", "-x", "c++", "-"], input=f"#include <{header}>\n", capture_output=True, text=True, check=True
        )
        self.parts[header] = run.stdout.replace("\\\n", " ").split()[1:]

    def has(self, header, part):
        return any(path.endswith(f"/{part}") for path in self.parts.get(header, ()))

    def precompile(self, name):
        """Makes build/alone/precompiled/NAME.h.pch or .gch."""
        header = BUILD / "precompiled" / f"{name}.h"
        header.parent.mkdir(exist_ok=True)
        header.write_text("".join(f"#include <{part}>\n" for part in PRECOMPILED[name]))
        made = ["-fpch-instantiate-templates", "-o", f"{header}.pch"] if self.clang else ["-o", f"{header}.gch"]
        return run(str(header), [*self.command, "-x", "c++-header", str(header), *made])

    def use(self, name):
        """The flags that take what was precompiled."""
        header = BUILD / "precompiled" / f"{name}.h"
        return ["-include-pch", f"{header}.pch"] if self.clang else ["-Winvalid-pch", "-include", str(header)]


def run(file, words):
    start = time.monotonic()
    done = subprocess.run(words, cwd=BUILD, capture_output=True, text=True, check=False)
    return file, done, time.monotonic() - start


@functools.cache
def included(file):
    """Headers of other libraries that a file includes, itself or through headers of this project."""
    found = set()
    for mark, name in re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', file.read_text(), re.M):
        places = [folder / name for folder in (file.parent, ROOT / "include", ROOT / "src", ROOT / "apps", ROOT / "tests")]
        ours = next((place for place in places if place.exists()), None)
        if ours is not None and (mark == '"' or name.startswith("topomask/")):
            found |= included(ours.resolve())
        elif mark == "<":
            found.add(name)
    return frozenset(found)


def precompiled_for(file, compiler):
    """The name of what is precompiled for a file, or none."""
    names = included(file)
    for name, parts in PRECOMPILED.items():
        if all(part in names or any(compiler.has(header, part) for header in names) for part in parts):
            return name
    return None


def checks(entries, compiler):
    """(file, what is precompiled for it, its flags) of every source and public header."""
    seen = set()  # a test program may compile a file of another target, too
    for entry in entries:
        file = pathlib.Path(entry["file"])
        if file in seen:
            continue
        seen.add(file)
        if file.suffix != ".cpp" or not file.is_relative_to(ROOT) or file.is_relative_to(BUILD) or file.name.endswith("kernel.cpp"):
            continue
        words = shlex.split(entry["command"])
        own = [word for word in words if word.startswith(("-I", "-D"))]
        own += [
            w
            for flag, folder in zip(words, words[1:])
            if flag == "-isystem" and folder not in compiler.system
            for w in (flag, folder)
        ]
        yield file, precompiled_for(file, compiler), [*own, str(file)]
    for header in sorted([*(ROOT / "include").rglob("*.h"), *(BUILD / "include").rglob("*.h")]):
        flags = [f"-I{ROOT / 'include'}", f"-I{BUILD / 'include'}", "-include", str(header), "-x", "c++", "/dev/null"]
        yield header, precompiled_for(header, compiler), flags


def main():
    tests = "--tests" in sys.argv[1:]
    wanted = next((text for text in sys.argv[1:] if not text.startswith("--")), "")
    if not (BUILD / "compile_commands.json").exists():
        sys.exit(f"check_alone: {BUILD} is not configured; `make alone` does so")
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    compiler = Compiler(entries)
    failed, count = [], 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:

        def report(results):
            nonlocal count
            for file, done, took in results:
                count += 1
                if os.environ.get("VERBOSE"):
                    print(f"{took:6.2f} s  {file}", flush=True)
                if done.returncode != 0 or done.stderr:
                    failed.append(os.path.relpath(file, ROOT))
                    print(f"{failed[-1]}:\n{done.stderr}", file=sys.stderr)

        list(pool.map(compiler.find_parts, {part for parts in PRECOMPILED.values() for part in parts}))
        jobs = [job for job in checks(entries, compiler) if wanted in str(job[0].relative_to(ROOT))]
        if not (tests or wanted):
            jobs = [job for job in jobs if not job[0].is_relative_to(ROOT / "tests")]
        report(pool.map(compiler.precompile, sorted({name for _, name, _ in jobs if name})))
        if failed:
            return 1
        precompiled = count

        def check(job):
            file, name, flags = job
            use = compiler.use(name) if name else []
            warnings = [f"-Werror={name}" for name in NEIGHBOURS if compiler.clang and file.suffix == ".cpp"]
            result = run(str(file), [*compiler.command, *warnings, "-fsyntax-only", *use, *flags])
            if compiler.clang and result[1].returncode != 0 and "[-Werror,-W" not in result[1].stderr:
                result = run(str(file), [*compiler.judge, "-fsyntax-only", *flags])
            return result

        report(pool.map(check, jobs))
    shutil.rmtree(BUILD / "precompiled")  # gigabytes
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    print(f"{count - precompiled} files compiled by themselves in {seconds:.0f} s of processor time; {len(failed)} failed")
    if failed:
        print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
