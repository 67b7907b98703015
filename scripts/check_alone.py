#!/usr/bin/env python3
"""Compiles every source file of the library, the models and the tool by itself, and every public header by itself.

The other builds of CI compile the files of a folder as one, which hides a name or an include that a file takes from its
neighbour. Only syntax and types are checked: no code is made. Sources use the precompiled headers of the preset `alone`;
public headers are compiled without one, as a user does.

    scripts/check_alone.py [text]     only files whose path contains the text

JOBS sets the number of compilers at once.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "alone"


def commands():
    """Every command of the build by its file, turned into a check."""
    if not (BUILD / "compile_commands.json").exists():
        sys.exit(f"check_alone: {BUILD} is not configured; `make alone` does so and makes the precompiled headers")
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        if file.suffix != ".cpp" or "cmake_pch" in file.name:
            continue
        words = shlex.split(entry["command"])
        output = words.index("-o")
        del words[output : output + 2]
        yield str(file.relative_to(ROOT)), [word for word in words if word != "-c"] + ["-fsyntax-only"]


def header_commands(sources):
    """A public header is compiled with the flags of a source that sees the models' libraries, without a precompiled header."""
    words = next(words for file, words in sources if file.startswith("src/train/"))
    plain, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word == "-include":
            skip = True
        elif not word.endswith(".cpp") and word != f"-I{ROOT / 'src'}":
            plain.append(word)
    for header in sorted((ROOT / "include").rglob("*.h")):
        yield str(header.relative_to(ROOT)), [*plain, "-include", str(header), "-x", "c++", "/dev/null"]


def check(job):
    file, words = job
    start = time.monotonic()
    done = subprocess.run(words, cwd=BUILD, capture_output=True, text=True, check=False)
    return file, done, time.monotonic() - start


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    sources = list(commands())
    jobs = [job for job in [*sources, *header_commands(sources)] if wanted in job[0]]
    failed, seconds = [], 0.0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        for file, done, took in pool.map(check, jobs):
            seconds += took
            if done.returncode != 0 or done.stderr:
                failed.append(file)
                print(f"{file}:\n{done.stderr}", file=sys.stderr)
    print(f"{len(jobs)} files compiled by themselves, {seconds:.0f} s of compiling; {len(failed)} failed {' '.join(failed)}".rstrip())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
