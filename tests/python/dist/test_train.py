"""Training over ranks: the same losses on any number of them, runs that are killed and go on, what is refused."""

import json
import os
import pathlib
import random
import signal
import tempfile
import threading
import time
import unittest

import ranks
import topomask as tm
import torch
from topomask import train as tt
from topomask.train.checkpoint import load_checkpoint

ROADS = ranks.ROOT.parent / "shared" / "data" / "graphs" / "roads-12-cities.txt.gz"
STEPS = 12


def edge_list(folder, side=14):
    """A grid with some diagonals, and a component that may have no label."""
    grid = tm.Graph.grid(side, side)
    offsets, columns = grid.offsets.tolist(), grid.columns.tolist()
    edges = [(i, columns[e]) for i in range(side * side) for e in range(offsets[i], offsets[i + 1]) if columns[e] > i]
    edges += [(i, i + side + 1) for i in range(0, side * (side - 2), 5)]
    edges += [(side * side + i, side * side + i + 1) for i in range(4)]
    path = os.path.join(folder, "graph.txt")
    pathlib.Path(path).write_text("".join(f"{a} {b}\n" for a, b in edges))
    return path


def settings(path, **changes):
    config = tt.RunConfig()
    small = {
        "data.path": path,
        "data.regions": 4,
        "data.given_labels": 0.3,
        "model.width": 12,
        "model.heads": 2,
        "model.walkers": 3,
    }
    small |= {
        "model.hops": 4,
        "train.precision": "float64",
        "train.steps": STEPS,
        "train.learning_rate": 1e-2,
        "train.log_every": 1,
    }
    for key, value in {**small, "train.checkpoint_every": 3, "train.evaluate_every": 5, "train.chunk": 16, **changes}.items():
        config.set(key, value)
    return config


def training(out, path, changes, stop_after=0):
    return tt.train(settings(path, **changes), out, stop_after=stop_after, quiet=True)


def own_shard(out, folders, changes, stop_after=0):
    """Trains on what is in the folder of this rank."""
    return training(out, folders[torch.distributed.get_rank()], {**changes, "data.kind": "shards"}, stop_after)


def normalised(path):
    """The weights of the rows of this rank, of a shard that was normalised and of the shard of the normalised graph."""
    graph = tm.read_graph(path)
    layout = tm.dist.Layout(tm.dist.partition(graph, torch.distributed.get_world_size(), "ranges"))
    made = (tm.dist.shard(graph, layout).normalised(0.7), tm.dist.shard(graph.normalised(0.7), layout))
    return [shard.weights.tolist() for shard in made]


def killed(out, path, who, step, delay, how=signal.SIGKILL):
    """The rank `who` sends itself a signal some time after it has begun a step."""
    advance, rank = tt.Trainer.advance, int(torch.distributed.get_rank())
    began = time.monotonic()

    def watched(self):
        nonlocal began
        began = time.monotonic()  # of the last step that this rank has begun
        if rank == who and self.step == step:
            threading.Timer(delay, os.kill, (os.getpid(), how)).start()
        return advance(self)

    tt.Trainer.advance = watched
    try:
        training(out, path, {})
    except tm.dist.RankError as error:
        return time.monotonic() - began, str(error)
    return None


def with_a_gradient(out, path, bad):
    """The last rank has such a gradient in step 8, of a finite loss."""
    advance = tt.Trainer.advance

    def spoilt(gradient):
        return torch.where(torch.arange(gradient.numel()).view_as(gradient) == 0, bad, gradient)

    def changed(self):
        if self.step == 7 and self.world.rank == self.world.size - 1:
            next(self.model.parameters()).register_hook(spoilt)
        return advance(self)

    return _diverged(changed, out, path)


def with_a_weight(out, path):
    """A weight becomes infinite in step 3, which is followed by a checkpoint."""
    advance = tt.Trainer.advance

    def changed(self):
        value = advance(self)
        if self.step == 3:
            next(self.model.parameters()).detach().view(-1)[0] = float("inf")
        return value

    return _diverged(changed, out, path)


