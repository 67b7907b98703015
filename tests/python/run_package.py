"""Runs the tests of the package: `package` for all but torch.compile and export, `compile` for these. pytest takes the same files."""

import pathlib
import sys
import unittest

folder = pathlib.Path(__file__).resolve().parent / "package"
sys.path.insert(0, str(folder))
names = sorted(path.stem for path in folder.glob("test_*.py"))
slow = ("test_compile", "test_opcheck", "test_transforms")
chosen = [name for name in names if (name in slow) == (sys.argv[1:] == ["compile"])]

if __name__ == "__main__":
    result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromNames(chosen))
    sys.exit(not (result.wasSuccessful() and result.testsRun))
