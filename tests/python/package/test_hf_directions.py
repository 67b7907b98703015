"""The random directions of FAVOR+ as a part of models of transformers: copies, pickles and files have them."""

import copy
import io
import tempfile
import unittest

import torch
from support import Case, needs, tm
from test_hf import NO_DROPOUT, SIZES, text_model

OMEGA = "topomask_features.topomask_favor.omega"


def favor(seed):
    return tm.FeatureMap.favor(8, 16, seed=seed)


def register(model, seed=0, name="topomask_favor", *, mask=None, features=None):
    mask = tm.NoneMask(16) if mask is None else mask
    tm.hf.register(mask, name, model=model, kind="kernel", features=features or favor(seed))
    model.set_attn_implementation(name)
    return model


def bert(seed=0, **options):
    model, inputs, _ = text_model("Bert", **SIZES, **NO_DROPOUT)
    return register(model, seed, **options), inputs


def directions(model):
    return [name for name in model.state_dict() if name.startswith("topomask_features.")]


def loaded(model, folder):
    return type(model).from_pretrained(folder).double().eval()


def series(terms):
    return tm.PowerSeriesMask(tm.Graph.path(16), torch.rand(3, terms) + 0.1).double()


@needs("transformers")
class Registered(Case):
    def test_directions_are_a_part_of_the_model(self):
        model, inputs = bert(3)
        self.assertEqual(directions(model), [OMEGA])
        self.assertTrue(torch.equal(model.get_buffer(OMEGA), favor(3).omega))
        self.assertEqual([name for name, _ in model.named_parameters() if "topomask" in name], [])
        want = model(*inputs).last_hidden_state
        tm.hf.register(tm.NoneMask(16), "topomask_alone", kind="kernel", features=favor(3))  # which belong to no model
        model.set_attn_implementation("topomask_alone")
        self.assertTrue(torch.equal(model(*inputs).last_hidden_state, want))
        self.assertFalse(torch.allclose(bert(4)[0](*inputs).last_hidden_state, want))

    def test_other_features_have_none(self):
        for features in ("elu", torch.exp, tm.FeatureMap.relu(0.1)):
            self.assertEqual(directions(bert(features=features)[0]), [])
        omega = torch.randn(16, 8, dtype=torch.float64, requires_grad=True)
        model, inputs = bert(features=tm.FeatureMap.favor(omega=omega))  # directions that learn are those of who learns them
        self.assertEqual(directions(model), [])
        model(*inputs).last_hidden_state.square().sum().backward()
        self.assertGreater(float(omega.grad.abs().max()), 0)

    def test_every_name_has_its_own(self):
        model, inputs = bert(3)
        want = model(*inputs).last_hidden_state
        register(model, 4, "topomask_favor_too")
        self.assertEqual(directions(model), [OMEGA, "topomask_features.topomask_favor_too.omega"])
        self.assertFalse(torch.allclose(model(*inputs).last_hidden_state, want))
        model.set_attn_implementation("topomask_favor")
        self.assertTrue(torch.equal(model(*inputs).last_hidden_state, want))
        register(model, 5)
        self.assertTrue(torch.equal(model(*inputs).last_hidden_state, bert(5)[0](*inputs).last_hidden_state))
        register(model, features="elu")
        self.assertEqual(directions(model), ["topomask_features.topomask_favor_too.omega"])

    def test_the_dtype_is_that_of_the_model(self):
        model, inputs = bert(3)
        want = model(*inputs).last_hidden_state
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.05)):
            model.to(dtype)
            self.assertEqual(model.get_buffer(OMEGA).dtype, dtype)
            self.close(model(*inputs).last_hidden_state, want, tolerance)

    def test_copies_and_pickles_have_directions_of_their_own(self):
        def pickled(model):
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            return torch.load(file, weights_only=False)

        model, inputs = bert(3)
        want = model(*inputs).last_hidden_state
        for way in (copy.deepcopy, pickled):
            other = way(model)
            self.assertTrue(torch.equal(other(*inputs).last_hidden_state, want))
            other.get_buffer(OMEGA).zero_()
            self.assertFalse(torch.allclose(other(*inputs).last_hidden_state, want))
            self.assertTrue(torch.equal(model(*inputs).last_hidden_state, want))

    def test_padded_and_compiled(self):
        model, (tokens,) = bert(3)
        padding = torch.ones(2, 16, dtype=torch.long)
        padding[0, 11:] = 0
        out = model(tokens, attention_mask=padding).last_hidden_state
        other = torch.where(padding.bool(), tokens, 0)
        self.assertTrue(torch.equal(model(other, attention_mask=padding).last_hidden_state[0, :11], out[0, :11]))
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        self.close(compiled(tokens, attention_mask=padding).last_hidden_state, out)
        model.load_state_dict(bert(4)[0].state_dict())
        self.close(compiled(tokens, attention_mask=padding).last_hidden_state,
                   bert(4)[0](tokens, attention_mask=padding).last_hidden_state)  # fmt: skip


