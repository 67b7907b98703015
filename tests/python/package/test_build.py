"""How the package finds and checks its library."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import torch
from support import ROOT, Case, needs, tm
from topomask import _library

PACKAGES = str(pathlib.Path(tm.__file__).resolve().parents[1])


def run(code, **environment):
    paths = os.pathsep.join(filter(None, [PACKAGES, os.environ.get("PYTHONPATH", "")]))
    merged = {**os.environ, "PYTHONPATH": paths, **environment}
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=merged, capture_output=True, text=True)


class Build(Case):
    def test_a_mismatch_is_one_sentence_before_anything_is_loaded(self):
        self.assertIsNone(_library.mismatch({"torch": "2.13.0"}, "2.13.1+cu130"))
        self.assertIsNone(_library.mismatch({}, "2.13.1"))
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder) / "libtopomask.so"
            library.write_bytes(b"not a library")
            (library.parent / "_build.py").write_text('torch = "1.9.0"\n')
            result = run("import topomask", TOPOMASK_LIBRARY=str(library))
        self.assertEqual(result.returncode, 1)
        last = result.stderr.strip().splitlines()[-1]
        self.assertIn(f"ImportError: topomask: torch {torch.__version__} is installed", last)
        self.assertIn("was built for torch 1.9", last)
        self.assertIn('pip install "torch==1.9.*"', last)

    def test_a_library_with_cuda_beside_another_torch_is_one_sentence(self):
        without = {"torch": "2.13.0", "cuda": "False"}
        for cuda in (None, "12.8", "13.0"):
            self.assertIsNone(_library.mismatch(without, "2.13.0", cuda))
        named = {"torch": "2.13.0", "cuda": "13.0"}
        unnamed = {"torch": "2.13.0", "cuda": "True"}
        for build in (named, unnamed):
            self.assertIsNone(_library.mismatch(build, "2.13.0+cu130", "13.0"))
            self.assertIsNone(_library.mismatch(build, "2.13.0+cu132", "13.2"))
            sentence = _library.mismatch(build, "2.13.0+cpu", None)
            self.assertIn(
                "torch 2.13.0+cpu is installed, which is built without CUDA, but this topomask was built for CUDA", sentence
            )
            self.assertIn("install a torch 2.13 built for CUDA", sentence)
        self.assertIsNone(_library.mismatch(unnamed, "2.13.0+cu128", "12.8"))
        self.assertRegex(
            _library.mismatch(named, "2.13.0+cu128", "12.8"), "built for CUDA 12.8, but .* for CUDA 13.0: .* for CUDA 13,"
        )

    @unittest.skipIf(torch.version.cuda, "needs a torch without CUDA")
    def test_a_wheel_for_cuda_beside_a_cpu_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder) / "libtopomask.so"
            library.write_bytes(b"not a library")
            (library.parent / "_build.py").write_text(f'torch = "{torch.__version__}"\ncuda = True\n')
            result = run("import topomask", TOPOMASK_LIBRARY=str(library))
        self.assertIn("which is built without CUDA, but this topomask was built for CUDA", result.stderr.strip().splitlines()[-1])

    def test_without_a_library_it_says_where_it_looked(self):
        result = run("import topomask", TOPOMASK_LIBRARY="/nowhere/libtopomask.so")
        self.assertEqual(result.returncode, 1)
        self.assertIn("/nowhere/libtopomask.so", result.stderr)

    def test_what_it_was_built_against_is_the_torch_in_use(self):
        build = _library.build_of(_library.library_path())
        if build:
            self.assertEqual(build["torch"].split(".")[:2], torch.__version__.split(".")[:2])
            self.assertEqual(build["version"], tm.__version__)

    def test_importing_it_is_quick_and_brings_no_other_library(self):
        code = (
            "import sys, time, torch; t = time.process_time(); import topomask; took = time.process_time() - t;"
            "print(took, [m for m in ('transformers', 'timm', 'torch_geometric', 'scipy', 'topomask.nn') if m in sys.modules])"
        )
        started = time.time()
        took, loaded = run(code).stdout.split(" ", 1)
        self.assertLess(float(took), 0.5, f"of {time.time() - started} s")
        self.assertEqual(loaded.strip(), "[]")

    def test_a_call_costs_little_more_than_in_cpp(self):
        code = (
            "import sys; sys.path.insert(0, sys.argv[1]); import torch, python_overhead as o;"
            "torch.set_num_threads(1);"
            "runs = lambda m, k: [o.overhead(m, k) for _ in range(3)];"
            "masks = o.masks();"
            "print('C++:', min(a for a, _ in runs(masks['none'], 'relu')));"
            "cases = [(n, m, k) for n, m in masks.items() for k in ('relu', 'softmax')];"
            "print(*(f'{n}, {k}:{min(b - a for a, b in runs(m, k))}' for n, m, k in cases), sep='\\n')"
        )
        paths = os.pathsep.join(filter(None, [PACKAGES, os.environ.get("PYTHONPATH", "")]))
        command = [sys.executable, "-W", "ignore", "-c", code, str(ROOT / "bench")]
        result = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        plain, *lines = result.stdout.strip().splitlines()
        self.assertGreaterEqual(len(lines), 14)
        # The bar is that of the machine of docs/python-speed.md, where the plainest call takes 10 µs in C++.
        most = 15 * max(1, float(plain.removeprefix("C++:")) / 10)
        for line in lines:
            call, microseconds = line.rsplit(":", 1)
            with self.subTest(call=call):
                self.assertLess(float(microseconds), most, "microseconds")

    @needs("pytest")
    def test_pytest_alone_collects_everything(self):
        """What a test needs beyond the library is a reason to skip it, not to stop."""
        environment = {name: value for name, value in os.environ.items() if name != "TOPOMASK_TOOL"}
        command = [sys.executable, "-W", "ignore", "-m", "pytest", "-p", "no:cacheprovider", "-q", "--collect-only"]
        result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout[-2000:])
        self.assertIn("test_checkpoint.py", result.stdout)


if __name__ == "__main__":
    unittest.main()
