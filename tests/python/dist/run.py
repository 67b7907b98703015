"""Runs the tests of topomask.dist: `train` for those of training, which take longest, otherwise the rest. pytest takes the same
files."""

import pathlib
import sys
import unittest

folder = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(folder))

if __name__ == "__main__":
    import ranks  # noqa: F401  (the path of the package)

    names = sorted(path.stem for path in folder.glob("test_*.py"))
    names = [name for name in names if (name == "test_train") == (sys.argv[1:] == ["train"])]
    result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromNames(names))
    sys.exit(not (result.wasSuccessful() and result.testsRun))
