"""What the tests of the package share. TOPOMASK_LIBRARY names the shared library; the package is that of this checkout unless
TOPOMASK_INSTALLED is set. With TOPOMASK_ALL, tests fail where an optional package is missing; otherwise they are skipped."""

import ctypes
import importlib.util
import os
import pathlib
import sys
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
if not os.environ.get("TOPOMASK_INSTALLED"):
    sys.path.insert(0, str(ROOT / "python"))
import topomask as tm  # noqa: E402, F401  (for the tests)


def golden(name):
    """The reference values of tests/golden/NAME.pt."""
    return torch.load(ROOT / "tests" / "golden" / f"{name}.pt", weights_only=True)


def golden_names(prefix):
    return sorted(path.stem for path in (ROOT / "tests" / "golden").glob(f"{prefix}*.pt"))


def dense_attention(q, k, v, matrix, features=torch.relu):
    """The definition, from the whole matrix."""
    weights = matrix * (features(q) @ features(k).mT)
    return weights / weights.sum(-1, keepdim=True) @ v


def missing(*names):
    """Those of the packages that are not installed. With TOPOMASK_ALL none may be."""
    absent = sorted(name for name in names if importlib.util.find_spec(name) is None)
    if absent and os.environ.get("TOPOMASK_ALL"):
        raise ModuleNotFoundError(f"TOPOMASK_ALL is set, and {', '.join(absent)} is not installed")
    return absent


def needs(*names):
    """Skips a test where a package is not installed."""
    absent = missing(*names)
    return unittest.skipIf(absent, f"needs {', '.join(absent)}")


class Case(unittest.TestCase):
    def close(self, got, want, tolerance=1e-10):
        got, want = torch.as_tensor(got), torch.as_tensor(want)
        self.assertEqual(got.shape, want.shape)
        scale = max(float(want.abs().max()) if want.numel() else 1.0, 1e-300)
        error = float((got.detach().double() - want.detach().double()).abs().max()) / scale if want.numel() else 0.0
        self.assertLessEqual(error, tolerance)

    def refuses(self, error, text, function, *arguments, **options):
        with self.assertRaisesRegex(error, text) as caught:
            function(*arguments, **options)
        self.assertIs(type(caught.exception), error)
        self.assertNotIn("Exception raised from", str(caught.exception))


def ways_of_writing():
    """Writes of a value at a place of an int64 tensor on the CPU, some of which no version counter sees."""

    def exchange(tensor, place, value):
        other = tensor.clone()
        other[place] = value
        tensor.data = other

    def through_a_pointer(tensor, place, value):  # as NumPy does to memory that it shares
        ctypes.c_int64.from_address(tensor[place].data_ptr()).value = value

    return {
        "in place": lambda tensor, place, value: tensor.__setitem__(place, value),
        ".data": lambda tensor, place, value: tensor.data.__setitem__(place, value),
        ".data exchanged": exchange,
        "pointer": through_a_pointer,
    }
