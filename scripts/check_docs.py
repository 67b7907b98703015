#!/usr/bin/env python3
"""Checks the Markdown pages: lines of at most 120 columns outside of tables and code, and relative links that resolve.

scripts/check_docs.py          says what is wrong, and fails where anything is
scripts/check_docs.py --wrap   wraps the paragraphs that have a long line, then checks
"""

import functools
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 120
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")])
LIST_ITEM = re.compile(r"(\s*)([-*]|\d+\.)\s+")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def prose(lines):
    """(first, last + 1) of every paragraph or list item: what may be wrapped."""
    blocks, start, fenced, in_list = [], None, False, False
    for number, line in enumerate([*lines, ""]):
        text = line.strip()
        fence = text.startswith("```")
        indented = line.startswith("    ") and not in_list
        other = fence or fenced or not text or text.startswith(("|", "#", "<!--", "![")) or indented
        if start is not None and (other or LIST_ITEM.match(line)):
            blocks.append((start, number))
            start = None
        if fence:
            fenced = not fenced
        elif not other:
            in_list = bool(LIST_ITEM.match(line)) or (in_list and line.startswith(" "))
            if start is None:
                start = number
        elif text and not indented:
            in_list = in_list and line.startswith(" ")
    return blocks


def wrapped(block, code=False):
    """The paragraph in lines of at most WIDTH columns; links stay whole, and so does text in backquotes unless `code`."""
    item = LIST_ITEM.match(block[0])
    first = item.group(0) if item else re.match(r"\s*", block[0]).group(0)
    text = " ".join(line.strip() for line in block)[len(first.strip()) :].strip()
    whole = r"\[[^\]]*\]\([^)]*\)" if code else r"`[^`]*`|\[[^\]]*\]\([^)]*\)"
    kept = re.sub(whole, lambda m: m.group(0).replace(" ", "\0"), text)
    rest = " " * len(first)
    lines = textwrap.wrap(kept, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def wrap(text, code=False):
    """The text of a page, in which paragraphs with a long line are wrapped."""
    lines = text.split("\n")
    for first, last in reversed(prose(lines)):
        if any(len(line) > WIDTH for line in lines[first:last]):
            lines[first:last] = wrapped(lines[first:last], code)
    return "\n".join(lines)


@functools.cache
def anchors(page):
    """The headings of a page as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{target}: no such file"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield f"{target}: {file.name} has no such heading"


def main():
    if "--wrap" in sys.argv[1:]:
        for page in PAGES:
            page.write_text(wrap(page.read_text()))
    faults = []
    for page in PAGES:
        name, lines = page.relative_to(ROOT), page.read_text().split("\n")
        for first, last in prose(lines):
            for number in range(first, last):
                if len(lines[number]) > WIDTH and len(wrapped([lines[number]])) > 1:
                    faults.append(f"{name}:{number + 1}: {len(lines[number])} columns, at most {WIDTH} are allowed")
        faults += [f"{name}: {fault}" for fault in broken_links(page)]
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        print("scripts/check_docs.py --wrap wraps long lines", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
