#!/usr/bin/env python3
"""Writes docs/python-api.md: every public name of the Python package with its signature and docstring.

    PYTHONPATH=python python scripts/api_docs.py [--check]

--check: only says whether the page is what the docstrings say, and fails where it is not.
"""

import inspect
import pathlib
import re
import sys

import topomask as tm
from check_docs import wrap

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "python-api.md"
PARTS = {
    "Attention": ("_attention", "features"),
    "Graphs": ("graph", "graph_functions", "batch", "clouds", "pattern", "meshes", "io"),
    "Walks": ("walks",),
    "Masks": ("mask", "library_mask", "modules", "walked", "structured", "forest"),
    "Masks as functions": ("families", "functional"),
    "Theory": ("theory",),
}
MODULES = ("nn", "dist", "pyg", "hf", "timm", "plotting", "episodes", "train")
ELSEWHERE = {"nn": "topomask.dropout", "pyg": "topomask.gps"}  # where a module has what it offers from


def signature(value):
    """The arguments, with types as they are written and default values."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    shown = []
    star = False
    for parameter in found.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        star = star or prefix == "*"
        default = "" if parameter.default is parameter.empty else f"={shown_default(parameter.default)}"
        shown.append(prefix + parameter.name + default)
    return f"({', '.join(shown)})"


def shown_default(value):
    if isinstance(value, int) and value > 1 << 20 and value & (value - 1) == 0:
        return f"1 << {value.bit_length() - 1}"
    if callable(value):
        return getattr(value, "__name__", "…").lstrip("_")
    return repr(value)


def text(value):
    """The docstring; an indented part becomes code."""
    written = inspect.cleandoc(value.__doc__ or "")
    return re.sub(
        r"(?:^    .*\n?(?:\n(?=    ))?)+", lambda code: f"```text\n{inspect.cleandoc(code[0]).rstrip()}\n```\n", written, flags=re.M
    )


def methods(cls):
    """Public methods and properties that are defined with a docstring in the class itself."""
    for name, value in vars(cls).items():
        inner = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if name.startswith("_") or not inspect.cleandoc(getattr(inner, "__doc__", None) or ""):
            continue
        if isinstance(inner, property):
            yield f"- `.{name}`: {one_line(inner)}"
        elif inspect.isfunction(inner):
            dot = f"{cls.__name__}." if isinstance(value, staticmethod) else "."
            yield f"- `{dot}{name}{signature(inner)}`: {one_line(inner)}"


def one_line(value):
    return " ".join(text(value).split())


def entry(name, value):
    lines = [f"### {name}", "", f"`{name}{signature(value)}`", "", text(value), ""]
    if inspect.isclass(value):
        listed = list(methods(value))
        lines += [*listed, ""] if listed else []
    return lines


def page():
    lines = [
        "# The Python interface",
        "",
        "Made from the docstrings by `scripts/api_docs.py`. [The guide](python.md) explains.",
        "",
    ]
    names = {
        name: getattr(tm, name)
        for name in tm.__all__
        if inspect.isclass(getattr(tm, name)) or inspect.isfunction(getattr(tm, name))
    }
    shown = set()
    for title, modules in PARTS.items():
        lines += [f"## {title}", ""]
        for module in modules:
            for name, value in names.items():
                if value.__module__ == f"topomask.{module}":
                    shown.add(name)
                    lines += entry(name, value)
    missing = set(names) - shown - {"library_path"}
    assert not missing, f"in no part: {sorted(missing)}"
    for module in MODULES:
        lines += [f"## topomask.{module}", "", text(getattr(tm, module)), ""]
        for name, value in vars(getattr(tm, module)).items():
            place = getattr(value, "__module__", "")
            own = place in (f"topomask.{module}", ELSEWHERE.get(module)) or place.startswith(f"topomask.{module}.")
            if own and not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
                lines += entry(f"{module}.{name}", value)
    made = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
    return wrap(made, code=True)  # signatures too, which Markdown joins again


if __name__ == "__main__":
    made = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text() != made:
            sys.exit(f"{PAGE.name} is not what the docstrings say: run scripts/api_docs.py")
    else:
        PAGE.write_text(made)
