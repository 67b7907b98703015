"""The random directions of FAVOR+ as a part of layers: they move, copy, save and load with them. Those of models of
transformers are in test_hf_directions.py."""

import copy
import io
import pickle
import unittest

import torch
from support import Case, needs, tm

GRID = tm.Graph.grid(4, 4)
FAVOR = tm.FeatureMap.favor
DTYPES = (torch.float64, torch.float32, torch.bfloat16)


def layer(seed=0, **options):
    """The same weights for every seed of the directions."""
    torch.manual_seed(0)
    features = options.pop("features", None) or FAVOR(4, 8, seed=seed)
    return tm.nn.MaskedAttention(12, heads=3, mask=tm.GRFMask(GRID, heads=3, walkers=4), features=features, **options)


def block(seed=0, chunk=0):
    torch.manual_seed(0)
    return tm.nn.Block(12, heads=3, mask=tm.NeighboursMask(GRID), features=FAVOR(4, 8, seed=seed), chunk=chunk)


def gps(seed=0, mask="grf"):
    torch.manual_seed(0)
    made = tm.pyg.GPSAttention(12, heads=3, mask=mask, features=FAVOR(4, 8, seed=seed))
    made.set_graph(EDGES, 16)
    return made.eval()


def vit(seed=0):
    from timm.models.vision_transformer import VisionTransformer

    torch.manual_seed(0)
    sizes = {"img_size": 16, "patch_size": 4, "embed_dim": 12, "depth": 2, "num_heads": 3, "num_classes": 5}
    mask = tm.GlobalTokens(tm.PowerSeriesMask(GRID, heads=3))
    return VisionTransformer(**sizes, attn_layer=tm.timm.attn_layer(mask, features=FAVOR(4, 8, seed=seed))).eval()


EDGES = GRID.edge_index()


def output(model, x):
    out = model(x)
    return out[0] if isinstance(out, tuple) else out


def without_directions(model):
    """A state_dict as it was before directions were a part of layers."""
    state = model.state_dict()
    versions = {name: value for name, value in state._metadata.items() if not name.endswith("directions")}
    state = type(state)((name, tensor) for name, tensor in state.items() if "directions" not in name)
    state._metadata = versions
    return state


class Maps(Case):
    def test_directions_move_as_tensors_do(self):
        favor, x = FAVOR(4, 8, seed=3, stabilised=True), torch.rand(5, 4)
        self.assertEqual(favor.omega.dtype, torch.float64)
        for arguments in ((torch.float32,), ("cpu", torch.float32), (x,)):
            moved = favor.to(*arguments)
            self.assertTrue(torch.equal(moved.omega, favor.omega.float()))
            self.assertEqual((moved.name, moved.stabilised, moved.drawn), (favor.name, favor.stabilised, favor.drawn))
            self.close(moved(x), favor(x), 1e-6)
        for dtype in (torch.bfloat16, torch.float16):
            self.assertEqual(favor.to(dtype=dtype).omega.dtype, dtype)
            self.close(favor.to(dtype)(x), favor(x), 0.05)
        self.assertTrue(favor.to(device="meta").omega.is_meta)
        self.assertIs(favor.to(torch.float64), favor)
        self.assertTrue(torch.equal(favor.to(torch.bfloat16).redrawn(5).omega, FAVOR(4, 8, seed=5).omega))
        again = pickle.loads(pickle.dumps(favor.to(torch.bfloat16)))
        self.assertTrue(torch.equal(again(x), favor.to(torch.bfloat16)(x)))

    def test_other_maps_have_nothing_to_move(self):
        for features in (tm.FeatureMap.relu(0.1), tm.FeatureMap.elu(), tm.FeatureMap.custom("cos", torch.cos)):
            self.assertIs(features.to("meta", torch.bfloat16), features)

    def test_directions_are_real_numbers(self):
        for dtype in (torch.int64, torch.complex64):
            self.refuses(ValueError, f"FeatureMap.to: dtype must be one of floating point, got {dtype}", FAVOR(4, 8).to, dtype)


