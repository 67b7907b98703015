"""How the package tells that a tensor was written to, and that something was computed from it."""

import copy
import ctypes
import threading
import unittest
import unittest.mock

import torch
from support import Case, missing, tm
from topomask._seen import Reads, Seen


def found(call, f):
    """Whether `Reads` finds that what call(f) makes may depend on the values of f."""
    with Reads(f) as reads, torch.enable_grad():
        call(f)
    return reads.found


def numpy_of(f):
    import numpy

    f.requires_grad_(False)
    return numpy.asarray(f)


class Written(Case):
    def test_every_write_to_memory_of_the_cpu_is_noticed(self):
        def pointer(x):
            ctypes.memset(x.data_ptr(), 1, 8)

        def fused(x):
            x.grad = torch.ones_like(x)
            torch.optim.AdamW([x], lr=0.1, fused=True).step()

        def exchange_memory(x):
            with torch.no_grad():
                x.set_(torch.rand(4))

        def negative_zero(x):
            x.data[0] = -0.0

        ways = {
            "copy_": lambda x: x.detach().copy_(torch.rand(4)),
            ".data": lambda x: x.data.mul_(2),
            ".data exchanged": lambda x: setattr(x, "data", torch.rand(4)),
            "set_": exchange_memory,
            "pointer": pointer,
            "AdamW(fused=True)": fused,
            "sign of zero": negative_zero,
        }
        if not missing("numpy"):
            ways["NumPy"] = lambda x: x.detach().numpy().fill(1)
        for how, write in ways.items():
            with self.subTest(how=how):
                x = torch.nn.Parameter(torch.tensor([0.0, 0.5, 1.0, 2.0]))
                seen = Seen(x)
                self.assertTrue(seen.notices_all)
                self.assertTrue(seen.again(x))
                write(x)
                self.assertFalse(seen.again(x))

    def test_another_tensor_of_the_same_values_is_another(self):
        x = torch.rand(4)
        self.assertFalse(Seen(x).again(x.clone()))

    def test_what_is_not_compared_is_known_by_version_and_memory(self):
        with unittest.mock.patch("topomask._seen._compared", return_value=False):
            x = torch.rand(4)
            seen = Seen(x)
            self.assertFalse(seen.notices_all)
            self.assertTrue(seen.again(x))
            x.mul_(2)
            self.assertFalse(seen.again(x))
            seen = Seen(x)
            x.data = torch.rand(4)
            self.assertFalse(seen.again(x))


class Read(Case):
    def setUp(self):
        self.f = torch.nn.Parameter(torch.rand(4, dtype=torch.float64))
        self.graph = tm.Graph.grid(4, 3).to(torch.float64)

    def test_whatever_gives_values_is_found(self):
        alias = self.f.detach()
        walks = tm.sample_walks(self.graph, walkers=4, halting_probability=0.5)
        ways = {
            "arithmetic": lambda f: f + 1,
            "in a list": lambda f: torch.stack([f, f]),
            "by name": lambda f: torch.mul(input=f, other=2),
            "item": lambda f: f[0].item(),
            "bool": lambda f: bool(f[0] > 0),
            "comparison": lambda f: torch.equal(f, f),
            "list": lambda f: f.tolist(),
            "text": repr,
            "view": lambda f: f.view(2, 2),
            "detach": lambda f: f.detach(),
            ".data": lambda f: f.data,
            "copy": copy.deepcopy,
            "pointer": lambda f: ctypes.string_at(f.data_ptr(), 8),
            "another tensor in the same memory": lambda f: alias.mean(),
            "write": lambda f: f.data.clamp_(min=0),
            "write without gradients": lambda f: torch.no_grad()(f.clamp_)(min=0),
            "estimate of C++": lambda f: tm.walk_constant(self.graph, f, 0.5),
            "choice of C++": lambda f: tm.suggest(self.graph, f, 0.1),
            "features of walks": lambda f: tm.walk_features(walks, f),
            "product of a mask": lambda f: tm.power_series_mask(self.graph, f)(torch.rand(12, 1, dtype=torch.float64)),
            "matrix of a mask": lambda f: tm.power_series_mask(self.graph, f).dense(),
            "matrix of a mask around": lambda f: tm.GlobalTokens(tm.power_series_mask(self.graph, f), 1).dense(),
            "attention": lambda f: tm.attention(*torch.rand(3, 12, 2, dtype=torch.float64), tm.power_series_mask(self.graph, f)),
        }
        if not missing("numpy"):
            ways["NumPy"] = lambda f: numpy_of(f).mean()
        for how, read in ways.items():
            with self.subTest(how=how):
                self.assertTrue(found(read, self.f))

    def test_what_only_hands_on_is_not(self):
        walks = tm.sample_walks(self.graph, walkers=4, halting_probability=0.5)
        others = tm.sample_walks(self.graph, walkers=4, halting_probability=0.5, seed=1)
        ways = {
            "nothing": lambda f: None,
            "shape": lambda f: (f.shape, f.dtype, f.device, f.requires_grad, f.dim(), len(f.size()), f.is_floating_point()),
            "the same dtype": lambda f: f.to(torch.float64).contiguous().double(),
            "others": lambda f: torch.rand(4).mean().item(),
            "power series": lambda f: tm.power_series_mask(self.graph.normalised(), f),
            "walks": lambda f: tm.grf_mask(walks, f),
            "walks of two sides": lambda f: tm.grf_mask(walks, f, key_walks=others),
            "asymmetric": lambda f: tm.asymmetric_grf_mask(walks, f),
            "forest": lambda f: tm.tree_mask(tm.Forest.from_graph(tm.Graph.path(5)), tm.DistanceFunction.table(f)),
            "around": lambda f: tm.GlobalTokens(tm.power_series_mask(self.graph, f), 1),
            "number of another mask": lambda f: tm.power_series_mask(self.graph, torch.rand(2, dtype=torch.float64)).dense(),
        }
        for how, hand_on in ways.items():
            with self.subTest(how=how):
                self.assertFalse(found(hand_on, self.f))

    def test_one_inside_another_tells_both(self):
        other = torch.rand(4, dtype=torch.float64)
        with Reads(self.f) as outer:
            with Reads(other) as inner:
                tm.walk_constant(self.graph, self.f, 0.5)
            self.assertEqual((outer.found, inner.found), (True, False))
        with Reads(self.f) as outer:
            with Reads(other) as inner:
                other.sum()
            self.assertEqual((outer.found, inner.found), (False, True))
            self.f.sum()
        self.assertTrue(outer.found)

    def test_an_error_ends_it(self):
        with self.assertRaises(ZeroDivisionError), Reads(self.f) as reads:
            1 / 0  # noqa: B018
        self.f.sum()
        tm.walk_constant(self.graph, self.f, 0.5)
        self.assertFalse(reads.found)

    def test_other_threads_are_not_watched(self):
        with Reads(self.f) as reads:
            thread = threading.Thread(target=lambda: tm.walk_constant(self.graph, self.f, 0.5))
            thread.start()
            thread.join()
        self.assertFalse(reads.found)


if __name__ == "__main__":
    unittest.main()
