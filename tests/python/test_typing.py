"""mypy --strict passes over the package. Exits with 77, which ctest takes for skipped, where there is no mypy."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    if importlib.util.find_spec("mypy") is None:
        print("skipped: mypy is not installed", file=sys.stderr)
        sys.exit(77)
    with tempfile.TemporaryDirectory() as cache:
        sys.exit(subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache], cwd=ROOT).returncode)