class Layers(Case):
    """What holds for every layer that takes features."""

    def makers(self):
        x = torch.rand(2, 16, 12)
        yield "MaskedAttention", layer, x, ["directions.omega"]
        yield "Block", block, x, ["attention.directions.omega"]
        yield "Block in chunks", lambda seed=0: block(seed, chunk=7), x, ["attention.directions.omega"]
        yield "GPSAttention", gps, x[:1], ["directions.omega"]
        yield "GPSAttention without a graph", lambda seed=0: gps(seed, "none"), x, ["directions.omega"]

    def test_directions_are_a_buffer(self):
        for name, make, x, names in self.makers():
            with self.subTest(layer=name):
                made = make(3)
                self.assertEqual([n for n in made.state_dict() if "omega" in n], names)
                self.assertEqual([n for n, _ in made.named_buffers() if "omega" in n], names)
                self.assertTrue(torch.equal(made.get_buffer(names[0]), FAVOR(4, 8, seed=3).omega))
                self.assertFalse(torch.allclose(output(made, x), output(make(4), x)))

    def test_a_layer_that_is_loaded_computes_what_the_saved_one_did(self):
        for name, make, x, _ in self.makers():
            with self.subTest(layer=name):
                saved, file = make(3), io.BytesIO()
                torch.save(saved.state_dict(), file)
                file.seek(0)
                for state in (saved.state_dict(), dict(saved.state_dict()), torch.load(file, weights_only=True)):
                    for assign in (False, True):
                        again = make(4)
                        output(again, x)
                        again.load_state_dict(state, assign=assign)
                        self.assertTrue(torch.equal(output(again, x), output(saved, x)))

    def test_a_state_from_before_leaves_the_directions(self):
        for name, make, x, _ in self.makers():
            with self.subTest(layer=name):
                old = without_directions(make(3))
                for state in (old, dict(old)):
                    again = make(4)
                    again.load_state_dict(state)
                    self.assertTrue(torch.equal(output(again, x), output(make(4), x)))

    def test_copies_and_pickles_have_directions_of_their_own(self):
        for name, make, x, (buffer,) in self.makers():
            for way in (copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))):
                with self.subTest(layer=name):
                    made = make(3)
                    want, other = output(made, x), way(made)
                    for one in (made, other):
                        if name.startswith("GPS"):
                            one.set_graph(EDGES, 16)
                    self.assertTrue(torch.equal(output(other, x), want))
                    other.get_buffer(buffer).zero_()
                    self.assertFalse(torch.allclose(output(other, x), want))
                    self.assertTrue(torch.equal(output(made, x), want))

    def test_directions_take_the_dtype_of_the_layer(self):
        for name, make, x, (buffer,) in self.makers():
            want = output(make(3), x)
            for dtype in DTYPES:
                with self.subTest(layer=name, dtype=dtype):
                    made = make(3).to(dtype)
                    self.assertEqual(made.get_buffer(buffer).dtype, dtype)
                    self.close(output(made, x.to(dtype)), want, 0.05)
            self.assertEqual(make(3).half().get_buffer(buffer).dtype, torch.float16)
            with torch.autocast("cpu", torch.bfloat16):
                self.close(output(make(3), x).float(), want, 0.05)

    def test_compiled(self):
        for name, make, x, _ in self.makers():
            if name.startswith(("GPSAttention", "Block in chunks")):
                continue  # which make masks and take derivatives in the call
            with self.subTest(layer=name):
                torch._dynamo.reset()
                made = make(3)
                compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
                self.close(output(compiled, x), output(made, x), 1e-6)
                for assign in (False, True):
                    made.load_state_dict(make(4 + assign).state_dict(), assign=assign)
                    self.close(output(compiled, x), output(make(4 + assign), x), 1e-6)


