"""What goes wrong, said in Python's words: errors of the C++ library as Python's exceptions, and calls whose arguments are of a
wrong type."""

from __future__ import annotations

import functools
import inspect
import numbers
import operator
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_OWN = re.compile(r"^(?!could not convert|invalid literal|\w+( driver)? [Ee]rror\b)[\w.:/ -]{1,200}?: ")  # not "CUDA error: …"
_BARE = re.compile(r"^(\w+) must ")
_MISMATCH = re.compile(
    r"Expected (a value of|at most|integer|type)|is missing value for argument|Unknown keyword argument|Could not cast"
)
# C++ names and the Python spelling of the same thing.
_SPELLINGS = (
    (re.compile(r"\b(?:ReadLimits::|limits\.)(?=max_)"), ""),
    (re.compile(r"\b(?:Read|Walk)Options::(\w+)"), r"\1=True"),
    (re.compile(r"\bProposal::(\w+)"), r'proposal="\1"'),
    (re.compile(r"\bmask->"), "mask."),
    (re.compile(r"\bSparsePattern\b"), "Pattern"),
    (re.compile(r"\b([A-Z]\w*)::(?=\w)"), r"\1."),
)


def in_python(text: str) -> str:
    """A message of the library with the names that its subject has in Python."""
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    return text


def translated(error: RuntimeError) -> Exception:
    """The library's text without torch's stack trace, as the exception Python would raise. An error of another class than
    RuntimeError, such as torch.OutOfMemoryError or NotImplementedError, is torch's own and is returned as it is."""
    if type(error) is not RuntimeError:
        return error
    text = str(error)
    for end in ("\nException raised from", "\nC++ CapturedTraceback", "\nPosition:"):
        text = text.split(end)[0]
    text = in_python(text)
    if text.endswith("No such file or directory"):
        return FileNotFoundError(text)
    if _MISMATCH.search(text):
        return TypeError(text.replace("__torch__.torch.classes.topomask.", "").split("\n")[0])
    return ValueError(text) if _OWN.match(text) else RuntimeError(text)


def _hint(function: Callable[..., Any], annotation: Any) -> Any:
    """The type that an annotation means; Any where it names what is imported for type checkers alone."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, getattr(function, "__globals__", {}))
    except Exception:
        return Any


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value can be what the hint says."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        values = Tensor in inside and any(typing.get_origin(part) is Sequence for part in inside)  # NumPy arrays become tensors
        return any(_fits(value, part) for part in inside) or (values and hasattr(value, "__array__"))
    if hint is None or hint is type(None):
        return value is None
    if hint is int:
        return isinstance(value, int) or (hasattr(value, "__index__") and not isinstance(value, Tensor))
    if hint is float:
        return isinstance(value, numbers.Real)
    if origin in (list, tuple, Sequence):
        items = [part for part in inside if part is not Ellipsis]
        listed = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        return listed and (origin is tuple or not items or all(_fits(item, items[0]) for item in value))
    if origin is Callable:
        return callable(value)
    kind = origin or hint
    return isinstance(value, kind) if isinstance(kind, type) else True


_NAMES = {int: "an integer", float: "a number", bool: "True or False", str: "a string", Tensor: "a tensor", type(None): "None"}


def _named(hint: Any) -> str:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        *first, last = dict.fromkeys(_named(part) for part in inside)
        return f"{', '.join(first)} or {last}" if first else last
    if origin in (list, tuple, Sequence):
        of = _named(inside[0]).split(" ", 1)[-1] if inside and inside[0] is not Any else "number"
        return f"a sequence of {of}s"
    if origin is os.PathLike:
        return "a path"
    if origin is Callable:
        return "a function"
    name = getattr(hint, "__name__", str(hint))
    return _NAMES.get(hint) or (f"a torch.{name}" if hint in (torch.dtype, torch.device) else f"a {name}")


def shown(value: Any, hint: Any = Any) -> str:
    """A value as an error shows it: numbers as they are, of others the type, of lists also the type of an item that is wrong."""
    if isinstance(value, (list, tuple)) and value:
        items = [part for part in typing.get_args(hint) if part is not Ellipsis] or [Any]
        wrong = next((item for item in value if not _fits(item, items[0])), value[0])
        return f"a {type(value).__name__} with {type(wrong).__name__}"
    return repr(value) if value is None or isinstance(value, (bool, int, float)) else type(value).__name__


def wrong_argument(op: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
    """What to say of the first argument whose type is not that of its annotation, or that is too large for C++."""
    try:
        signature = inspect.signature(function)
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    for name, value in given.items():
        parameter = signature.parameters[name]
        hint = _hint(function, parameter.annotation)
        if name == "self" or hint is parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
            continue
        for item in value if parameter.kind is parameter.VAR_POSITIONAL else [value]:
            if not _fits(item, hint):
                return TypeError(f"{op}: {name} must be {_named(hint)}, got {shown(item, hint)}")
            if isinstance(item, int) and name != "seed" and not -(2**63) <= item < 2**63:
                return ValueError(f"{op}: {name} must be in [-2^63, 2^63), got {item}")
    return None


def explained(function: Any, op: str) -> Any:
    """The function, which says which argument is of a wrong type where a call fails without saying so itself."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        except (TypeError, AttributeError, RuntimeError, ValueError) as error:
            text = str(error)
            if isinstance(error, (TypeError, ValueError)) and _OWN.match(text):
                raise
            bare = _BARE.match(text)
            if bare is not None and bare[1] in inspect.signature(function).parameters:
                wrong: Exception | None = type(error)(f"{op}: {text}")  # of a helper that does not know whom it helps
            else:
                wrong = wrong_argument(op, function, args, kwargs)
            if wrong is None:
                raise
        raise wrong

    return wrapper


_UNTOUCHED = {"forward", "queries", "keys"}  # torch says what is wrong with the inputs of layers, attention with those of maps


def _explain_class(cls: type[Any]) -> None:
    for name, value in list(vars(cls).items()):
        if (name.startswith("_") and name != "__init__") or name in _UNTOUCHED:
            continue
        op = cls.__name__ if name == "__init__" else f"{cls.__name__}.{name}"
        if isinstance(value, staticmethod):
            setattr(cls, name, staticmethod(explained(value.__func__, op)))
        elif inspect.isfunction(value):
            setattr(cls, name, explained(value, op))


def explain_arguments(module: str) -> None:
    """Makes every public function and class of a module say which argument is of a wrong type, by the annotations."""
    namespace = vars(sys.modules[module])
    for name, value in list(namespace.items()):
        if name.startswith("_") or getattr(value, "__module__", None) != module:
            continue
        if inspect.isfunction(value):
            namespace[name] = explained(value, name)
        elif inspect.isclass(value) and not issubclass(value, tuple):
            _explain_class(value)


def count(what: str, value: Any, least: int = 0) -> int:
    """An integer that is at least so large."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an integer, got {shown(value)}") from None
    if number < least:
        raise ValueError(f"{what} must be >= {least}, got {number}")
    return number


def callers_level() -> int:
    """The stacklevel of warnings.warn, called by the caller of this, that names the first line outside of the package."""
    package = os.path.dirname(os.path.abspath(__file__))
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == package:
        level, frame = level + 1, frame.f_back
    return level
