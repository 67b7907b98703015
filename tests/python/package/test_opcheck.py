"""The operators that masks consist of for torch.compile, run eagerly; and every call of one checked by torch's own checks of
registrations (schema, autograd, fake tensors, dynamic shapes), which generate_opcheck_tests makes of the tests here."""

import atexit
import os
import shutil
import tempfile
import unittest
import unittest.mock

import torch
from families import NODES, families, random
from support import Case, tm
from test_clouds import Clouds
from test_compile import AS_TENSORS
from test_golden import Attention, Structured, Walks
from test_gps import GPS
from test_masks import Functions
from test_nn import Layers
from test_pyg import TransformerConv
from test_rowwise import Rowwise
from topomask._traced import How
from topomask.features import feature_map
from torch.testing._internal.optests import generate_opcheck_tests
from torch.testing._internal.optests.generate_tests import FailuresDict


def inputs():
    return [random(2, 2, NODES, 3).roll(shift, -2).requires_grad_() for shift in (0, 1, 2)]


class Operators(Case):
    def same(self, name, how, want):
        mask = families()[name]
        q, k, v = inputs()
        out = mask._form.attention(mask, q, k, v, how)
        self.close(out, want(q, k, v, mask), 1e-9)
        learnt = [q, k, v, *mask.parameters()]
        cotangent = random(*out.shape)
        for a, b in zip(torch.autograd.grad(out, learnt, cotangent), torch.autograd.grad(want(q, k, v, mask), learnt, cotangent)):
            self.close(a, b, 1e-8)

    def test_kernel_attention(self):
        for name in sorted(AS_TENSORS):
            self.same(name, How("attention"), lambda q, k, v, mask: tm.attention(q, k, v, mask, features=None))

    def test_softmax_attention(self):
        for name in sorted(AS_TENSORS):
            self.same(name, How("multiplicative"), lambda q, k, v, mask: tm.softmax_attention(q, k, v, mask))

    def test_features_route(self):
        mask = families()["grf"]
        mask._form = mask._traced_form("features")
        q, k, v = inputs()
        out = mask._form.attention(mask, q, k, v, How("attention"))
        self.close(out, tm.attention(q, k, v, mask, features=None), 1e-8)
        out.sum().backward()

    def test_transformer_conv(self):
        edges = tm.Graph.erdos_renyi(12, 0.3, seed=1).edge_index()
        for edge_dim in (None, 2):
            layer = tm.pyg.TransformerConv(4, 3, heads=2, edge_dim=edge_dim)
            layer(torch.rand(12, 4), edges, None if edge_dim is None else torch.rand(edges.shape[1], 2)).sum().backward()


EAGER = {"attention": tm.attention, "softmax_attention": tm.softmax_attention, "matmul": tm.LibraryMask.matmul}


def as_operators(mask, inputs, how):
    """What torch.compile makes of a call; None for masks that apply_mask has to compute with parameters, which it knows by their
    identity: the checks of an operator call it with copies."""
    mask.prepare()
    if mask._form is not None and how.what not in ("matmul", "matmul_transposed"):
        form = mask._form.chosen(how, inputs[0], inputs[2])
        if form is not None:
            return form.attention(mask, *inputs, how)
    return mask._numbered(inputs, how) if mask._number and not mask._learnt else None


def attention(q, k, v, mask, *, features="relu", route="automatic"):
    phi = feature_map(features)
    found = as_operators(mask, (phi.queries(q), phi.keys(k), v), How("attention", route))
    return EAGER["attention"](q, k, v, mask, features=features, route=route) if found is None else found


def softmax_attention(q, k, v, mask, *, mode="multiplicative", scale=None, route="automatic"):
    found = as_operators(mask, (q, k, v), How(mode, route, scale=scale))
    return EAGER["softmax_attention"](q, k, v, mask, mode=mode, scale=scale, route=route) if found is None else found


def matmul(mask, x):
    found = as_operators(mask, (x,), How("matmul"))
    return EAGER["matmul"](mask, x) if found is None else found


class AsOperators(Case):
    """Tests of eager calls, which stay inside C++, over operators where there are any."""

    def setUp(self):
        super().setUp()
        for owner in (tm, tm.nn):
            self.replace(owner, "attention", attention)
            self.replace(owner, "softmax_attention", softmax_attention)
        self.replace(tm.LibraryMask, "matmul", matmul)

    def replace(self, owner, name, value):
        patch = unittest.mock.patch.object(owner, name, value)
        patch.start()
        self.addCleanup(patch.stop)


class GoldenAttention(AsOperators, Attention):
    """Attention by every route, against reference values."""


class GoldenMasks(AsOperators, Structured):
    """Structured masks likewise."""


class GoldenWalks(AsOperators, Walks):
    """Masks of walks likewise."""


class Models(AsOperators, Layers):
    """Layers and models."""


class GivenMasks(AsOperators, Functions):
    """Masks as functions of tensors that are given."""


class RowsAtATime(Rowwise):
    """Blocks whose rows are computed in parts."""


class Neighbourhoods(Clouds):
    """Point clouds."""


class GraphLayers(AsOperators, TransformerConv):
    """PyG's layer."""


class GraphAttention(AsOperators, GPS):
    """Attention in PyG's GPSConv."""


del Attention, Structured, Walks, Layers, Functions, Rowwise, Clouds, TransformerConv, GPS  # run by their own files
COMPILED = [name for name in dir(GraphLayers) if name.startswith("test_compiled")]
for name in COMPILED:
    setattr(GraphLayers, name, None)  # traces run the checks by themselves

# Failures that are known, by operator: none, in the form that torch wants of the file.
KNOWN = os.path.join(tempfile.mkdtemp(), "failures.json")
FailuresDict(KNOWN, {}).save()
atexit.register(shutil.rmtree, os.path.dirname(KNOWN))
for checked in (
    Operators,
    GoldenAttention,
    GoldenMasks,
    GoldenWalks,
    Models,
    GivenMasks,
    RowsAtATime,
    Neighbourhoods,
    GraphLayers,
    GraphAttention,
):
    generate_opcheck_tests(checked, ["topomask"], KNOWN)
del checked


if __name__ == "__main__":
    unittest.main()