class Assigned(Case):
    def setUp(self):
        self.x = torch.rand(2, 16, 12)

    def test_features_are_assigned_anew(self):
        made = layer(3)
        made.features = made.features.redrawn(5)
        self.assertTrue(torch.equal(made(self.x), layer(5)(self.x)))
        self.assertEqual(made.features.drawn, (8, 4, True))
        for features in ("elu", None, tm.FeatureMap.relu(0.1), torch.exp):
            made.features = features
            self.assertIs(made.features, features)
            self.assertNotIn("directions.omega", made.state_dict())
            self.assertTrue(torch.equal(made(self.x), tm.nn.MaskedAttention.forward(made, self.x)))
        made.features = FAVOR(4, 8, seed=6)
        self.assertTrue(torch.equal(made(self.x), layer(6)(self.x)))

    def test_new_directions_take_the_place_and_dtype_of_the_old(self):
        for dtype in DTYPES:
            made = layer(3).to(dtype)
            made.features = FAVOR(4, 8, seed=5)
            self.assertEqual(made.directions.omega.dtype, dtype)
            self.assertTrue(torch.equal(made(self.x.to(dtype)), layer(5).to(dtype)(self.x.to(dtype))))

    def test_a_module_is_a_submodule_and_other_features_may_follow(self):
        made = layer(3)
        made.features = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Softplus())
        self.assertIn("features.0.weight", dict(made.named_parameters()))
        self.assertNotIn("directions.omega", made.state_dict())
        made(self.x).sum().backward()
        self.assertIsNotNone(made.features[0].weight.grad)
        made.features = "relu"
        self.assertNotIn("features.0.weight", made.state_dict())
        self.assertTrue(torch.equal(made(self.x), layer(features="relu")(self.x)))
        made.features = torch.nn.Softplus()
        made.features = FAVOR(4, 8, seed=6)
        self.assertTrue(torch.equal(made(self.x), layer(6)(self.x)))

    def test_given_directions_are_copied(self):
        omega = torch.randn(8, 4)
        made, want = layer(features=FAVOR(omega=omega)), omega.clone()
        made.load_state_dict(layer(3).float().state_dict())
        self.assertTrue(torch.equal(omega, want))
        self.assertTrue(torch.equal(made(self.x), layer(3).float()(self.x)))

    def test_directions_that_learn_stay_the_tensor_that_was_given(self):
        omega = torch.nn.Parameter(torch.randn(8, 4))
        made = layer(3)
        made.features = FAVOR(omega=omega)
        self.assertIs(made.features.omega, omega)
        self.assertNotIn("directions.omega", made.state_dict())
        made(self.x).square().sum().backward()
        self.assertGreater(float(omega.grad.abs().max()), 0)

    def test_compiled(self):
        torch._dynamo.reset()
        made = layer(3)
        compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
        for features, want in ((FAVOR(4, 8, seed=5), layer(5)), ("elu", layer(features="elu")), (FAVOR(4, 8, seed=6), layer(6))):
            made.features = features
            self.close(compiled(self.x), want(self.x), 1e-6)
        made.double()
        self.close(compiled(self.x.double()), layer(6).double()(self.x.double()))

    def test_functional_call(self):
        made = layer(3)
        other = {"directions.omega": FAVOR(4, 8, seed=4).omega}
        self.assertTrue(torch.equal(torch.func.functional_call(made, other, (self.x,)), layer(4)(self.x)))
        self.assertTrue(torch.equal(made(self.x), layer(3)(self.x)))

    def test_states_that_do_not_fit(self):
        made, plain = layer(3), layer(features="relu")
        state = made.state_dict()
        del state["directions.omega"]
        self.refuses(RuntimeError, 'Missing key.*"directions.omega"', made.load_state_dict, state)
        self.refuses(RuntimeError, 'Unexpected key.*"directions.omega"', plain.load_state_dict, made.state_dict())
        self.refuses(RuntimeError, "size mismatch for directions.omega", made.load_state_dict,
                     layer(features=FAVOR(4, 9)).state_dict())  # fmt: skip
        made.load_state_dict(plain.state_dict())
        self.assertTrue(torch.equal(made(self.x), layer(3)(self.x)))

    def test_a_layer_that_was_pickled_before(self):
        """With the map as an attribute."""
        made = layer(3)
        del made._modules["directions"]
        made.__dict__["features"] = FAVOR(4, 8, seed=3)
        again = pickle.loads(pickle.dumps(made))
        self.assertTrue(torch.equal(again(self.x), layer(3)(self.x)))

    def test_models(self):
        graph = tm.nn.GraphTransformer(
            features=5, classes=3, masks=[tm.NeighboursMask(GRID)] * 2, width=12, heads=3, phi=FAVOR(4, 8)
        )
        image = tm.nn.ViT(image_size=8, patch_size=2, classes=3, width=12, depth=2, heads=3, features=FAVOR(4, 8))
        for model in (graph, image):
            names = [name for name, _ in model.named_buffers() if name.endswith("omega")]
            self.assertEqual(names, [f"blocks.{i}.attention.directions.omega" for i in range(2)])


