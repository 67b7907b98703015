"""The command of the README: torchrun starts the ranks, and holds the store of the process group."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import ranks  # noqa: F401  (the path of the package)
from test_train import STEPS, edge_list, lines, settings, training


def torchrun(size, *arguments):
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    launcher = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", str(size), *rendezvous]
    return subprocess.run([*launcher, "-m", "topomask.train", *arguments], capture_output=True, text=True, timeout=120)


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

    def test_what_is_refused_is_an_error_of_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "settings.json")
            pathlib.Path(config).write_text(settings(os.path.join(folder, "none.txt")).json())
            result = torchrun(2, config, "--out", os.path.join(folder, "run"), "--quiet")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("none.txt", result.stderr)


if __name__ == "__main__":
    unittest.main()
