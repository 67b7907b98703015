"""Edge weights that learn: in place, after they were frozen, in copies, and where the weights would be normalised."""

import copy
import pickle
import unittest

import torch
from families import random
from support import Case, tm

F64 = torch.float64
GRAPH = tm.Graph.grid(4, 5).to(F64)
ALPHA = [1.0, 0.5, 0.2]


def weights(value=0.3, *, learnt=True):
    """A parameter with one value for every entry, so that it stays symmetric whatever it is multiplied by."""
    return torch.nn.Parameter(torch.full((GRAPH.num_entries,), value, dtype=F64), requires_grad=learnt)


def over_a_basis(graph):
    return tm.power_series_mask(tm.power_series_basis(graph, 3), torch.tensor(ALPHA, dtype=F64))


FAMILIES = {
    "power series": lambda graph: tm.PowerSeriesMask(graph, ALPHA),
    "power series, function": lambda graph: tm.power_series_mask(graph, torch.tensor(ALPHA, dtype=F64)),
    "power series, basis": over_a_basis,
    "power series, tokens": lambda graph: tm.GlobalTokens(tm.PowerSeriesMask(graph, ALPHA)),
    "diffusion": lambda graph: tm.DiffusionMask(graph, 0.5),
    "diffusion, function": lambda graph: tm.diffusion_mask(graph, torch.tensor(0.5, dtype=F64)),
    "weighted neighbours, function": tm.weighted_neighbours_mask,
}


def learnt_of(mask):
    """The weights among the parameters of a mask."""
    (found,) = (p for name, p in mask.named_parameters() if name.endswith("weights") and p.shape == (GRAPH.num_entries,))
    return found


def named(name, mask):
    """For a mask that has its weights twice, as the graph's and as its own."""
    return mask.weights if name.startswith("weighted") else learnt_of(mask)


class LearnedWeights(Case):
    def follows(self, name, mask, w):
        """The mask sees changes in place of its weights, by every route."""
        for factor in (0.5, 3.0):
            with torch.no_grad():
                w.mul_(factor)
            want = FAMILIES[name](GRAPH.with_weights(w.detach().clone()))
            x = random(mask.size, 3)
            self.close(mask.dense(), want.dense(), 1e-9)
            self.close(mask(x), want(x), 1e-6)
            q, k, v = (random(1, mask.size, 4).roll(shift, -2) for shift in range(3))
            self.close(tm.attention(q, k, v, mask), tm.attention(q, k, v, want), 1e-6)

    def test_masks_follow_weights_that_were_frozen(self):
        for name, make in FAMILIES.items():
            with self.subTest(name=name):
                w = weights()
                mask = make(GRAPH.with_weights(w))
                mask.dense()
                w.requires_grad_(False)
                self.follows(name, mask, w)
                w.requires_grad_(True)
                self.follows(name, mask, w)
                mask.dense().sum().backward()
                self.assertGreater(float(w.grad.abs().sum()), 0)
                w.requires_grad_(False)
                self.follows(name, mask, w)

    def test_an_average_of_the_weights_is_followed(self):
        """A teacher is a frozen copy whose parameters are averaged in place."""
        for name, make in FAMILIES.items():
            for how, copied in {"deepcopy": copy.deepcopy, "pickle": lambda mask: pickle.loads(pickle.dumps(mask))}.items():
                with self.subTest(name=name, how=how):
                    student = make(GRAPH.with_weights(weights()))
                    frozen = copied(student).requires_grad_(False)
                    for teacher in (frozen, copied(frozen), copied(frozen).double(), copied(frozen).to("cpu")):
                        w = named(name, teacher)
                        self.assertFalse(w.requires_grad)
                        self.follows(name, teacher, w)
                        self.assertFalse(w.requires_grad)
                    self.close(student.dense(), make(GRAPH.with_weights(weights())).dense(), 0)

    def test_a_frozen_mask_in_another_precision_is_followed(self):
        mask = tm.PowerSeriesMask(GRAPH.with_weights(weights()), ALPHA).requires_grad_(False).float()
        with torch.no_grad():
            mask.graph_weights.mul_(2)
        want = tm.PowerSeriesMask(GRAPH.with_weights(weights(0.6)), ALPHA)
        self.close(mask.dense(), want.dense(), 1e-6)

    def test_weights_that_never_learned_are_constants(self):
        for name in ("power series", "power series, basis", "diffusion"):
            with self.subTest(name=name):
                w = weights(learnt=False)
                mask = FAMILIES[name](GRAPH.with_weights(w.detach()))
                before = mask.dense().detach().clone()
                w.mul_(2)
                self.close(mask.dense(), before, 0)

    def test_a_basis_made_before_the_weights_learned_gives_them_no_constant(self):
        w = weights(learnt=False)
        basis = tm.power_series_basis(GRAPH.with_weights(w), 3)
        w.requires_grad_(True)
        mask = tm.power_series_mask(basis, torch.tensor(ALPHA, dtype=F64))
        mask.dense().sum().backward()
        self.assertGreater(float(w.grad.abs().sum()), 0)

    def test_a_refused_mask_leaves_no_trace(self):
        w = weights(learnt=False)
        mask = tm.neighbours_mask(GRAPH.with_weights(w.detach()))
        mask.graph_weights.requires_grad_(True)
        self.refuses(ValueError, "weights that do not require grad", mask._checked_object)
        mask.graph_weights.requires_grad_(False)
        self.assertEqual(float(mask.dense().sum()), GRAPH.num_entries + GRAPH.num_nodes)


