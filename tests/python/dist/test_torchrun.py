"""The command of the README: torchrun starts the ranks, and holds the store of the process group."""

import gzip
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import ranks
from test_train import STEPS, edge_list, lines, settings, training
from topomask.train import read_config, train


def command(size, *arguments):
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    launcher = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", str(size), *rendezvous]
    return [*launcher, "-m", "topomask.train", *arguments]


def torchrun(size, *arguments):
    return subprocess.run(command(size, *arguments), capture_output=True, text=True, timeout=120)


def workers(launcher):
    """The processes that a torchrun has started, by their rank."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == launcher:
                settings = dict(each.partition("=")[::2] for each in (process / "environ").read_text().split("\0"))
                found[int(settings["RANK"])] = int(process.name)
        except (OSError, KeyError):  # gone, or not yet what it will be
            continue
    return found


def wait_for(condition, process, seconds=90):
    until = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > until:
            raise AssertionError(f"the run ended or took too long: {process.poll()}")
        time.sleep(0.02)


class Torchrun(unittest.TestCase):
    def test_a_run_continues_on_another_number_of_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            path, whole, out = edge_list(folder), os.path.join(folder, "whole"), os.path.join(folder, "parts")
            config = os.path.join(folder, "settings.json")
            pathlib.Path(config).write_text(settings(path).json())
            training(whole, path, {})  # one process, without torch.distributed
            for size, more in ((2, ["--stop-after", "4"]), (1, ["--stop-after", "3"]), (3, [])):
                result = torchrun(size, config, "--out", out, "--quiet", *more)
                self.assertEqual(result.returncode, 0, result.stderr)
            got, want = lines(out), lines(whole)
            self.assertEqual([line["step"] for line in got], list(range(1, STEPS + 1)))
            for a, b in zip(got, want):
                self.assertLess(abs(a["loss"] - b["loss"]), 1e-9)

    def test_the_example_trains_a_small_network(self):
        with tempfile.TemporaryDirectory() as folder:
            plain = pathlib.Path(edge_list(folder, 24)).read_bytes()
            path = os.path.join(folder, "roads.txt.gz")
            pathlib.Path(path).write_bytes(gzip.compress(b"# Undirected graph\n" + plain))  # as the road network is
            example, out, whole = (
                str(ranks.ROOT / "examples" / "roads.json"),
                os.path.join(folder, "two"),
                os.path.join(folder, "one"),
            )
            result = torchrun(2, example, "--out", out, "--data.path", path, "--stop-after", "4")
            self.assertEqual(result.returncode, 0, result.stderr)
            config = read_config(example)
            config.set("data.path", path)
            train(config, whole, stop_after=4, quiet=True)
            got, want = lines(out), lines(whole)
            self.assertEqual([line["step"] for line in got], [1, 2, 3, 4])
            self.assertLess(got[3]["loss"], got[0]["loss"])
            for a, b in zip(got, want):
                self.assertLess(abs(a["loss"] - b["loss"]), 1e-4 * b["loss"])  # float32

    def test_a_worker_that_is_killed_ends_the_run_which_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            path, whole, out = edge_list(folder), os.path.join(folder, "whole"), os.path.join(folder, "killed")
            changes = {"train.steps": 400, "train.checkpoint_every": 5, "train.evaluate_every": 0}
            config = os.path.join(folder, "settings.json")
            pathlib.Path(config).write_text(settings(path, **changes).json())
            metrics = pathlib.Path(out) / "metrics.jsonl"
            with subprocess.Popen(
                command(3, config, "--out", out, "--quiet"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process:
                try:
                    wait_for(lambda: metrics.exists() and len(lines(out)) > 7, process)
                    os.kill(workers(process.pid)[1], signal.SIGKILL)
                    _, text = process.communicate(timeout=60)
                finally:
                    process.kill()
            self.assertEqual(process.returncode, 1)
            self.assertRegex(text, r"(?s)rank +: 1 \(local_rank: 1\).*exitcode +: -9")
            done = lines(out)[-1]["step"]
            self.assertLess(done, 400)
            result = torchrun(2, config, "--out", out, "--quiet", "--stop-after", "12")
            self.assertEqual(result.returncode, 0, result.stderr)
            got = lines(out)
            self.assertEqual([line["step"] for line in got], list(range(1, len(got) + 1)))
            self.assertGreater(len(got), done)
            training(whole, path, changes, len(got))
            for a, b in zip(got, lines(whole), strict=True):
                self.assertLess(abs(a["loss"] - b["loss"]), 1e-6)  # rounding grows with the steps

    def test_what_is_refused_is_an_error_of_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "settings.json")
            pathlib.Path(config).write_text(settings(os.path.join(folder, "none.txt")).json())
            result = torchrun(2, config, "--out", os.path.join(folder, "run"), "--quiet")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("none.txt", result.stderr)


if __name__ == "__main__":
    unittest.main()