def _diverged(advance, out, path):
    tt.Trainer.advance = advance
    try:
        return "nothing", str(training(out, path, {}))
    except FloatingPointError as error:
        return type(error).__name__, str(error)


def other_seed(out, path):
    return training(out, path, {"train.seed": torch.distributed.get_rank()})


def missing_on_one(out, path):
    return training(out, path if torch.distributed.get_rank() != 1 else path + ".gone", {})


def lines(out, kind="train"):
    """Metrics without what depends on the machine."""
    found = [json.loads(line) for line in (pathlib.Path(out) / "metrics.jsonl").read_text().splitlines()]
    timed = ("items_per_s", "step_ms", "memory_mb")
    return [{key: value for key, value in line.items() if key not in timed} for line in found if line["kind"] == kind]


class Train(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = edge_list(cls.folder.name)
        cls.whole = cls.out("whole")
        cls.summary = training(cls.whole, cls.path, {})  # one process, without torch.distributed

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def out(cls, name):
        return os.path.join(cls.folder.name, name)

    def assert_same_run(self, out, tolerance=1e-9, whole=None):
        whole = whole or self.whole
        for kind in ("train", "eval"):
            got, want = lines(out, kind), lines(whole, kind)
            self.assertEqual([line["step"] for line in got], [line["step"] for line in want])
            for a, b in zip(got, want):
                self.assertLess(abs(a["loss"] - b["loss"]), tolerance)
                self.assertEqual(a.get("accuracy"), b.get("accuracy"))
        a, b = (load_checkpoint(os.path.join(folder, "checkpoint.safetensors")) for folder in (out, whole))
        self.assertEqual((a.step, a.tensors.keys()), (b.step, b.tensors.keys()))
        for name, tensor in a.tensors.items():
            self.assertEqual(tensor.shape, b.tensors[name].shape, name)
            # Adam divides by the root of the second moment, which is nearly 0 where a gradient is.
            self.assertLess(float((tensor - b.tensors[name]).abs().max()) if tensor.numel() else 0.0, 1e-7, name)

    def test_it_learns(self):
        losses = [line["loss"] for line in lines(self.whole)]
        self.assertEqual(len(losses), STEPS)
        self.assertLess(losses[-1], 0.8 * losses[0])
        self.assertEqual(set(self.summary["accuracy"]), {"validation", "test"})
        self.assertEqual([line["step"] for line in lines(self.whole, "eval")], [5, 10, 12, 12])

    def test_losses_do_not_depend_on_the_ranks(self):
        for size, replicas in ((2, 1), (4, 1), (4, 2), (2, 2)):
            with self.subTest(ranks=size, replicas=replicas):
                out = self.out(f"ranks{size}x{replicas}")
                found = ranks.run(size, training, out, self.path, {"ranks.data": replicas})
                self.assertEqual([f["loss"] for f in found], [found[0]["loss"]] * size)
                self.assert_same_run(out)

    def test_other_masks_over_ranks(self):
        for name, changes in (
            ("neighbours", {"model.mask": "neighbours", "model.attention": "softmax"}),
            ("series", {"model.mask": "series", "model.hops": 2, "model.attention": "elu"}),
            ("own walks", {"model.per_layer_walks": True, "model.sampler": "antithetic", "data.features": "degree"}),
            ("fixed", {"model.learn_mask": False, "data.features": "constant", "train.optimiser": "adam", "train.clip_norm": 0}),
        ):
            with self.subTest(name):
                one, three = self.out(f"{name} 1"), self.out(f"{name} 3")
                changes = {**changes, "train.steps": 4}
                training(one, self.path, changes)
                ranks.run(3, training, three, self.path, changes)
                for a, b in zip(lines(one), lines(three)):
                    self.assertLess(abs(a["loss"] - b["loss"]), 1e-9)

    def test_dropout_does_not_depend_on_the_ranks(self):
        changes = {"model.dropout": 0.3, "train.steps": 4}
        one, three, plain = self.out("dropout 1"), self.out("dropout 3"), lines(self.whole)
        training(one, self.path, changes)
        ranks.run(3, training, three, self.path, {**changes, "train.chunk": 5})
        for kind in ("train", "eval"):
            for a, b in zip(lines(one, kind), lines(three, kind), strict=True):
                self.assertLess(abs(a["loss"] - b["loss"]), 1e-9)
        self.assertGreater(abs(lines(one)[0]["loss"] - plain[0]["loss"]), 1e-3)

    def test_shards_train_as_the_whole_graph(self):
        graph = tm.read_graph(self.path)
        shards = {size: self.shards(graph, size) for size in (1, 3)}
        for name, changes in (
            ("grf", {}),
            ("own walks", {"model.per_layer_walks": True, "model.sampler": "antithetic"}),
            ("series", {"model.mask": "series", "model.hops": 2}),
            ("neighbours", {"model.mask": "neighbours", "data.features": "degree"}),
        ):
            changes = {**changes, "train.steps": 3}
            whole = self.out(f"{name} whole")
            training(whole, self.path, changes)
            for size, folders in shards.items():
                with self.subTest(name, ranks=size):
                    out = self.out(f"{name} shards {size}")
                    ranks.run(size, own_shard, out, folders, changes)
                    for kind in ("train", "eval"):
                        for a, b in zip(lines(out, kind), lines(whole, kind), strict=True):
                            self.assertLess(abs(a["loss"] - b["loss"]), 1e-9)

    def test_a_run_goes_on_over_other_shards(self):
        graph, out = tm.read_graph(self.path), self.out("shard slices")
        ranks.run(2, own_shard, out, self.shards(graph, 2), {}, 5)
        ranks.run(3, own_shard, out, self.shards(graph, 3), {}, 3)
        ranks.run(1, training, out, self.path, {})
        self.assert_same_run(out)

    def test_shards_for_another_number_of_ranks_are_refused(self):
        folders = self.shards(tm.read_graph(self.path), 3)
        for outcome in ranks.start(2, own_shard, self.out("refused"), folders, {}):
            self.assertEqual(outcome[:2], ("error", "ValueError"), outcome[-1])
            self.assertRegex(outcome[2], "expected a shard for each of the 2 ranks, got 3")

    def test_normalised_shards_are_those_of_the_normalised_graph(self):
        for weights in ranks.run(3, normalised, self.path):
            self.assertEqual(*weights)
            self.assertGreater(len(weights[0]), 0)

    def shards(self, graph, size):
        """A folder for each rank that holds the index and the shard of that rank alone."""
        whole = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name))
        tm.dist.write_shards(graph, tm.dist.partition(graph, size, "ranges"), whole)
        files = sorted(path for path in whole.iterdir() if "index" not in path.name)
        self.assertEqual(len(files), size)
        for rank, file in enumerate(files):
            own = whole / f"rank{rank}"
            own.mkdir()
            for path in (file, *(path for path in whole.iterdir() if "index" in path.name)):
                (own / path.name).write_bytes(path.read_bytes())
        return [str(whole / f"rank{rank}") for rank in range(size)]

    def test_a_run_goes_on_with_another_number_of_ranks(self):
        out = self.out("slices")
        for size, slice_ in ((2, 4), (1, 3), (3, 1), (4, 0)):
            found = ranks.run(size, training, out, self.path, {"train.checkpoint_every": 100}, slice_)
        self.assertEqual((found[0]["resumed_from"], found[0]["steps"]), (8, STEPS))
        self.assert_same_run(out)

    def test_a_killed_run_goes_on_with_another_number_of_ranks(self):
        draw = random.Random(11)
        for case in range(6):
            size, after = draw.choice(((3, 2), (2, 4), (4, 3)))
            who, step, delay = draw.randrange(size), draw.randrange(STEPS - 1), draw.random() * 0.02
            with self.subTest(case=case, ranks=size, who=who, step=step, delay=delay):
                out = self.out(f"killed{case}")
                outcomes = ranks.start(size, killed, out, self.path, who, step, delay, timeout=10)
                self.assertIsNone(outcomes[who])
                for rank in set(range(size)) - {who}:
                    self.assertEqual(outcomes[rank][0], "result", outcomes[rank][-1])
                    seconds, text = outcomes[rank][1]
                    self.assertLess(seconds, 10 + 5)
                    self.assertIn(f"rank {who} stopped", text)
                ranks.run(after, training, out, self.path, {})
                self.assert_same_run(out)

    def test_a_rank_that_is_stopped_is_named(self):
        for who, step in ((0, 1), (2, 7)):
            with self.subTest(who=who):
                out = self.out(f"stopped{who}")
                outcomes = ranks.start(3, killed, out, self.path, who, step, 0.0, signal.SIGSTOP, timeout=4, stopped=(who,))
                self.assertEqual(outcomes[who], ("late",))
                for rank in {0, 1, 2} - {who}:
                    self.assertEqual(outcomes[rank][0], "result", outcomes[rank][-1])
                    seconds, text = outcomes[rank][1]
                    self.assertLess(seconds, 4 + 5)
                    self.assertIn(f"rank {who} stopped: no sign of life", text)
                ranks.run(2, training, out, self.path, {})
                self.assert_same_run(out)

    def test_ranks_that_differ_are_refused_before_any_work(self):
        for function, pattern in (
            (other_seed, "train: train.seed must be the same on all ranks, got 0 on rank 0 and 1 on rank 1"),
            (missing_on_one, "train: rank 1: .*graph.txt.gone"),
        ):
            out = self.out("refused")
            for outcome in ranks.start(2, function, out, self.path):
                self.assertEqual(outcome[:2], ("error", "ValueError"), outcome[-1])
                self.assertRegex(outcome[2], pattern)
            self.assertFalse(os.path.exists(out))

    def test_another_configuration_does_not_resume(self):
        with self.assertRaisesRegex(ValueError, "it is of a run with model.walkers = 3, and this one has 5; .*--restart"):
            training(self.whole, self.path, {"model.walkers": 5})

    def test_the_best_weights_are_judged(self):
        # At this rate validation accuracy rises and falls.
        changes = {"train.select": "best", "train.evaluate_every": 1, "train.learning_rate": 0.3, "train.clip_norm": 0.0}
        whole, out = self.out("best"), self.out("best slices")
        summary = training(whole, self.path, changes)
        *found, validation, test = lines(whole, "eval")
        self.assertEqual([line["step"] for line in found], list(range(1, STEPS + 1)))
        best = max(found, key=lambda line: (line["accuracy"], -line["loss"]))
        self.assertLess(best["step"], STEPS)
        self.assertLess(found[-1]["accuracy"], best["accuracy"])
        self.assertEqual((validation["accuracy"], validation["loss"]), (best["accuracy"], best["loss"]))
        self.assertEqual(summary["accuracy"], {"validation": best["accuracy"], "test": test["accuracy"]})
        # A run that was stopped and continued goes on with the best weights of before.
        for size, slice_ in ((2, best["step"]), (1, 1), (3, 0)):
            ranks.run(size, training, out, self.path, changes, slice_)
        self.assert_same_run(out, 1e-7, whole)
        kept = load_checkpoint(os.path.join(out, "checkpoint.safetensors")).tensors
        self.assertEqual(kept["train/best"].tolist()[::2], [best["accuracy"], STEPS - best["step"]])
        weights = [name for name in kept if name.startswith("best/")]
        self.assertEqual(len(weights), len([name for name in kept if name.startswith("optimiser/first.")]))
        self.assertTrue(any(not torch.equal(kept[name], kept[name.removeprefix("best/")]) for name in weights))
        # Finished: evaluated again, with nothing written.
        self.assertEqual(ranks.run(1, training, out, self.path, changes)[0]["accuracy"], summary["accuracy"])
        self.assertEqual(len(lines(out, "eval")), STEPS + 2)
        with self.assertRaisesRegex(ValueError, "it is of a run with train.evaluate_every = 1, and this one has 2"):
            training(out, self.path, {**changes, "train.evaluate_every": 2})

    def test_the_best_weights_need_validation_data(self):
        with self.assertRaisesRegex(
            ValueError, "train: select = best needs validation data, got a configuration that holds none out"
        ):
            training(self.out("best of none"), self.path, {"train.select": "best", "data.validation_fraction": 0})

    def test_replicas_must_divide_the_ranks(self):
        with self.assertRaisesRegex(ValueError, "ranks.data must divide the 1 ranks, got 2"):
            training(self.out("replicas"), self.path, {"ranks.data": 2})

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_a_gpu_that_is_not_there_is_refused(self):
        with self.assertRaisesRegex(ValueError, "train.device must be cpu where there is no GPU, got cuda"):
            training(self.out("gpu"), self.path, {"train.device": "cuda"})

    def test_a_run_that_diverges_stops(self):
        with self.assertRaisesRegex(FloatingPointError, "the loss is (nan|inf) at step [0-9]+: the run has diverged"):
            training(
                self.out("diverged"),
                self.path,
                {"train.learning_rate": 1e30, "train.clip_norm": 0, "train.precision": "float32"},
            )

    def test_gradients_that_are_not_finite_stop_every_rank(self):
        for bad, said in ((float("inf"), "inf"), (float("nan"), "nan")):
            with self.subTest(gradient=said):
                out = self.out(f"{said} gradients")
                for kind, text in ranks.run(3, with_a_gradient, out, self.path, bad):
                    self.assertEqual(kind, "FloatingPointError")
                    self.assertRegex(
                        text,
                        f"^train: the norm of the gradients is {said} at step 8: the run has diverged. .* may help. "
                        f"{out} keeps its checkpoint of step 6: with other settings, train in another folder or start over",
                    )
                kept = load_checkpoint(os.path.join(out, "checkpoint.safetensors"))
                self.assertEqual(kept.step, 6)
                self.assertTrue(all(bool(tensor.isfinite().all()) for tensor in kept.tensors.values()))
                ranks.run(2, training, out, self.path, {})  # goes on from there
                self.assert_same_run(out)

    def test_weights_that_are_not_finite_are_not_saved(self):
        out = self.out("infinite")
        for kind, text in ranks.run(2, with_a_weight, out, self.path):
            self.assertEqual(kind, "FloatingPointError")
            self.assertRegex(text, f"^train: .*weight is not finite at step 3: the run has diverged.*{out} has no checkpoint yet")
        self.assertFalse(os.path.exists(os.path.join(out, "checkpoint.safetensors")))

    @unittest.skipUnless(ROADS.exists(), "the road network is not here")
    def test_the_road_network(self):
        changes = {"data.regions": 16, "model.width": 8, "train.steps": 2, "train.precision": "float32", "train.chunk": 65536}
        # METIS gives each rank whole cities, between which nothing is exchanged.
        changes |= {"train.evaluate_every": 0, "data.validation_fraction": 0.0, "ranks.partition": "ranges"}
        graph = tm.read_graph(str(ROADS))
        self.assertGreater(int(tm.dist.partition(graph, 4, "ranges").statistics(graph).halo.min()), 0)
        one = training(self.out("roads1"), str(ROADS), changes)
        losses = [line["loss"] for line in lines(self.out("roads1"))]
        self.assertEqual(len(losses), 2)
        for size in (2, 4):
            with self.subTest(ranks=size):
                found = ranks.run(size, training, self.out(f"roads{size}"), str(ROADS), changes)
                for line, loss in zip(lines(self.out(f"roads{size}")), losses):
                    self.assertLess(abs(line["loss"] - loss), 1e-5 * loss)
                self.assertLess(abs(one["loss"]["test"] - found[0]["loss"]["test"]), 1e-4 * losses[0])

    @unittest.skipUnless(ROADS.exists() and tm.dist.has_metis(), "the road network or METIS is not here")
    def test_parts_of_the_road_network_hardly_touch(self):
        graph = tm.read_graph(str(ROADS))
        for parts in (4, 16):
            halo = int(tm.dist.partition(graph, parts, "metis").statistics(graph).halo.sum())
            self.assertLess(halo, 0.01 * graph.num_nodes)


if __name__ == "__main__":
    unittest.main()
