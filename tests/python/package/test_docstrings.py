"""The docstring of every mask and of every kind of attention has a formula, shapes, the cost and the gradient; that of every other
function has the cost and the gradient, and shapes where it takes or returns tensors."""

import dataclasses
import inspect
import re
import unittest

from support import Case, tm

PARTS = {
    "a formula": re.compile(r"(?:\bM̂?(?:_\w+)?|\bout(?:_i)?|\by|E\[M_ij\]) = "),
    "a shape": re.compile(r"\[[^\]]*\]"),
    "the cost": re.compile(r"\bCost(?: per \w+)?[:,]\s"),
    "the gradient": re.compile(r"\bGradient:\s"),
}
MASK = re.compile(r"_mask$|^with_global_tokens$")
ATTENTION = re.compile(r"^(?!plan_)(?:\w+_)?attention$|Attention$|^attend$|^TransformerConv$")


MODULES = {
    "": "topomask",
    "nn": "topomask.nn",
    "hf": "topomask.hf",
    "timm": "topomask.timm",
    "plotting": "topomask.plotting",
    "episodes": "topomask.episodes",
}
ELSEWHERE = {"nn": ("topomask.dropout", "topomask.features")}  # modules that `nn` has some of its names from
PRIVATE = {"nn.feature_map", "nn.rowwise"}  # imports of a module that its page does not list
NO_WORK = {"library_path": "the path of a file"}


def is_value(cls):
    """Whether a class holds options or results and computes nothing: what makes it states the cost."""
    if issubclass(cls, tuple):
        return True
    own = [value for name, value in vars(cls).items() if not name.startswith("_")]
    return dataclasses.is_dataclass(cls) and not any(inspect.isfunction(getattr(value, "__func__", value)) for value in own)


def public():
    """Name → function, method or class that computes something, with the class whose docstring counts for it as well, or None."""
    for prefix, place in MODULES.items():
        module = getattr(tm, prefix) if prefix else tm
        for name in getattr(module, "__all__", None) or vars(module):
            value = getattr(module, name)
            full = f"{prefix}.{name}" if prefix else name
            where = getattr(value, "__module__", None) or ""
            if not (where == place or where.startswith(place + ".") or where in ELSEWHERE.get(prefix, ())):
                continue
            if name.startswith("_") or full in PRIVATE or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            if inspect.isfunction(value):
                yield full, value, None
            elif not is_value(value):
                yield full, value, value
                for method, inner in vars(value).items():
                    inner = getattr(inner, "__func__", inner)
                    if inspect.isfunction(inner) and not method.startswith("_") and method != "extra_repr":
                        yield f"{full}.{method}", inner, value


def inherited(cls, name):
    """The docstring of a method, or that of the method it takes the place of."""
    return next((vars(base)[name].__doc__ for base in cls.__mro__ if name in vars(base) and vars(base)[name].__doc__), None)


def masks_and_attention():
    """Name → class or function: the masks, as classes and as functions, and whatever attends."""
    for prefix, module in {"": tm, "nn.": tm.nn, "pyg.": tm.pyg}.items():
        for name in getattr(module, "__all__", None) or vars(module):
            value = getattr(module, name)
            if name.startswith("_") or not getattr(value, "__module__", "").startswith("topomask."):
                continue
            if inspect.isclass(value) and issubclass(value, tm.Mask) or MASK.search(name) or ATTENTION.search(name):
                yield prefix + name, value


class Docstrings(Case):
    def test_they_have_every_part(self):
        found = dict(masks_and_attention())
        self.assertGreater(len(found), 65)
        known = {"attention", "softmax_attention", "neighbour_attention", "Mask", "GRFMask", "grf_mask", "with_global_tokens"}
        known |= {"nn.attend", "nn.MaskedAttention", "nn.scaled_dot_product_attention", "pyg.TransformerConv", "pyg.GPSAttention"}
        self.assertEqual(known - set(found), set())
        for name, value in found.items():
            for part, pattern in PARTS.items():
                with self.subTest(name=name, part=part):
                    self.assertRegex(value.__doc__ or "", pattern)

    def test_every_function_states_what_it_costs_and_what_is_differentiable(self):
        """A class may state both for all of its methods."""
        found = {name: (value, owner) for name, value, owner in public()}
        known = {
            "sample_walks",
            "convolve",
            "read_graph",
            "walk_frequencies",
            "Graph.with_weights",
            "Graph.normalised",
            "WalkTable.to",
        }
        known |= {
            "FeatureMap.favor",
            "GraphBatch.of",
            "nn.Block",
            "nn.ViT",
            "nn.GraphTransformer",
            "nn.NodeDropout",
            "nn.seed_dropout",
        }
        known |= {"nn.KeptFeatures", "hf.register", "hf.load_masks", "timm.attn_layer", "plotting.layout", "episodes.EpisodeSet"}
        self.assertEqual(known - set(found), set())
        self.assertGreater(len(found), 230)
        for name, (value, owner) in found.items():
            written = value.__doc__ or (inherited(owner, name.rsplit(".", 1)[1]) if owner else None) or ""
            with self.subTest(name=name, part="a docstring"):
                self.assertGreater(len(written), 5)
            if name in NO_WORK:
                continue
            for part in ("the cost", "the gradient"):
                with self.subTest(name=name, part=part):
                    self.assertRegex(f"{written}\n{owner.__doc__ if owner else ''}", PARTS[part])
            taken = "" if inspect.isclass(value) else str(inspect.signature(value))
            if re.search(r"\b(?:Tensor|Values)\b", taken):
                with self.subTest(name=name, part="a shape"):
                    self.assertRegex(written, PARTS["a shape"])

    def test_everything_on_the_page_of_the_interface_has_one(self):
        for module in (tm, tm.nn, tm.dist, tm.pyg, tm.plotting, tm.episodes, tm.train):
            for name, value in vars(module).items():
                own = inspect.isclass(value) or inspect.isfunction(value)
                if own and not name.startswith("_") and getattr(value, "__module__", "").startswith(module.__name__):
                    with self.subTest(module=module.__name__, name=name):
                        written = inspect.cleandoc(
                            vars(value).get("__doc__") or "" if inspect.isclass(value) else value.__doc__ or ""
                        )
                        self.assertGreater(len(written), 10)
                        self.assertFalse(written.startswith(f"{name}("), "the docstring that a dataclass makes")


if __name__ == "__main__":
    unittest.main()
