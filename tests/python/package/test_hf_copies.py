"""Masks as a part of models of transformers: copies, pickles, files, and training loops as people write them."""

import contextlib
import copy
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
from support import Case, needs, tm
from test_hf import MODELS, NO_DROPOUT, SIZES, text_model


def masks(shared=None):
    """A mask for each of two layers, of one graph."""
    graph = shared or tm.Graph.path(16)
    return [tm.PowerSeriesMask(graph, torch.rand(3, 4) + 0.1).double(), tm.PowerSeriesMask(graph, torch.rand(3, 4) + 0.1).double()]


def bert(name, mask=None, **options):
    model, inputs, _ = text_model("Bert", **SIZES, **NO_DROPOUT)
    tm.hf.register(masks() if mask is None else mask, name, model=model, **options)
    model.set_attn_implementation(name)
    return model, inputs


def learnt(model):
    return [p for name, p in model.named_parameters() if name.startswith("topomask_masks.")]


@needs("transformers")
class Copies(Case):
    def test_masks_are_parts_of_the_model(self):
        model, _ = bert("topomask_parts")
        names = {name for name, _ in model.named_parameters() if "topomask" in name}
        self.assertEqual(names, {f"topomask_masks.topomask_parts.{layer}.alpha" for layer in range(2)})
        self.assertLess({f"topomask_masks.topomask_parts.{layer}.graph_columns" for layer in range(2)}, set(model.state_dict()))
        model, _ = bert("topomask_part", tm.PowerSeriesMask(tm.Graph.path(16), heads=3).double())
        self.assertEqual([n for n, _ in model.named_parameters() if "topomask" in n], ["topomask_masks.topomask_part.alpha"])

    def test_a_copy_has_masks_of_its_own(self):
        for mask in (None, tm.PowerSeriesMask(tm.Graph.path(16), heads=3).double()):
            model, inputs = bert("topomask_copied", mask)
            want = model(*inputs).last_hidden_state
            teacher = copy.deepcopy(model)
            with torch.no_grad():
                for alpha in learnt(model):
                    alpha.copy_(torch.tensor([1.0, 3.0, -0.1, 0.2][: alpha.shape[1]]))
            self.assertFalse(torch.allclose(model(*inputs).last_hidden_state, want))
            self.close(teacher(*inputs).last_hidden_state, want)
            teacher(*inputs).last_hidden_state.square().sum().backward()
            self.assertTrue(all(alpha.grad is None for alpha in learnt(model)))
            self.assertTrue(all(alpha.grad is not None for alpha in learnt(teacher)))

    def test_several_models_and_kinds_under_one_name(self):
        first, inputs = bert("topomask_twice", kind="softmax")
        want = first(*inputs).last_hidden_state
        second, _ = bert("topomask_twice", kind="kernel", features="elu")
        self.assertFalse(torch.allclose(second(*inputs).last_hidden_state, want))
        self.assertTrue(torch.equal(first(*inputs).last_hidden_state, want))

    def test_pickle(self):
        for model, inputs in (bert("topomask_pickled"), (self.vision(), MODELS["ViT"]()[1])):
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            again = torch.load(file, weights_only=False)
            self.close(again(*inputs).last_hidden_state, model(*inputs).last_hidden_state)

    def vision(self):
        model, _, _ = MODELS["ViT"]()
        tm.hf.register(tm.GlobalTokens(tm.PowerSeriesMask(tm.Graph.grid(4, 4), heads=3)).double(), "topomask_vision", model=model)
        model.set_attn_implementation("topomask_vision")
        return model

    def test_a_pickle_in_another_process(self):
        """Which has registered nothing: as workers that are spawned."""
        model, inputs = bert("topomask_elsewhere")
        with tempfile.TemporaryDirectory() as folder:
            torch.save((model, inputs, model(*inputs).last_hidden_state.detach()), f"{folder}/model.pt")
            code = (
                "import torch; model, inputs, want = torch.load('model.pt', weights_only=False);"
                "assert torch.allclose(model(*inputs).last_hidden_state, want)"
            )
            said = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=folder, capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr[-2000:])