class Frozen(Case):
    """`frozen` is a copy that neither learns nor follows, also of masks that functions made of tensors which learn."""

    def stays(self, mask, learnt):
        before = mask.dense().detach().clone()
        kept = mask.frozen()
        self.assertFalse(any(x.requires_grad for x in (*kept.parameters(), *kept.buffers())))
        self.close(kept.dense(), before, 0)
        self.assertFalse(kept.dense().requires_grad)
        x = random(mask.heads, mask.size, 3)
        with torch.no_grad():
            learnt.mul_(2)
        self.close(kept.dense(), before, 0)
        self.close(kept(x), before @ x, 1e-9)
        q, k, v = (random(mask.heads, mask.size, 4).roll(shift, -2) for shift in range(3))
        self.assertFalse(tm.attention(q, k, v, kept).requires_grad)
        self.assertTrue(mask.dense().requires_grad)

    def test_coefficients(self):
        walks = tm.sample_walks(GRAPH, walkers=4, seed=1)
        for name, function in {"leaf": lambda raw: raw, "computed": torch.nn.functional.softplus}.items():
            for make in (
                lambda f: tm.grf_mask(walks, f),
                lambda f: tm.with_global_tokens(tm.grf_mask(walks, f)),
                lambda f: tm.per_head_mask([tm.grf_mask(walks, f), tm.power_series_mask(GRAPH, f)]).prepare(),
            ):
                with self.subTest(name=name):
                    raw = torch.tensor(ALPHA, dtype=F64, requires_grad=True)
                    self.stays(make(function(raw)), raw)

    def test_weights_of_graphs(self):
        for function in (lambda w: w, lambda w: w * 0.5):
            for name, make in {**FAMILIES, "grf": lambda graph: tm.GRFMask(graph, ALPHA, seed=3)}.items():
                with self.subTest(name=name):
                    w = weights().detach().requires_grad_()
                    self.stays(make(GRAPH.with_weights(function(w))), w)

    def test_a_mask_in_python(self):
        class Scaled(tm.Mask):
            def __init__(self, scales):
                super().__init__(20)
                self.scales = {"all": [scales]}

            def matmul(self, x):
                return x * self.scales["all"][0]

        raw = torch.tensor(0.5, dtype=F64, requires_grad=True)
        kept = Scaled(raw.exp()).frozen()
        self.assertFalse(kept(torch.ones(20, 1, dtype=F64)).requires_grad)


class Normalised(Case):
    """PowerSeriesMask normalises weights that are all 1, unless they learn."""

    def test_weights_that_learn_are_taken_as_they_are(self):
        for value in (1.0, 0.3):
            w = weights(value)
            mask = tm.PowerSeriesMask(GRAPH.with_weights(w), ALPHA)
            self.close(mask.dense(), tm.PowerSeriesMask(GRAPH.with_weights(w.detach()), ALPHA, normalise=False).dense())
            mask.dense().sum().backward()
            self.assertGreater(float(w.grad.abs().sum()), 0)

    def test_every_family_that_has_a_gradient_in_them_takes_them_as_they_are(self):
        families = {
            "GRFMask": lambda graph, **options: tm.GRFMask(graph, seed=3, **options),
            "TwoSidedGRFMask": lambda graph, **options: tm.TwoSidedGRFMask(graph, seed=3, **options),
            "AsymmetricGRFMask": lambda graph, **options: tm.AsymmetricGRFMask(graph, seed=3, **options),
            "StitchedGRFMask": lambda graph, **options: tm.StitchedGRFMask(graph, seed=3, **options),
            "AutoMask": lambda graph, **options: tm.AutoMask(graph, ALPHA, 1e-9, **options),
        }
        for name, make in families.items():
            with self.subTest(name=name):
                w = weights(1.0)
                mask = make(GRAPH.with_weights(w))
                self.close(mask.dense(), make(GRAPH, normalise=False).dense())
                self.assertGreater(float((mask.dense() - make(GRAPH).dense()).abs().max()), 0.1)
                mask.dense().sum().backward()
                self.assertGreater(float(w.grad.abs().sum()), 0)
                self.refuses(ValueError, "weights that do not require grad", make, GRAPH.with_weights(w), normalise=True)
        for refused in (tm.AdHocMask, tm.HybridGRFMask, tm.WalkingMask):
            with self.subTest(name=refused.__name__):
                self.refuses(ValueError, "that do not require grad", refused, GRAPH.with_weights(weights(1.0)))

    def test_ones_that_do_not_learn_are_normalised(self):
        w = weights(1.0, learnt=False)
        mask = tm.PowerSeriesMask(GRAPH.with_weights(w.detach()), ALPHA)
        self.close(mask.dense(), tm.PowerSeriesMask(GRAPH.normalised(), ALPHA).dense())

    def test_normalising_weights_that_learn_is_refused(self):
        graph = GRAPH.with_weights(weights(1.0))
        self.refuses(ValueError, "weights that do not require grad", tm.PowerSeriesMask, graph, ALPHA, normalise=True)


if __name__ == "__main__":
    unittest.main()
