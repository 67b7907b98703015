"""Which torch a wheel is built against, and how the wheel is called. Needs neither the library nor a compiler."""

import importlib.util
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from support import ROOT, Case

spec = importlib.util.spec_from_file_location("torch_found", ROOT / "python" / "build_support" / "torch_found.py")
torch_found = importlib.util.module_from_spec(spec)
spec.loader.exec_module(torch_found)


def fake_torch(folder, version="2.13.1+cu130", cuda="'13.0'"):
    torch = pathlib.Path(folder) / "torch"
    torch.mkdir(parents=True)
    lines = ["from typing import Optional", "__all__ = ['__version__', 'debug', 'cuda']"]
    (torch / "version.py").write_text("\n".join([*lines, f"__version__ = '{version}'", f"cuda: Optional[str] = {cuda}", ""]))
    return torch


class TorchFound(Case):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        cleared = {"TOPOMASK_TORCH": "", "CMAKE_ARGS": "", "SKBUILD_CMAKE_DEFINE": ""}
        self.enterContext(mock.patch.dict(os.environ, cleared))
        self.enterContext(mock.patch.object(torch_found.sysconfig, "get_path", lambda kind: f"{self.folder}/own"))
        self.enterContext(mock.patch.object(torch_found.importlib.util, "find_spec", lambda name: None))
        self.enterContext(mock.patch.object(torch_found.site, "getusersitepackages", lambda: f"{self.folder}/user"))
        self.enterContext(mock.patch.object(torch_found.site, "getsitepackages", lambda prefixes: [f"{self.folder}/system"]))

    def prefixes(self, own, base):
        self.enterContext(mock.patch.object(torch_found.sys, "prefix", own))
        self.enterContext(mock.patch.object(torch_found.sys, "base_prefix", base))

    def test_the_torch_of_the_interpreter_then_of_the_user_then_of_the_system(self):
        self.prefixes("/usr", "/usr")
        for place in ("system", "user", "own"):
            torch = fake_torch(f"{self.folder}/{place}")
            self.assertEqual(torch_found.torch_folder(), torch)

    def test_an_environment_sees_the_system_where_it_says_so(self):
        self.prefixes(f"{self.folder}/env", "/usr")
        torch = fake_torch(f"{self.folder}/user")
        settings = pathlib.Path(self.folder) / "env" / "pyvenv.cfg"
        settings.parent.mkdir()
        settings.write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
        self.refuses(SystemExit, "install torch first. uv .* --no-build-isolation .* TOPOMASK_TORCH", torch_found.torch_folder)
        settings.write_text("home = /usr/bin\ninclude-system-site-packages = true\n")
        self.assertEqual(torch_found.torch_folder(), torch)

    def test_a_folder_that_was_named(self):
        self.prefixes("/usr", "/usr")
        fake_torch(f"{self.folder}/own")
        named = fake_torch(f"{self.folder}/elsewhere")
        os.environ["TOPOMASK_TORCH"] = str(named)
        self.assertEqual(torch_found.torch_folder(), named)
        os.environ["TOPOMASK_TORCH"] = f"{self.folder}/nowhere"
        self.refuses(SystemExit, "TOPOMASK_TORCH must be a folder of torch, .*, got .*nowhere", torch_found.torch_folder)

    def test_wheels_for_other_torches_have_other_names(self):
        self.prefixes("/usr", "/usr")
        number = torch_found.version().split("+")[0] if fake_torch(f"{self.folder}/own") else ""
        self.assertEqual(torch_found.dynamic_metadata("dependencies"), ["torch==2.13.*"])
        self.assertRegex(number, r"^\d+\.\d+\.\d+$")
        names = {
            "": "torch2.13.cpu",
            "-DTOPOMASK_CUDA=ON": "torch2.13.cu130",
            "-GNinja -DTOPOMASK_CUDA:BOOL=1 -DX=2": "torch2.13.cu130",
            "-DTOPOMASK_CUDA=ON -DTOPOMASK_CUDA=OFF": "torch2.13.cpu",
        }
        for arguments, label in names.items():
            os.environ["CMAKE_ARGS"] = arguments
            self.assertEqual(torch_found.dynamic_metadata("version"), f"{number}+{label}")
        os.environ["CMAKE_ARGS"] = ""
        os.environ["SKBUILD_CMAKE_DEFINE"] = "TOPOMASK_TORCH=/x;TOPOMASK_CUDA=ON"
        os.environ["TOPOMASK_TORCH"] = str(fake_torch(f"{self.folder}/other", "2.15.0a0", "'12.8'"))
        self.assertEqual(torch_found.dynamic_metadata("version"), f"{number}+torch2.15.cu128")
        self.refuses(RuntimeError, "field must be version or dependencies, got name", torch_found.dynamic_metadata, "name")

    def test_a_torch_without_a_version(self):
        self.prefixes("/usr", "/usr")
        (fake_torch(f"{self.folder}/own") / "version.py").write_text("")
        self.refuses(SystemExit, "no __version__ in .*version.py", torch_found.torch_version)


if __name__ == "__main__":
    unittest.main()
