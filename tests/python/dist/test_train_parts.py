"""What training over ranks is made of: labels and splits, configurations, checkpoints."""

import os
import pathlib
import tempfile
import unittest

import ranks
import topomask as tm
import torch
from test_train import edge_list, settings
from topomask import train as tt
from topomask.train import data as td
from topomask.train import source as ts
from topomask.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint


class Data(unittest.TestCase):
    def test_regions_are_those_of_the_nearest_seed(self):
        with tempfile.TemporaryDirectory() as folder:
            graph = tm.read_graph(edge_list(folder, 9))
        count, size = 3, graph.num_nodes
        chosen = torch.randperm(size, generator=torch.Generator().manual_seed(4))[:count].tolist()
        offsets, columns = graph.offsets.tolist(), graph.columns.tolist()
        distance = [[size] * count for _ in range(size)]
        for label, seed in enumerate(chosen):
            distance[seed][label], queue = 0, [seed]
            for node in queue:
                for other in columns[offsets[node] : offsets[node + 1]]:
                    if distance[other][label] == size:
                        distance[other][label] = distance[node][label] + 1
                        queue.append(other)
        want = [min(d) < size and d.index(min(d)) or (0 if min(d) < size else -1) for d in distance]
        self.assertEqual(ts.regions(graph, count, 4).tolist(), want)
        self.assertIn(-1, want)

    def test_a_split_has_the_fractions_asked_for(self):
        labels = torch.arange(1000) % 5 - 1
        options = tt.RunConfig().data
        options.given_labels, options.validation_fraction, options.test_fraction = 0.25, 0.1, 0.2
        part = td.split(labels, options)
        self.assertEqual(torch.bincount(part, minlength=5).tolist(), [420, 60, 120, 200, 200])
        self.assertTrue(torch.equal(part == td.UNLABELLED, labels < 0))


class Config(unittest.TestCase):
    def test_the_example_is_read(self):
        config = tt.read_config(str(ranks.ROOT / "examples" / "roads.json"))
        self.assertEqual((config.model.layers, config.model.mask, config.data.regions), (2, "grf", 16))
        self.assertEqual(config.train.select, "best")
        again = tt.parse_config(config.json())
        self.assertEqual(again.values(), config.values())

    def test_what_is_wrong_is_named(self):
        for text, pattern in (
            ('{"model": {"widht": 8}}', r"^x: unknown key 'model.widht'; did you mean 'model.width'\?$"),
            ('{"train": {"lr": 8}}', r"unknown key 'train.lr'; did you mean 'train.learning_rate'\?"),
            ('{"train": {"walkers": 8}}', r"unknown key 'train.walkers'; did you mean 'model.walkers'\?"),
            ('{"modle": {"width": 8}}', r"unknown key 'modle'; did you mean 'model'\?"),
            ('{"data": {"motif": "caveman"}}', r"unknown key 'data.motif'$"),
            ('{"model": 3}', "model must be an object in braces, got 3"),
            ('{"model": {"width": "wide"}}', 'model.width must be an integer, got "wide"'),
            ('{"model": {"width": 8.5}}', "model.width must be an integer, got 8.5"),
            ('{"model": {"learn_mask": 1}}', "model.learn_mask must be true or false, got 1"),
            ('{"model": {"heads": 0}}', "model.heads must be at least 1, got 0"),
            ('{"data": {"given_labels": 2}}', "data.given_labels must be at most 1, got 2.0"),
            ('{"model": {"halting_probability": 0}}', r"model.halting_probability must be above 0, got 0.0"),
            ('{"model": {"halting_probability": 1}}', r"model.halting_probability must be below 1, got 1.0"),
            ('{"model": {"dropout": 1}}', "model.dropout must be below 1, got 1.0"),
            ('{"model": {"dropout": -0.5}}', "model.dropout must be at least 0, got -0.5"),
            ('{"train": {"beta1": 1}}', "train.beta1 must be below 1, got 1.0"),
            ('{"train": {"beta2": 1.5}}', "train.beta2 must be below 1, got 1.5"),
            ('{"train": {"beta2": -1}}', "train.beta2 must be at least 0, got -1.0"),
            ('{"train": {"epsilon": 0}}', "train.epsilon must be at least 1e-30, got 0.0"),
            ('{"train": {"learning_rate": NaN}}', "train.learning_rate must be finite, got NaN"),
            ('{"model": {"mask": "toeplitz"}}', "model.mask must be one of grf, series, neighbours, got toeplitz"),
            ('{"task": "images"}', "task must be one of graphs, got images"),
            ('{"model": }', "not JSON: .*line 1"),
        ):
            with self.subTest(text), self.assertRaisesRegex(ValueError, pattern):
                tt.parse_config(text, "x: ")
        with self.assertRaisesRegex(ValueError, "model.width must be a multiple of model.heads = 4, got 6"):
            settings("g", **{"model.width": 6, "model.heads": 4}).check()
        with self.assertRaisesRegex(ValueError, "data.kind must be one of graph, shards, got shard"):
            settings("g", **{"data.kind": "shard"})

    def test_comments_numbers_and_overrides(self):
        config = tt.parse_config('{ // a "comment"\n "name": "a//b", /* more */ "train": {"steps": 1e3}}')
        self.assertEqual((config.name, config.train.steps), ("a//b", 1000))
        config.override("train.learning_rate", "3e-4")
        config.override("data.path", "7")
        self.assertEqual((config.train.learning_rate, config.data.path), (3e-4, "7"))


class Checkpoints(unittest.TestCase):
    def test_every_damaged_byte_is_refused(self):
        tensors = {"a.weight": torch.randn(3, 2), "optimiser/steps": torch.tensor(4.0), "train/losses": torch.zeros(0).double()}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.safetensors")
            save_checkpoint(path, Checkpoint(4, 1.5, "{}", tensors))
            found = load_checkpoint(path)
            self.assertEqual((found.step, found.seconds, found.config), (4, 1.5, "{}"))
            self.assertEqual(found.tensors.keys(), tensors.keys())
            self.assertTrue(all(torch.equal(found.tensors[name], tensor) for name, tensor in tensors.items()))
            content = pathlib.Path(path).read_bytes()
            for place in range(len(content)):
                for bad in (content[:place], content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]):
                    pathlib.Path(path).write_bytes(bad)
                    with self.assertRaisesRegex(ValueError, f"^load_checkpoint: {path}: "):
                        load_checkpoint(path)
            self.assertEqual(os.listdir(folder), ["c.safetensors"])


if __name__ == "__main__":
    unittest.main()
