"""Layers, models, feature maps, plans; a mask in a model that is trained on two processes."""

import os
import tempfile
import unittest
import unittest.mock

import torch
from families import NODES, random
from support import Case, dense_attention, tm
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode


class Products(TorchDispatchMode):
    """The shapes that torch multiplies."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if function in (torch.ops.aten.addmm.default, torch.ops.aten.mm.default):
            self.shapes += [tuple(x.shape) for x in arguments if x.dim() == 2]
        return function(*arguments, **(options or {}))


class Layers(Case):
    def test_masked_attention_is_attention_between_linear_layers(self):
        mask = tm.GRFMask(tm.Graph.grid(5, 6), heads=3)
        for kind in ("kernel", "softmax", "additive"):
            layer = tm.nn.MaskedAttention(12, heads=3, mask=mask, kind=kind, features=tm.FeatureMap.relu(0.1))
            x = torch.rand(2, NODES, 12)
            q, k, v = (part.unflatten(-1, (3, 4)).transpose(1, 2) for part in layer.qkv(x).chunk(3, -1))
            matrix = mask.dense()
            scores = q @ k.mT / 2
            if kind == "kernel":
                want = dense_attention(q, k, v, matrix, lambda x: x.relu() + 0.1)
            else:
                weights = (scores + matrix).softmax(-1) if kind == "additive" else torch.exp(scores) * matrix
                want = weights / weights.sum(-1, keepdim=True) @ v
            self.close(layer(x), layer.projection(want.transpose(1, 2).flatten(2)), 1e-4)
        self.assertIn("mask.f", dict(layer.named_parameters()))
        self.refuses(ValueError, "width must be", tm.nn.MaskedAttention, 10, heads=3, mask=mask)
        self.refuses(ValueError, "1 or 2 heads, got 3", tm.nn.MaskedAttention, 8, heads=2, mask=mask)
        self.refuses(ValueError, "kind must be", tm.nn.MaskedAttention, 12, heads=3, mask=mask, kind="x")

    def test_norms_before_linear_layers_are_torchs_and_narrow_on_a_gpu(self):
        x = (torch.randn(2, NODES, 12) + 1).requires_grad_()
        ours, torchs = tm._layer_norm.NormBeforeLinear(12), torch.nn.LayerNorm(12)
        self.close(ours(x), torchs(x), 0)
        self.assertEqual(list(ours.state_dict()), list(torchs.state_dict()))
        for device in ("cuda",) if torch.cuda.is_available() else ():
            ours, torchs, x = ours.to(device), torchs.to(device), x.detach().to(device).requires_grad_()
            for low in (torch.bfloat16, torch.float16):
                with torch.autocast(device, low):
                    got, want = ours(x), torchs(x).to(low)
                self.assertEqual(got.dtype, low)
                self.close(got.float(), want.float(), 1e-2)
                gradients = [torch.autograd.grad(y.float().square().sum(), x)[0] for y in (got, want)]
                self.close(*gradients, 5e-2)

    def test_norms_of_narrow_rows_on_a_gpu_are_the_operator_without_one(self):
        """As far as dtypes go, with tensors that hold nothing."""
        float32, bfloat16 = torch.float32, torch.bfloat16
        with FakeTensorMode(), torch.no_grad():
            for width, given, autocast, want in (
                (64, float32, None, float32),
                (64, float32, bfloat16, bfloat16),
                (64, bfloat16, bfloat16, bfloat16),
                (66, float32, bfloat16, None),
                (260, float32, None, None),
                (64, torch.float64, bfloat16, None),
                (64, torch.float16, bfloat16, None),
            ):
                norm = tm._layer_norm.NormBeforeLinear(width, device="cuda")
                x = torch.empty(3, width, device="cuda", dtype=given)
                self.assertEqual(tm._layer_norm.supports(x, norm.weight, norm.bias, autocast or given), want is not None)
                if want is not None:
                    enabled = unittest.mock.patch("torch.is_autocast_enabled", return_value=autocast is not None)
                    with enabled, unittest.mock.patch("torch.get_autocast_dtype", return_value=autocast):
                        self.assertEqual((norm(x).dtype, norm(x).shape), (want, x.shape))

    def test_norms_inside_transforms_are_torchs(self):
        for device in ["cpu"] + ["cuda"] * torch.cuda.is_available():
            norm, x = tm._layer_norm.NormBeforeLinear(64, device=device), torch.rand(5, 64, device=device)
            self.assertFalse(tm._ops.is_transformed())
            self.close(torch.func.vmap(norm)(x), norm(x), 1e-5)
            total = lambda x, norm=norm: (norm(x).square().sum(), self.assertTrue(tm._ops.is_transformed()))[0]  # noqa: E731
            self.assertEqual(torch.func.grad(total)(x).shape, x.shape)

    def test_a_vision_transformer_learns(self):
        torch.manual_seed(0)
        for cls in (True, False):
            # At a rate of 1e-2 rounding decides, which differs by processor, how far 20 steps get.
            model = tm.nn.ViT(image_size=8, classes=2, channels=1, patch_size=2, width=12, depth=2, heads=3, cls_token=cls).double()
            images = torch.rand(8, 1, 8, 8).double()
            labels = (images[:, 0, :4].mean((1, 2)) > images[:, 0, 4:].mean((1, 2))).long()
            optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
            losses = []
            for _ in range(40):
                optimiser.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                optimiser.step()
                losses.append(float(loss))
            self.assertLess(losses[-1], 0.7 * losses[0])
            self.assertTrue(all(p.grad is not None for p in model.parameters()))

    def test_a_graph_transformer_in_16_bits_computes_what_its_layers_do(self):
        mask = tm.NeighboursMask(tm.Graph.grid(5, 6))
        model = tm.nn.GraphTransformer(features=11, classes=3, masks=[mask], width=12, heads=2)
        x = torch.rand(NODES, 11, requires_grad=True)
        plain = torch.nn.Linear(11, 12)
        plain.load_state_dict(model.embedding.state_dict())

        def results(layer):
            with torch.autocast("cpu", torch.bfloat16):
                out = layer(x)
            return [out, *torch.autograd.grad(out.float().square().sum(), [x, *layer.parameters()])]

        with Products() as products:
            made = results(model.embedding)
        # Rows that are not multiples of 16 bytes have no fast kernels on a GPU.
        self.assertEqual({size for shape in products.shapes for size in shape}, {NODES, 16})
        for got, want in zip(made, results(plain)):
            self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
            self.close(got.float(), want.float(), 1e-2)
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual(model(x).shape, (NODES, 3))
        self.close(model.embedding(x), plain(x), 0)

    def test_the_shape_of_torchs_own_function(self):
        mask = tm.NeighboursMask(tm.Graph.grid(5, 6))
        q, k, v = (torch.rand(2, heads, NODES, 8) for heads in (4, 2, 2))
        repeated = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        want = torch.nn.functional.scaled_dot_product_attention(q, *repeated, attn_mask=mask.dense() > 0)
        self.close(tm.nn.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True), want, 1e-5)
        self.refuses(ValueError, "dropout_p must be 0", tm.nn.scaled_dot_product_attention, q, k, v, mask, 0.1)

    def test_without_a_topomask_mask_it_is_torchs(self):
        ours, theirs = tm.nn.scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention
        q, k, v = (torch.rand(2, 4, 7, 8) for _ in range(3))
        bias, seen = torch.rand(7, 7), torch.rand(7, 7) > 0.3
        pair = q, k[:, :2], v[:, :2]
        for arguments, options in (
            ((q, k, v), {}),
            ((q, k, v, None), {"is_causal": True}),
            ((q, k, v, None, 0.0, True), {"scale": 0.3}),
            ((q, k, v, bias), {}),
            ((q, k, v), {"attn_mask": seen}),
            (pair, {"enable_gqa": True}),
            ((q[..., :3, :], k, v), {}),
        ):
            self.assertTrue(torch.equal(ours(*arguments, **options), theirs(*arguments, **options)))
        torch.manual_seed(0)
        got = ours(q, k, v, dropout_p=0.5)
        torch.manual_seed(0)
        self.assertTrue(torch.equal(got, theirs(q, k, v, dropout_p=0.5)))
        self.refuses(TypeError, "attn_mask must be a Mask, a tensor or None, got 3", ours, q, k, v, 3)


class Plans(Case):
    def test_a_plan_prints_and_has_its_numbers(self):
        mask = tm.GRFMask(tm.Graph.grid(64, 64))
        q = torch.rand(4096, 8)
        plan = tm.explain(q, q, q, mask)
        self.assertEqual(plan.route, "sparse")
        self.assertGreater(plan.seconds, 0)
        self.assertGreater(plan.bytes, 0)
        self.assertIn("chosen", str(plan))
        self.assertEqual([e.route for e in plan.estimates], ["dense", "sparse", "features", "operator", "strips", "fused"])
        self.assertEqual(tm.plan_attention(mask, features=8, value_dim=8).route, "sparse")
        self.assertEqual(tm.plan_softmax(mask, additive=True).route, "strips")
        self.refuses(ValueError, "memory_budget must allow", tm.attention, q, q, q, mask, memory_budget=1)

    def test_bad_arguments(self):
        mask = tm.none_mask(5)
        q = torch.rand(5, 3)
        self.refuses(TypeError, "mask must be a topomask.Mask, got NoneType", tm.attention, q, q, q, None)
        self.refuses(ValueError, "route must be automatic", tm.attention, q, q, q, mask, route="fast")
        self.refuses(ValueError, "k must be like q", tm.attention, q, q[:, :2], q, mask)
        self.refuses(ValueError, "features must be one of", tm.attention, q, q, q, mask, features="gelu")
        self.refuses(ValueError, "mode must be", tm.softmax_attention, q, q, q, mask, mode="x")
        self.refuses(ValueError, "eps must be", tm.attention, q, q, q, mask, eps=0.0)


class Features(Case):
    def test_every_map(self):
        x = random(4, 6) - 0.5
        maps = tm.FeatureMap
        self.close(maps.relu(0.1)(x), x.clamp(min=0) + 0.1)
        self.close(maps.elu()(x), torch.where(x > 0, x + 1, x.exp()))
        self.close(maps.exp().scaled("inverse_sqrt")(x), (x / 6**0.5).exp())
        self.close(maps.squared_relu()(x), x.clamp(min=0).square())
        self.assertTrue(torch.equal(maps.identity()(x), x))
        favor = maps.favor(6, 512, seed=1)
        self.assertFalse(torch.equal(favor(x), favor.redrawn(2)(x)))
        self.close(favor(x) @ favor(x).T, (x @ x.T / 6**0.5).exp(), 0.2)
        stable = maps.favor(6, 64, stabilised=True)
        q, k, v = (random(NODES, 6) for _ in range(3))
        mask = tm.none_mask(NODES)
        plain = maps.favor(6, 64)
        self.close(tm.attention(q, k, v, mask, features=stable), tm.attention(q, k, v, mask, features=plain))
        self.refuses(ValueError, "favor carries its own", favor.scaled, "inverse_sqrt")
        self.refuses(ValueError, "must be favor", maps.relu().redrawn, 3)

    def test_the_number_of_threads_changes_nothing(self):
        maps = tm.FeatureMap
        every = (maps.relu(0.1), maps.elu(), maps.exp(), maps.squared_relu(), maps.favor(7, 19), maps.favor(7, 19, stabilised=True))
        before = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, before)

        def results(features, dtype):
            x = random(3, 2003, 7, dtype=dtype).sub(0.5).requires_grad_()
            made = torch.stack([features(x), features.queries(x), features.keys(x)])
            return made.detach(), torch.autograd.grad(made, x, made.detach().cos())[0]

        for features in every:
            for dtype in (torch.float32, torch.float64):
                torch.set_num_threads(1)
                expected = results(features, dtype)
                for threads in (2, 3, 7):
                    with self.subTest(features=features, dtype=dtype, threads=threads):
                        torch.set_num_threads(threads)
                        for got, want in zip(results(features, dtype), expected):
                            self.assertTrue(torch.equal(got, want))

    def test_the_offset_is_that_of_max_x_0_plus_offset_alone(self):
        maps = tm.FeatureMap
        self.assertEqual(maps.relu().relu_offset, 0.0)
        self.assertEqual(maps.relu(0.1).scaled("none").relu_offset, 0.1)
        others = (maps.relu().scaled("inverse_sqrt"), maps.custom("relu", lambda x: x.relu().clamp(max=6)), maps.identity(),
                  maps.squared_relu(), maps.favor(4, 8))  # fmt: skip
        for other in others:
            self.assertIsNone(other.relu_offset, other)


def train(rank, folder):
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    torch.manual_seed(rank)  # DDP makes the parameters alike; walks are the same by their seed
    layer = tm.nn.MaskedAttention(8, heads=2, mask=tm.GRFMask(tm.Graph.grid(5, 6), heads=2, seed=3))
    model = torch.nn.parallel.DistributedDataParallel(layer)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        model(torch.rand(2, NODES, 8)).square().mean().backward()
        optimiser.step()
    torch.save(layer.state_dict(), f"{folder}/{rank}.pt")
    dist.barrier()
    os._exit(0)  # destroy_process_group aborts in one run of ten in torch's own threads, without topomask too


class Distributed(Case):
    @unittest.skipUnless(torch.distributed.is_available(), "torch without torch.distributed")
    def test_parameters_and_walks_are_one_on_two_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(train, args=(folder,), nprocs=2)
            states = [torch.load(os.path.join(folder, f"{rank}.pt")) for rank in range(2)]
        self.assertEqual(states[0].keys(), states[1].keys())
        for name, tensor in states[0].items():
            self.assertTrue(torch.equal(tensor, states[1][name]), name)


if __name__ == "__main__":
    unittest.main()