@needs("transformers")
class Saved(Case):
    def test_a_model_that_is_loaded_computes_what_the_saved_one_did(self):
        for make in (lambda: tm.NoneMask(16), lambda: series(4), lambda: [series(4), series(3)]):
            mask = make()
            with self.subTest(mask=mask), tempfile.TemporaryDirectory() as folder:
                model, inputs = bert(3, mask=mask)
                want = model(*inputs).last_hidden_state
                model.save_pretrained(folder)
                again = register(loaded(model, folder), 4, mask=make())
                self.assertFalse(torch.allclose(again(*inputs).last_hidden_state, want))
                tm.hf.load_masks(again, folder)
                self.assertTrue(torch.equal(again.get_buffer(OMEGA), favor(3).omega))
                self.close(again(*inputs).last_hidden_state, want)

    def test_a_decoder(self):
        model, (tokens,), _ = text_model("Llama", **SIZES, num_key_value_heads=3)
        register(model, 3, mask=tm.CausalMask(16))
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again = register(loaded(model, folder), 4, mask=tm.CausalMask(16))
            tm.hf.load_masks(again, folder)
            self.close(again(tokens).last_hidden_state, model(tokens).last_hidden_state)

    def test_a_folder_without_directions_leaves_those_that_were_registered(self):
        from safetensors.torch import load_file, save_file

        for make in (lambda: tm.NoneMask(16), lambda: series(4)):
            mask = make()
            with self.subTest(mask=mask), tempfile.TemporaryDirectory() as folder:
                model, inputs = bert(3, mask=mask)
                model.save_pretrained(folder)
                tensors = load_file(f"{folder}/model.safetensors")
                del tensors[OMEGA]
                save_file(tensors, f"{folder}/model.safetensors", {"format": "pt"})
                again = register(loaded(model, folder), 4, mask=make())
                tm.hf.load_masks(again, folder)
                self.assertTrue(torch.equal(again.get_buffer(OMEGA), favor(4).omega))
                self.close(again(*inputs).last_hidden_state, bert(4, mask=mask)[0](*inputs).last_hidden_state)

    def test_directions_of_another_size_are_refused(self):
        model, _ = bert(3)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again = register(loaded(model, folder), features=tm.FeatureMap.favor(8, 17))
            self.refuses(RuntimeError, f"size mismatch for {OMEGA}", tm.hf.load_masks, again, folder)

    def test_a_model_without_masks_is_refused(self):
        model, _ = bert(3)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            text = "masks must be registered with model=BertModel first, got none"
            self.refuses(ValueError, text, tm.hf.load_masks, loaded(model, folder), folder)

    def test_states(self):
        model, inputs = bert(3)
        again, _ = bert(4)
        again.load_state_dict(model.state_dict())
        self.assertTrue(torch.equal(again(*inputs).last_hidden_state, model(*inputs).last_hidden_state))
        old = {name: tensor for name, tensor in model.state_dict().items() if name != OMEGA}
        again, _ = bert(4)
        again.load_state_dict(old)
        self.assertTrue(torch.equal(again.get_buffer(OMEGA), favor(4).omega))


if __name__ == "__main__":
    unittest.main()