class Own(tm.nn.KeptFeatures):
    """A layer as users write it."""

    def __init__(self, features):
        super().__init__()
        self.features = features

    def forward(self, q):
        return tm.attention(q, q, q, tm.NoneMask(5), features=self.features)


class LayersOfYourOwn(Case):
    def test_they_keep_the_directions(self):
        made, q = Own(FAVOR(4, 8, seed=1)), torch.rand(5, 4)
        self.assertEqual(list(made.state_dict()), ["directions.omega"])
        other = Own(FAVOR(4, 8, seed=2))
        other.load_state_dict(made.state_dict())
        self.assertTrue(torch.equal(other(q), made(q)))
        self.assertEqual(repr(made.directions), "Directions([8, 4])")

    def test_the_meta_device(self):
        made, q = Own(FAVOR(4, 8, seed=1)), torch.rand(5, 4)
        empty = Own(FAVOR(4, 8, seed=2)).to("meta")
        self.assertTrue(empty.features.omega.is_meta)
        for assign in (False, True):
            filled = copy.deepcopy(empty) if assign else copy.deepcopy(empty).to_empty(device="cpu")
            filled.load_state_dict(made.state_dict(), assign=assign)
            self.assertTrue(torch.equal(filled(q), made(q)))

    def test_before_features_are_assigned_there_are_none(self):
        made = tm.nn.KeptFeatures()
        self.assertFalse(hasattr(made, "features"))
        self.refuses(AttributeError, "'KeptFeatures' object has no attribute 'features'", getattr, made, "features")


@needs("timm")
class Timm(Case):
    def test_every_block_has_directions_that_are_saved(self):
        saved, images = vit(3), torch.rand(2, 3, 16, 16)
        self.assertEqual(
            [name for name in saved.state_dict() if "omega" in name], [f"blocks.{i}.attn.directions.omega" for i in range(2)]
        )
        again = vit(4)
        self.assertFalse(torch.allclose(again(images), saved(images)))
        again.load_state_dict(saved.state_dict())
        self.assertTrue(torch.equal(again(images), saved(images)))
        again = vit(4)
        again.load_state_dict(without_directions(vit(3)))
        self.assertTrue(torch.equal(again(images), vit(4)(images)))
        for way in (copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))):
            self.assertTrue(torch.equal(way(saved)(images), saved(images)))
        self.close(torch.compile(saved, backend="aot_eager", fullgraph=True)(images), saved(images), 1e-5)
        narrow = vit(3).bfloat16()
        self.assertEqual(narrow.blocks[0].attn.directions.omega.dtype, torch.bfloat16)
        self.close(narrow(images.bfloat16()).float(), saved(images), 0.1)


if __name__ == "__main__":
    unittest.main()
