"""The wheel, installed by plain `pip install .` into a fresh virtual environment that has only torch in it, and used from there.

The library is the one already built (TOPOMASK_LIBRARY): the wheel is made around it, so that nothing is compiled a second time.
TOPOMASK_WHEEL names a wheel from `make wheel` to install instead, whose library is also checked for what it is linked with and
where it looks for torch. `scripts/wheel.sh --test` builds such a wheel and runs this file with it.
Exits with 77, which ctest takes for skipped, where pip cannot get scikit-build-core.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL = os.environ.get("TOPOMASK_WHEEL")
SETTINGS = ("PYTHONPATH", "TOPOMASK_LIBRARY", "TOPOMASK_TORCH", "TOPOMASK_WHEEL", "TOPOMASK_ALL")
CLEAN = {name: value for name, value in os.environ.items() if name not in SETTINGS}


def run(*command, **options):
    return subprocess.run(list(map(str, command)), env=CLEAN, capture_output=True, text=True, **options)


def fresh_environment(folder):
    """A virtual environment whose site-packages holds torch and what torch asks for, as links: as pip install torch leaves it."""
    run(sys.executable, "-m", "venv", folder, check=True)
    python = folder / "bin" / "python"
    places = run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))", check=True).stdout.strip()
    site = pathlib.Path(places)
    from importlib.metadata import distribution, requires

    wanted, names = ["torch"], set()
    while wanted:
        name = re.split(r"[ ;<>=!~\[]", wanted.pop())[0].lower().replace("_", "-")
        if name in names or name in ("setuptools", "pip"):
            continue
        try:
            files = distribution(name).files or []
        except ModuleNotFoundError:  # a requirement for other platforms
            continue
        names.add(name)
        wanted += [line for line in requires(name) or [] if "extra ==" not in line]
        base = pathlib.Path(distribution(name).locate_file(""))
        for entry in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / entry).exists() and (base / entry).exists():
                (site / entry).symlink_to((base / entry).resolve())
    return python, site


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.python, cls.site = fresh_environment(cls.folder / "env")
        if WHEEL:
            arguments = [pathlib.Path(WHEEL).absolute()]
        else:
            settings = {
                "cmake.source-dir": "cmake/prebuilt",
                "cmake.define.TOPOMASK_PREBUILT": pathlib.Path(os.environ["TOPOMASK_LIBRARY"]).absolute().parent,
                "build-dir": cls.folder / "build",
            }
            arguments = [part for name, value in settings.items() for part in ("--config-settings", f"{name}={value}")] + [ROOT]
        result = run(cls.python, "-m", "pip", "install", *arguments)
        if "No matching distribution found for scikit-build-core" in result.stderr:
            print("skipped: pip finds no scikit-build-core", file=sys.stderr)
            os._exit(77)
        if result.returncode:
            raise AssertionError(result.stdout + result.stderr)

    def script(self, code, **environment):
        return subprocess.run(
            [str(self.python), "-W", "ignore", "-c", code],
            env={**CLEAN, **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
        )

    def test_it_says_which_torch_it_needs(self):
        minor = ".".join(torch.__version__.split(".")[:2])
        result = self.script("import importlib.metadata as m; print(m.version('topomask'), m.requires('topomask'))")
        self.assertIn(f"torch=={minor}.*", result.stdout, result.stderr)
        self.assertRegex(result.stdout, rf"^\d+\.\d+\.\d+\+torch{re.escape(minor)}\.(cpu|cu\d+) ")
        checked = run(self.python, "-m", "pip", "check")
        self.assertEqual(checked.returncode, 0, checked.stdout)

    def test_it_holds_what_it_needs_and_nothing_else(self):
        names = {path.name for path in (self.site / "topomask").iterdir()}
        self.assertLessEqual({"__init__.py", "py.typed", "libtopomask.so", "_build.py"}, names)
        installed = {path.name for path in self.site.iterdir()}
        self.assertFalse(installed & {"lib", "include", "share", "tests", "build_support"})

    @unittest.skipUnless(WHEEL, "TOPOMASK_WHEEL names no wheel; a library that was built in place has the path of its torch")
    def test_the_library_looks_for_torch_beside_itself(self):
        said = run("readelf", "--dynamic", self.site / "topomask" / "libtopomask.so", check=True).stdout
        paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", said)
        self.assertEqual(paths, ["$ORIGIN/../torch/lib"], said)
        self.assertEqual(re.findall(r"\(SONAME\).*\[(.*)\]", said), ["libtopomask.so"], "a wheel has no links between versions")

    @unittest.skipUnless(WHEEL, "TOPOMASK_WHEEL names no wheel; a library that was built in place may be linked with METIS")
    def test_the_library_needs_torch_and_what_every_linux_has(self):
        said = run("readelf", "--dynamic", self.site / "topomask" / "libtopomask.so", check=True).stdout
        needed = {re.match(r"[a-z_-]+", name)[0] for name in re.findall(r"\(NEEDED\).*\[(.*)\]", said)}
        torch_has = {"libtorch", "libtorch_cpu", "libc", "libtorch_cuda", "libcudart", "libgomp"}
        self.assertLessEqual(needed, torch_has | {"libz", "libstdc", "libm", "libgcc_s", "ld-linux-x"})

    def test_attention_and_its_gradients_beside_torch_alone(self):
        code = (
            "import torch, topomask as tm, pathlib\n"
            "mask = tm.GRFMask(tm.Graph.grid(5, 6), heads=2)\n"
            "q, k, v = (torch.rand(2, 30, 4, requires_grad=True) for _ in range(3))\n"
            "out = tm.attention(q, k, v, mask)\n"
            "w = mask.dense() * (q.relu() @ k.relu().mT)\n"
            "assert torch.allclose(out, w / w.sum(-1, keepdim=True) @ v, atol=1e-5)\n"
            "out.sum().backward()\n"
            "assert mask.f.grad is not None\n"
            "torch.compile(lambda: tm.softmax_attention(q, k, v, mask), fullgraph=True, backend='aot_eager')().sum().backward()\n"
            "print(pathlib.Path(tm.__file__).parent, tm.library_path(), tm.__version__)\n"
        )
        result = self.script(code)
        self.assertEqual(result.returncode, 0, result.stderr)
        package, library, _ = result.stdout.split()
        self.assertEqual(pathlib.Path(package), self.site / "topomask")
        self.assertEqual(pathlib.Path(library), self.site / "topomask" / "libtopomask.so")

    def test_the_suite_passes_with_the_installed_package(self):
        names = ["test_build", "test_golden", "test_graph", "test_nn"]
        result = subprocess.run(
            [str(self.python), "-W", "ignore", "-m", "unittest", *names],
            env={**CLEAN, "TOPOMASK_INSTALLED": "1"},
            cwd=ROOT / "tests" / "python" / "package",
            capture_output=True,
            text=True,
        )
        self.assertEqual(result.returncode, 0, result.stderr[-4000:])
        self.assertRegex(result.stderr, r"Ran \d\d+ tests")

    def test_another_torch_is_one_sentence(self):
        build = self.site / "topomask" / "_build.py"
        text = build.read_text()
        try:
            build.write_text(re.sub(r'torch = ".*"', 'torch = "2.99.1"', text))
            result = self.script("import topomask")
        finally:
            build.write_text(text)
        self.assertEqual(result.returncode, 1)
        last = result.stderr.strip().splitlines()[-1]
        self.assertRegex(last, rf"^ImportError: topomask: torch {re.escape(torch.__version__)} is installed.*built for torch 2\.99")
        self.assertIn('pip install "torch==2.99.*"', last)


if __name__ == "__main__":
    unittest.main()
