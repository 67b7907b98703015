"""The docstring of every mask and of every kind of attention has a formula, shapes, the cost and the gradient."""

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
