"""What holds for every mask as a module: products, attention, gradients, state, copies, moves."""

import copy
import io
import pickle
import unittest
import unittest.mock

import torch
from families import NODES, Ring, families, random
from support import Case, dense_attention, tm
from topomask._ops import method as _ops_method


def inputs(dtype=torch.float64):
    return [random(3, 2, NODES, 4, dtype=dtype).roll(shift, -2).requires_grad_() for shift in (0, 1, 2)]


class EveryFamily(Case):
    @classmethod
    def setUpClass(cls):
        cls.masks = families()

    def test_attention_and_gradients_are_those_of_the_definition(self):
        for name, mask in self.masks.items():
            with self.subTest(name=name):
                q, k, v = inputs()
                parameters = list(mask.parameters())
                grad = random(3, 2, NODES, 4)
                out = tm.attention(q, k, v, mask)
                want = dense_attention(q, k, v, mask.dense().double())
                self.close(out, want, 1e-6 if name == "tree, smooth" else 1e-9)
                got = torch.autograd.grad(out, [q, k, v, *parameters], grad)
                expected = torch.autograd.grad(want, [q, k, v, *parameters], grad)
                for a, b in zip(got, expected):
                    self.close(a, b, 1e-6 if name == "tree, smooth" else 1e-8)

    def test_products_are_those_of_the_matrix(self):
        for name, mask in self.masks.items():
            with self.subTest(name=name):
                x, matrix = random(2, NODES, 3), mask.dense().double()
                self.close(mask(x), matrix @ x, 1e-6)
                self.close(mask.matmul_transposed(x), matrix.mT @ x, 1e-6)

    def test_copies_and_state_give_the_same(self):
        for name, mask in self.masks.items():
            with self.subTest(name=name):
                q, k, v = inputs()
                want = tm.attention(q, k, v, mask)
                copies = [copy.deepcopy(mask), pickle.loads(pickle.dumps(mask))]
                file = io.BytesIO()
                torch.save(mask.state_dict(), file)
                file.seek(0)
                loaded = copy.deepcopy(mask)
                for parameter in loaded.parameters():
                    torch.nn.init.constant_(parameter, 0.3)
                loaded.load_state_dict(torch.load(file, weights_only=True))
                for other in (*copies, loaded):
                    self.close(tm.attention(q, k, v, other), want, 0)
                    for mine, yours in zip(mask.parameters(), other.parameters()):
                        self.assertIsNot(mine, yours)

    def test_precision_follows_to_but_never_falls_to_half(self):
        for name, mask in self.masks.items():
            with self.subTest(name=name):
                if name == "auto":
                    continue  # chooses again for another precision
                q, k, v = inputs()
                want = tm.attention(q, k, v, mask)
                single = copy.deepcopy(mask).float()
                got = tm.attention(q.float(), k.float(), v.float(), single)
                self.close(got, want, 1e-3)
                single.bfloat16()
                self.assertTrue(all(p.dtype == torch.float32 for p in single.parameters()))
                self.close(tm.attention(q.float(), k.float(), v.float(), single), got, 0)
                low = tm.attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), single)
                self.assertEqual(low.dtype, torch.bfloat16)

    def test_a_step_of_an_optimiser_changes_the_mask(self):
        for name, mask in self.masks.items():
            with self.subTest(name=name):
                learnt = copy.deepcopy(mask)
                if not list(learnt.parameters()):
                    continue
                before = learnt.dense().detach().clone()
                q, k, v = inputs()
                optimiser = torch.optim.SGD(learnt.parameters(), lr=0.1)
                for _ in range(2):  # twice: nothing of the first graph is kept
                    optimiser.zero_grad()
                    tm.attention(q, k, v, learnt).square().sum().backward()
                    optimiser.step()
                self.assertFalse(torch.equal(learnt.dense(), before))

    def test_it_prints(self):
        for name, mask in self.masks.items():
            with self.subTest(name=name):
                self.assertIn(str(NODES), repr(mask))


