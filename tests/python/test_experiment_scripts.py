"""The scripts of experiments on graphs: what each variant is, without training it, and how settings are chosen.

TOPOMASK_TOOL=build/release/bin/topomask python tests/python/test_experiment_scripts.py
"""

import gzip
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = os.environ.get("TOPOMASK_TOOL", str(ROOT / "build/release/bin/topomask"))


def write_npz(path, **arrays):
    """Arrays of int64, without NumPy."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in arrays.items():
            header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(values)},), }}"
            header += " " * (-(len(header) + 11) % 64) + "\n"
            magic = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
            archive.writestr(f"{name}.npy", magic + header.encode() + struct.pack(f"<{len(values)}q", *values))


def write_network(path, nodes=200, classes=3, features=40):
    """A ring with a feature for each node."""
    ring = list(range(nodes))
    write_npz(
        path,
        src=ring,
        dst=ring[1:] + ring[:1],
        y=[i % classes for i in ring],
        x_indptr=[*ring, nodes],
        x_indices=[i % features for i in ring],
        x_shape=[nodes, features],
    )


def write_tu_set(folder, name, graphs=20):
    """Paths of three nodes, and one fold."""
    at = folder / name
    at.mkdir()
    edges = [(3 * g + i, 3 * g + i + 1) for g in range(graphs) for i in (1, 2)]
    (at / f"{name}_A.txt").write_text("".join(f"{a}, {b}\n{b}, {a}\n" for a, b in edges))
    (at / f"{name}_graph_indicator.txt").write_text("".join(f"{g + 1}\n" * 3 for g in range(graphs)))
    (at / f"{name}_graph_labels.txt").write_text("".join(f"{g % 2}\n" for g in range(graphs)))
    splits = folder / "splits" / "COLLABORATIVE_DEGREE"
    splits.mkdir(parents=True, exist_ok=True)
    fold = {"test": [0, 1], "model_selection": [{"train": list(range(4, graphs)), "validation": [2, 3]}]}
    (splits / f"{name}_splits.json").write_text(json.dumps([fold]))


def write_sentences(folder):
    words = ["1\tA\ta\tDET\t_\t_\t2\tdet\t_\t_", "2\tdog\tdog\tNOUN\t_\t_\t0\troot\t_\t_"]
    for part in ("train", "dev", "test"):
        (folder / f"en_ewt-ud-{part}.conllu").write_text("\n".join(words) + "\n\n")


def run(script, *arguments, **variables):
    environment = os.environ | {"TOPOMASK": TOOL, "OMP_NUM_THREADS": "1"} | variables
    command = [str(ROOT / "experiments" / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def planned(self, script, *arguments, **variables):
        """SET/MODEL-SEED → (what it is, its settings)."""
        out = self.folder / "out"
        finished = run(script, out, *arguments, DRY="1", DATA=str(self.folder), **variables)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertEqual(finished.stderr, "")
        found = {}
        for line in finished.stdout.splitlines():
            folder, rest = line.split(" ", 1)
            planned, end = json.JSONDecoder().raw_decode(rest)
            settings = dict(setting.split("=", 1) for setting in rest[end:].split())
            found[str(pathlib.Path(folder).relative_to(out))] = planned, settings
        self.assertFalse(out.exists() and list(out.rglob("summary.json")))
        return found

    def test_models_for_motifs_have_1280_to_1320_parameters(self):
        found = self.planned("motifs.sh", SEEDS="3", MOTIFS="caveman")
        self.assertEqual(len(found), 8)
        for name, (planned, settings) in found.items():
            self.assertTrue(1280 <= planned["parameters"] <= 1320, (name, planned))
            self.assertEqual((planned["train graphs"], planned["test graphs"], planned["steps"]), (1536, 512, 6000))
            self.assertEqual((settings["train.seed"], settings["data.seed"]), ("3", "3"), name)
            self.assertNotIn("train.final_learning_rate", settings)

    def test_models_for_cycles_have_as_many_parameters_as_gkat(self):
        found = self.planned("cycles.sh", SEEDS="3", NODES="4")
        self.assertEqual(set(found), {"local/gat-3", "local/gcn-3"} | {f"4_nodes/{m}-3" for m in ("gkat", "series", "grf")})
        for name, (planned, settings) in found.items():
            self.assertTrue(258 <= planned["parameters"] <= 258 + 8 * 4, (name, planned))  # f of eight heads
            self.assertEqual((settings["train.seed"], settings["data.seed"]), ("3", "3"), name)

    def test_networks_have_splits_of_their_own_and_transformers_heads_of_their_own(self):
        for name in ("cora", "dblp"):
            write_network(self.folder / f"{name}.npz")
        found = self.planned("citation.sh", SETS="cora dblp", SPLITS="7")
        self.assertEqual(len(found), 10)
        for name, (planned, settings) in found.items():
            self.assertEqual((planned["train nodes"], settings["data.split_seed"]), (60, "7"), name)
        for model in ("grf", "gkat", "gat", "gcn"):
            self.assertEqual("model.layer_heads" in found[f"cora/{model}-7"][1], False)
        settings = found["cora/transformer-7"][1]
        heads = settings["model.layer_heads"], settings["model.heads"], settings["model.dropout"]
        self.assertEqual(heads, ("[]", "4", "0.5"))
        self.assertEqual(found["dblp/gkat-7"][1]["model.mask"], "frequency")
        # Two layers of 8 heads of width 8, and of one head for each class.
        self.assertEqual(found["cora/gkat-7"][0]["parameters"], 3 * 40 * 64 + 3 * 64 * 3)

    def test_transformers_over_uneven_degrees(self):
        write_network(self.folder / "amazon_cs.npz")
        with gzip.open(self.folder / "roads-12-cities.txt.gz", "wt") as file:
            file.writelines(f"{i} {i + 1}\n" for i in range(100))
        found = self.planned("degrees.sh", SEEDS="1")
        self.assertEqual(len(found), 10)
        for model in ("grf", "ad_hoc", "grf_fixed", "ad_hoc_fixed", "unmasked"):
            settings = found[f"amazon/{model}-1"][1]
            heads = settings["model.layer_heads"], settings["model.heads"], settings["model.dropout"]
            self.assertEqual(heads, ("[]", "4", "0.5"))
            self.assertEqual(found[f"roads/{model}-1"][1]["data.seed"], "1")
        free = {model: found[f"amazon/{model}-1"][0]["parameters"] for model in ("grf", "grf_fixed", "unmasked")}
        self.assertEqual(free["grf"] - free["grf_fixed"], 2 * 4 * 5)
        self.assertEqual(free["grf_fixed"], free["unmasked"])

    def test_graph_classification_and_trees(self):
        write_tu_set(self.folder, "IMDB-BINARY")
        write_sentences(self.folder)
        write_npz(self.folder / "wordnet_noun_tree.npz", parent=[-1] + [0] * 29, lexfile=[3 + i % 26 for i in range(30)])
        found = self.planned("tu.sh", SETS="IMDB-BINARY", FOLDS="0", RETRAINS="2", MODELS="gkat series transformer")
        self.assertEqual(set(found), {f"IMDB-BINARY/{m}-0.{r}" for m in ("gkat", "series", "transformer") for r in (0, 1)})
        self.assertEqual(found["IMDB-BINARY/gkat-0.1"][1]["train.seed"], "1")
        gkat, series = (found[f"IMDB-BINARY/{m}-0.0"][0]["parameters"] for m in ("gkat", "series"))
        self.assertEqual(series - gkat, 3 * 4 * 4)  # layers, heads, hops + 1
        found = self.planned("trees.sh", SEEDS="2")
        self.assertEqual(len(found), 8)
        self.assertEqual(found["wordnet/tree-2"][1]["data.split_seed"], "2")
        for part in ("words", "wordnet"):
            (tree, _), (positive, settings) = found[f"{part}/tree-2"], found[f"{part}/positive-2"]
            self.assertEqual((positive["parameters"], settings["model.positive_mask"]), (tree["parameters"], "true"))

    def test_settings_are_chosen_on_validation_data_and_then_used(self):
        # A tool that is best at 1e-2 for gcn and at 5e-3 with dropout .2 for the others.
        tool = self.folder / "tool"
        tool.write_text(
            f"#!{sys.executable}\n"
            "import json, pathlib, sys\n"
            "settings = dict(a.split('=', 1) for a in sys.argv if '=' in a)\n"
            "out = pathlib.Path(sys.argv[sys.argv.index('--out') + 1])\n"
            "chosen = settings['train.learning_rate'], settings.get('model.dropout')\n"
            "wanted = ('1e-2', '0.2') if settings['name'] == 'gcn' else ('5e-3', '0.2')\n"
            "out.mkdir()\n"
            "summary = {'accuracy': {'validation': .9 if chosen == wanted else .5, 'test': .1}, 'settings': settings}\n"
            "(out / 'summary.json').write_text(json.dumps(summary))\n"
        )
        tool.chmod(0o755)
        write_network(self.folder / "cora.npz")
        variables = {"TOPOMASK": str(tool), "DATA": str(self.folder), "SETS": "cora", "MODELS": "gcn gkat"}
        tuned, out = self.folder / "tuned", self.folder / "out"
        finished = run("graph_tune.sh", "citation.sh", tuned, **variables, DROPOUTS="0.2 0.6")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        lines = ["cora/gcn 1e-2,model.dropout=0.2 0.9000", "cora/gkat 5e-3,model.dropout=0.2 0.9000"]
        self.assertEqual((tuned / "rates").read_text().splitlines(), lines)
        self.assertFalse(list(tuned.glob("*/cora/*-0/")))  # no split of the table
        finished = run("citation.sh", out, **variables, SPLITS="0", RATES=str(tuned / "rates"))
        self.assertEqual(finished.returncode, 0, finished.stderr)
        for model, rate in (("gcn", "1e-2"), ("gkat", "5e-3")):
            settings = json.loads((out / "cora" / f"{model}-0" / "summary.json").read_text())["settings"]
            self.assertEqual((settings["train.learning_rate"], settings["model.dropout"]), (rate, "0.2"))
            self.assertEqual(settings["model.width"] if model == "gcn" else "", "16" if model == "gcn" else "")

    def test_tuning_that_is_not_finished_says_so(self):
        tool = self.folder / "tool"
        tool.write_text("#!/bin/sh\nexit 1\n")
        tool.chmod(0o755)
        finished = run("graph_tune.sh", "motifs.sh", self.folder / "tuned", TOPOMASK=str(tool), MODELS="gcn", MOTIFS="grid")
        self.assertEqual(finished.returncode, 1)
        self.assertIn("grid/gcn-100 is not finished; give the command again", finished.stderr)
        self.assertFalse((self.folder / "tuned" / "rates").exists())


if __name__ == "__main__":
    unittest.main()
