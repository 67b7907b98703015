"""The operators that masks consist of for torch.compile, run eagerly; and every call of one checked by torch's own checks of
registrations (schema, autograd, fake tensors, dynamic shapes), which generate_opcheck_tests makes of the tests here."""

import atexit
import os
import shutil
import tempfile
import unittest

import torch
from families import NODES, families, random
from support import Case, tm
from test_compile import AS_TENSORS
from topomask._traced import How
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
        for name in sorted(AS_TENSORS - {"none"}):
            self.same(name, How("multiplicative"), lambda q, k, v, mask: tm.softmax_attention(q, k, v, mask))

    def test_features_route(self):
        mask = families()["grf"]
        mask._route = "features"
        mask._form = mask._traced_form()
        q, k, v = inputs()
        out = mask._form.attention(mask, q, k, v, How("attention"))
        self.close(out, tm.attention(q, k, v, mask, features=None), 1e-8)
        out.sum().backward()

    def test_transformer_conv(self):
        edges = tm.Graph.erdos_renyi(12, 0.3, seed=1).edge_index()
        for edge_dim in (None, 2):
            layer = tm.pyg.TransformerConv(4, 3, heads=2, edge_dim=edge_dim)
            layer(torch.rand(12, 4), edges, None if edge_dim is None else torch.rand(edges.shape[1], 2)).sum().backward()


# Failures that are known, by operator: none, in the form that torch wants of the file.
KNOWN = os.path.join(tempfile.mkdtemp(), "failures.json")
FailuresDict(KNOWN, {}).save()
atexit.register(shutil.rmtree, os.path.dirname(KNOWN))
generate_opcheck_tests(Operators, ["topomask"], KNOWN)


if __name__ == "__main__":
    unittest.main()