@needs("transformers")
class Files(Case):
    def round_trip(self, model, fresh, inputs):
        """fresh: registers masks of the same kind, with other values, in a model that was loaded."""
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again = type(model).from_pretrained(folder).double().eval()
            fresh(again)
            self.assertFalse(torch.allclose(again(*inputs).last_hidden_state, model(*inputs).last_hidden_state))
            tm.hf.load_masks(again, folder)
            self.close(again(*inputs).last_hidden_state, model(*inputs).last_hidden_state)
            for mine, theirs in zip(learnt(again), learnt(model), strict=True):
                self.assertTrue(torch.equal(mine, theirs))
            return again

    def test_masks_per_layer_over_one_graph(self):
        graph = tm.Graph.path(16)
        model, inputs = bert("topomask_saved", masks(graph))

        def fresh(again):
            tm.hf.register(masks(graph), "topomask_saved", model=again)
            again.set_attn_implementation("topomask_saved")

        self.round_trip(model, fresh, inputs)

    def test_one_mask_and_several_names(self):
        def given():
            mask = tm.GRFMask(tm.Graph.path(16), heads=3, walkers=4, seed=5).double()
            torch.nn.init.uniform_(mask.f)
            return mask

        def register(model):
            mask = given()
            tm.hf.register(mask, "topomask_first", model=model)
            tm.hf.register([mask, mask], "topomask_second", model=model, kind="kernel")
            model.set_attn_implementation("topomask_second")
            return model

        model, inputs, _ = text_model("Bert", **SIZES, **NO_DROPOUT)
        self.round_trip(register(model), register, inputs)

    def test_a_vision_model_in_shards(self):
        model, inputs, _ = MODELS["ViT"]()

        def register(model):
            graph = tm.Graph.grid(4, 4)
            inside = [tm.PowerSeriesMask(graph, torch.rand(3, 4) + 0.1) for _ in range(2)]
            tm.hf.register([tm.GlobalTokens(mask).double() for mask in inside], "topomask_shards", model=model)
            model.set_attn_implementation("topomask_shards")

        register(model)
        self.round_trip(model, register, inputs)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder, max_shard_size="20KB")
            self.assertGreater(len(list(pathlib.Path(folder).glob("*.safetensors"))), 2)
            again = type(model).from_pretrained(folder).double().eval()
            self.refuses(ValueError, "masks must be registered with model=ViTModel first", tm.hf.load_masks, again, folder)
            register(again)
            tm.hf.load_masks(again, folder)
            self.close(again(*inputs).last_hidden_state, model(*inputs).last_hidden_state)

    def test_other_graphs_are_refused(self):
        model, _ = bert("topomask_graphs")
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            other, _ = bert("topomask_graphs", masks(tm.Graph.cycle(16)))
            self.refuses(RuntimeError, "must be made of the graph", tm.hf.load_masks, other, folder)
            other, _ = bert("topomask_unsaved")
            self.refuses(ValueError, "must hold the 8 tensors of the model's masks, got 0", tm.hf.load_masks, other, folder)

    def test_state_dict(self):
        model, inputs = bert("topomask_state")
        again, _ = bert("topomask_state")
        again.load_state_dict(model.state_dict())
        self.close(again(*inputs).last_hidden_state, model(*inputs).last_hidden_state)
        state = model.state_dict()
        self.assertEqual(len({t.data_ptr() for t in state.values()}), len(state))
        name = "topomask_masks.topomask_state.0.alpha"
        self.assertEqual(state[name].data_ptr(), model.get_parameter(name).data_ptr())  # averages of weights write into states
        self.assertIs(model.state_dict(keep_vars=True)[name], model.get_parameter(name))


