"""Which key was meant: the rules of the command line tool (src/config/nearest_key.h)."""

from __future__ import annotations

from collections.abc import Callable


def edits(a: str, b: str) -> int:
    """Characters inserted, removed or replaced, and neighbours swapped, between two words (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a):
        following = [i + 1]
        for j, other in enumerate(b):
            least = min(row[j] + (letter != other), row[j + 1] + 1, following[j] + 1)
            if i and j and letter == b[j - 1] and a[i - 1] == other:
                least = min(least, before[j - 1] + 1)
            following.append(least)
        before, row = row, following
    return row[-1]


def nearest_key(key: str, known: list[str]) -> str | None:
    """The known key, dotted, that `key` was probably meant to be; None where even the nearest shares too little."""
    section, _, name = key.rpartition(".")

    def first(fits: Callable[[str], bool]) -> str | None:
        found = [candidate for candidate in known if fits(candidate.rpartition(".")[2])]
        return next((c for c in found if c.rpartition(".")[0] == section), found[0] if found else None)

    short = first(lambda other: "_" in other and "".join(word[:1] for word in other.split("_")) == name)
    if short:  # lr for learning_rate
        return short
    enough, best = max(1, len(name) // 2) + 1, None
    for candidate in known:
        distance = min(edits(key, candidate), edits(name, candidate.rpartition(".")[2]) + 1)
        if distance < enough:
            enough, best = distance, candidate
    return best or first(lambda other: len(name) >= 3 and name in other.split("_"))
