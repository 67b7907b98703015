#!/usr/bin/env python3
"""Checks that no folder of src/, apps/, include/ or tools/ includes one that stands above it.

The order is one line of docs/architecture.md, `core ← io ← … ← apps`: a folder may include itself and those to its left, and
of folders between the same two arrows (`a, b`) neither may include the other. A public header belongs to the folder that
defines what it declares. Prints every include that breaks the order as file:line, and fails where there is one.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "docs/architecture.md"
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}

# Public headers that are not named after their folder. Those that are not here either declare masks: a family of masks is
# one more header, and no list of families exists anywhere.
HEADERS = {
    "attention": ["attention.h", "feature_map.h", "planner.h"],
    "config": ["config.h", "run_config.h"],
    "core": ["export.h", "memory.h", "version.h"],
    "graph": ["graph.h", "graph_io.h"],
    "ops": ["mask_tiles.h", "tile_kind.h"],
    "sparse": ["sparse.h"],
    "theory": ["coefficients.h", "theory.h", "topomask.h"],
    "walks": ["walks.h"],
}
FOLDER_OF_HEADER = {header: folder for folder, headers in HEADERS.items() for header in headers}


def order(text):
    """The place of every folder, counted from the left."""
    lines = re.findall(r"^`(core ←[^`]*)`$", text, re.M)
    if len(lines) != 1:
        sys.exit(f"check_includes: {PAGE} must have one line `core ← … `, found {len(lines)}")
    places = {}
    for place, group in enumerate(lines[0].split("←")):
        for folder in group.split(","):
            places[folder.strip()] = place
    return places


def folder_of(path):
    """The folder to which an include such as graph/io/edge_list.h or topomask/nn/vit.h belongs; None for other libraries."""
    parts = path.split("/")
    if parts[0] != "topomask":
        return parts[0] if len(parts) > 1 else None
    if len(parts) > 2:
        return parts[1]
    return FOLDER_OF_HEADER.get(parts[1], "masks")


def includes(file):
    for number, line in enumerate(file.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<(topomask/[^>]+)>)', line)
        if found:
            yield number, found[1] or found[2]


def sources():
    """Every file with the folder it belongs to; programs of tools/ count as apps."""
    for top in ("src", "apps", "include", "tools"):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix not in SUFFIXES:
                continue
            inside = file.relative_to(ROOT / top).as_posix()
            if top in ("apps", "tools"):
                yield file, "apps"
            elif top == "include":
                yield file, folder_of(inside)
            elif "/" in inside:
                yield file, inside.split("/")[0]


def main():
    places = order((ROOT / PAGE).read_text())
    wrong = []
    for folder in sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir()):
        if folder not in places:
            wrong.append(f"{PAGE}: src/{folder} has no place in the order of includes")
    for file, folder in sources():
        for number, path in includes(file):
            other = folder_of(path)
            if other == folder or other is None or (folder == "apps" and (ROOT / "apps" / path).exists()):
                continue
            where = f"{file.relative_to(ROOT)}:{number}"
            if other not in places:
                wrong.append(f'{where}: "{path}" is in no folder of the order')
            elif places[other] >= places.get(folder, -1):
                wrong.append(f'{where}: {folder} may not include {other}, "{path}"')
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