@needs("transformers")
class Training(Case):
    def test_a_training_loop(self):
        """A classifier on padded batches, float32, with dropout of hidden states, checkpointing, and in bfloat16 by autocast."""
        import transformers

        torch.manual_seed(0)
        config = transformers.BertConfig(vocab_size=20, **SIZES, attention_probs_dropout_prob=0.0, num_labels=2)
        tokens, padding = torch.randint(2, 20, (8, 16)), torch.ones(8, 16, dtype=torch.long)
        padding[::2, 9:] = 0
        labels = (tokens[:, 0] > 10).long()
        for checkpointing, autocast in ((False, False), (True, False), (False, True)):
            with self.subTest(checkpointing=checkpointing, autocast=autocast):
                model = transformers.BertForSequenceClassification(config)
                tm.hf.register([tm.GRFMask(tm.Graph.path(16), heads=3, seed=s) for s in range(2)], "topomask_loop", model=model)
                model.set_attn_implementation("topomask_loop")
                if checkpointing:
                    model.gradient_checkpointing_enable()
                before = [p.detach().clone() for p in learnt(model)]
                optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
                losses = []
                for _ in range(12):
                    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                        loss = model(tokens, attention_mask=padding, labels=labels).loss
                    loss.backward()
                    optimiser.step()
                    optimiser.zero_grad()
                    losses.append(float(loss))
                self.assertLess(losses[-1], 0.8 * losses[0])
                self.assertTrue(all(not torch.equal(a, b) for a, b in zip(before, learnt(model), strict=True)))

    @needs("accelerate")
    def test_the_trainer_resumes(self):
        """transformers' own loop: checkpoints hold the masks, and a run that resumes from one ends where the whole run did."""
        import transformers

        tokens = torch.randint(2, 20, (32, 16), generator=torch.Generator().manual_seed(0))
        data = [
            {"input_ids": row, "attention_mask": (torch.arange(16) < 10 + i % 7).long(), "labels": int(row[0] > 10)}
            for i, row in enumerate(tokens)
        ]

        def trainer(folder):
            torch.manual_seed(0)
            config = transformers.BertConfig(vocab_size=20, **SIZES, attention_probs_dropout_prob=0.0, num_labels=2)
            model = transformers.BertForSequenceClassification(config)
            graph = tm.Graph.path(16)
            tm.hf.register([tm.GRFMask(graph, heads=3, seed=s) for s in range(2)], "topomask_trainer", model=model)
            model.set_attn_implementation("topomask_trainer")
            settings = {
                "max_steps": 6,
                "save_steps": 3,
                "logging_steps": 3,
                "learning_rate": 3e-3,
                "report_to": [],
                "use_cpu": True,
            }
            arguments = transformers.TrainingArguments(folder, **settings, disable_tqdm=True)
            return transformers.Trainer(model=model, args=arguments, train_dataset=data)

        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            whole = trainer(folder)
            whole.train()
            again = trainer(folder)
            before = [p.detach().clone() for p in learnt(again.model)]
            again.train(resume_from_checkpoint=f"{folder}/checkpoint-3")
        for first, one, other in zip(before, learnt(whole.model), learnt(again.model), strict=True):
            self.assertFalse(torch.equal(first, one))
            self.assertTrue(torch.equal(one, other))

    def test_bfloat16(self):
        model, inputs = bert("topomask_narrow")
        model.float()
        want = model(*inputs).last_hidden_state
        self.close(model.to(torch.bfloat16)(*inputs).last_hidden_state, want, 0.05)
        self.assertEqual({p.dtype for p in learnt(model)}, {torch.float32})  # masks keep their precision

    def test_checkpointing_changes_no_gradient(self):
        model, inputs = bert("topomask_checkpointed")
        gradients = []
        for _ in range(2):
            model.train()(*inputs).last_hidden_state.square().sum().backward()
            gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
            model.zero_grad()
            model.gradient_checkpointing_enable()
        for one, other in zip(*gradients, strict=True):
            self.close(one, other)


if __name__ == "__main__":
    unittest.main()
