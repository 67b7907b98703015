"""Layers, models, feature maps, plans; a mask in a model that is trained on two processes."""

import os
import tempfile
import unittest

import torch
from families import NODES, random
from support import Case, dense_attention, tm


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

    def test_a_vision_transformer_learns(self):
        torch.manual_seed(0)
        for cls in (True, False):
            model = tm.nn.ViT(image_size=8, classes=2, channels=1, patch_size=2, width=12, depth=2, heads=3, cls_token=cls)
            images = torch.rand(8, 1, 8, 8)
            labels = (images[:, 0, :4].mean((1, 2)) > images[:, 0, 4:].mean((1, 2))).long()
            optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
            losses = []
            for _ in range(20):
                optimiser.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                optimiser.step()
                losses.append(float(loss))
            self.assertLess(losses[-1], 0.7 * losses[0])
            self.assertTrue(all(p.grad is not None for p in model.parameters()))

    def test_the_shape_of_torchs_own_function(self):
        mask = tm.NeighboursMask(tm.Graph.grid(5, 6))
        q, k, v = (torch.rand(2, heads, NODES, 8) for heads in (4, 2, 2))
        repeated = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        want = torch.nn.functional.scaled_dot_product_attention(q, *repeated, attn_mask=mask.dense() > 0)
        self.close(tm.nn.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True), want, 1e-5)
        self.refuses(ValueError, "dropout_p must be 0", tm.nn.scaled_dot_product_attention, q, k, v, mask, 0.1)


class Plans(Case):
    def test_a_plan_prints_and_has_its_numbers(self):
        mask = tm.GRFMask(tm.Graph.grid(64, 64))
        q = torch.rand(4096, 8)
        plan = tm.explain(q, q, q, mask)
        self.assertEqual(plan.route, "sparse")
        self.assertGreater(plan.seconds, 0)
        self.assertGreater(plan.bytes, 0)
        self.assertIn("chosen", str(plan))
        self.assertEqual([e.route for e in plan.estimates], ["dense", "sparse", "features", "operator", "fused"])
        self.assertEqual(tm.plan_attention(mask, features=8, value_dim=8).route, "sparse")
        self.assertEqual(tm.plan_softmax(mask, additive=True).route, "dense")
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