class Functions(Case):
    def test_gradients_flow_to_any_tensor_that_is_given(self):
        graph = tm.Graph.grid(5, 6).to(torch.float64).normalised()
        raw = torch.zeros(2, 4, dtype=torch.float64, requires_grad=True)
        q, k, v = inputs()
        for _ in range(2):
            mask = tm.power_series_mask(graph, torch.nn.functional.softplus(raw))
            tm.attention(q, k, v, mask).sum().backward()
        self.assertEqual(list(mask.parameters()), [])
        self.assertGreater(float(raw.grad.abs().sum()), 0)

    def test_masks_without_parameters_are_planned_by_their_buffers(self):
        graph = tm.Graph.grid(5, 6)
        for mask, dtype in (
            (tm.NeighboursMask(graph.to(torch.float64)), torch.float64),
            (tm.NeighboursMask(graph), torch.float32),
            (tm.GlobalTokens(tm.NeighboursMask(graph.to(torch.float64))), torch.float64),
            (tm.GRFMask(graph, heads=2).double(), torch.float64),
            (tm.NoneMask(30), torch.float32),
        ):
            asked = []

            def method(target, name, *arguments, asked=asked):
                if name == "plan_attention":
                    asked.append(arguments[1])
                return _ops_method(target, name, *arguments)

            with unittest.mock.patch("topomask._ops.method", method):
                mask.prepare()
            self.assertEqual(asked[-1], dtype, mask)

        class Fixed(tm.Mask):
            def __init__(self):
                super().__init__(3)
                self.register_buffer("weight", torch.tensor(2.0, dtype=torch.float64))

            def matmul(self, x):
                return x * self.weight

        self.assertTrue(torch.equal(Fixed().dense(), 2 * torch.eye(3, dtype=torch.float64)))

    def test_masks_share_a_basis(self):
        graph = tm.Graph.grid(5, 6).to(torch.float64).normalised()
        basis = tm.power_series_basis(graph, 4)
        q, k, v = inputs()
        for seed in range(3):
            alpha = torch.rand(2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
            shared, own = tm.power_series_mask(basis, alpha), tm.power_series_mask(graph, alpha)
            self.assertTrue(torch.equal(shared.dense(), own.dense()))
            self.assertTrue(torch.equal(tm.attention(q, k, v, shared), tm.attention(q, k, v, own)))
        self.assertTrue(torch.equal(copy.deepcopy(shared).dense(), own.dense()))
        self.assertEqual(shared.float().dense().dtype, torch.float32)
        with self.assertRaisesRegex(ValueError, "alpha must have 4 coefficients"):
            tm.power_series_mask(basis, torch.ones(5, dtype=torch.float64)).dense()

    def test_values_follow_the_order_of_the_edges(self):
        edges = torch.tensor([[2, 0, 1, 0], [0, 1, 2, 0]])
        values = torch.tensor([3.0, 1.0, 2.0, 4.0], requires_grad=True)
        mask = tm.sparse_mask(tm.Pattern.from_edge_index(edges), values)
        want = torch.zeros(3, 3)
        want[edges[0], edges[1]] = values.detach()
        self.assertTrue(torch.equal(mask.dense(), want))
        mask.dense()[2, 0].backward()
        self.assertEqual(values.grad.tolist(), [1, 0, 0, 0])
        self.assertTrue(torch.equal(mask.argument("pattern").edge_index(), edges))

    def test_functional_call_takes_other_parameters(self):
        mask = families()["grf"]
        q, k, v = inputs()
        other = {"f": (mask.f.detach() * 2).requires_grad_()}
        x = random(2, NODES, 3)
        self.close(torch.func.functional_call(mask, other, (x,)), mask(x) * 4)

    def test_a_state_with_other_walks_is_refused_and_changes_nothing(self):
        graph = tm.Graph.grid(5, 6)
        walks = tm.sample_walks(graph, fixed_hops=3, seed=1)
        columns = walks.columns.clone()
        mask, other = tm.GRFMask(walks), tm.GRFMask(graph, fixed_hops=3, seed=2)
        self.refuses(RuntimeError, "must be made of the graph", mask.load_state_dict, other.state_dict())
        self.assertTrue(torch.equal(walks.columns, columns))
        layer = tm.nn.MaskedAttention(4, mask=mask)
        layer.load_state_dict(tm.nn.MaskedAttention(4, mask=tm.GRFMask(walks)).state_dict())
        without = {name: p for name, p in layer.state_dict().items() if "walks" not in name}
        self.assertEqual([name[:10] for name in layer.load_state_dict(without, strict=False).missing_keys], ["mask.walks"] * 5)

    def test_frozen_parameters_get_no_gradient(self):
        mask = families()["grf"].requires_grad_(False)
        q, k, v = inputs()
        tm.attention(q, k, v, mask).sum().backward()
        self.assertIsNone(mask.f.grad)

    def test_a_module_can_be_shared_by_layers_and_around_another(self):
        inner = families()["grf"]
        outer = tm.GlobalTokens(inner, 2)
        self.assertEqual([name for name, _ in outer.named_parameters()], ["mask.f"])
        self.assertEqual(outer.size, NODES + 2)
        self.close(outer.dense()[:, 2:, 2:], inner.dense())


class OwnMask(Case):
    def test_a_transposed_product_of_its_own_is_taken(self):
        class Shift(tm.Mask):
            called = 0

            def matmul(self, x):
                return x.roll(1, -2)

            def matmul_transposed(self, x):
                Shift.called += 1
                return x.roll(-1, -2)

        q, k, v = inputs()
        tm.attention(q, k, v, Shift(NODES), route="operator").sum().backward()
        self.assertGreater(Shift.called, 0)

    def test_the_transposed_product_by_derivatives_has_a_gradient_only_where_it_is_asked_for(self):
        mask, x = Ring(NODES), random(NODES, 3)
        want = mask.dense().detach().mT @ x
        learnt = mask.matmul_transposed(x)
        self.close(learnt, want)
        self.assertTrue(learnt.requires_grad)
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                got = mask.matmul_transposed(x), mask.matmul_transposed(x.clone())
            for y in got:
                self.assertFalse(y.requires_grad)
                self.close(y, want)

        class Around(tm.Mask):  # products of the library are differentiable once
            def __init__(self):
                super().__init__(NODES)
                self.inner = tm.NeighboursMask(tm.Graph.grid(5, 6).to(torch.float64))

            def matmul(self, x):
                return self.inner(x)

        with torch.no_grad():
            self.close(Around().matmul_transposed(x), Around().inner.dense() @ x)

    def test_masks_around_it_are_made_once_and_follow_it(self):
        ring = Ring(NODES)
        ring.scale = 1.0
        matmul = ring.matmul
        ring.matmul = lambda x: ring.scale * matmul(x)
        outer = tm.GlobalTokens(ring, 2)
        made = outer._object
        x = random(NODES + 2, 3)
        for change in (None, "attribute", "parameter"):
            if change == "attribute":
                ring.scale = 3.0
            elif change == "parameter":
                with torch.no_grad():
                    ring.a.mul_(2)
            want = torch.nn.functional.pad(ring.dense(), (2, 0, 2, 0), value=1.0)
            self.close(outer(x), want @ x)
            q, k, v = (random(1, NODES + 2, 4).roll(shift, -2) for shift in range(3))
            self.close(tm.attention(q, k, v, outer), dense_attention(q, k, v, want.detach()), 1e-9)
            self.assertIs(outer._object, made)
        ring.a = torch.nn.Parameter(torch.tensor(0.125, dtype=torch.float64))
        self.assertIsNot(outer._object, made)
        outer.mask = Ring(NODES)
        self.close(outer.dense()[2:, 2:], outer.mask.dense())

    def test_it_has_heads(self):
        class Scaled(tm.Mask):
            def __init__(self):
                super().__init__(NODES, heads=2)
                self.a = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))

            def matmul(self, x):
                return x * self.a[:, None, None] + x.sum(-2, keepdim=True)

        mask = Scaled()
        q, k, v = inputs()
        self.close(tm.attention(q, k, v, mask), dense_attention(q, k, v, mask.dense()), 1e-9)

    def test_it_is_released(self):
        import gc
        import weakref

        mask = Ring(NODES)
        q, k, v = inputs()
        out = tm.attention(q, k, v, mask).sum()
        seen = weakref.ref(mask)
        del mask
        out.backward()  # the graph keeps it
        del out
        gc.collect()
        self.assertIsNone(seen())

    def test_without_a_product_it_says_so(self):
        self.refuses(NotImplementedError, "must define its product", tm.Mask(3).matmul, torch.ones(3, 1))

    def test_an_error_in_it_comes_through(self):
        class Wrong(tm.Mask):
            def matmul(self, x):
                return x[..., :1]

        q, k, v = inputs()
        with self.assertRaisesRegex(Exception, "the result must be"):
            tm.attention(q, k, v, Wrong(NODES), route="operator")


if __name__ == "__main__":
    unittest.main()
