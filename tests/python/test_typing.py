"""mypy --strict passes over the package and over the README's lines, and finds a name that the package does not have. Exits with 77,
which ctest takes for skipped, where there is no mypy."""

import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def users(folder: str) -> list[str]:
    """What is wrong with this check: README's lines must pass, and a misspelt name must not."""
    lines = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert lines is not None
    right, wrong = pathlib.Path(folder) / "readme.py", pathlib.Path(folder) / "misspelt.py"
    right.write_text(lines[1])
    wrong.write_text(lines[1].replace("tm.GRFMask", "tm.GrfMask"))
    found = check(str(right)), check(str(wrong))
    problems = [] if found[0].returncode == 0 else [f"README.md: {found[0].stdout}"]
    if 'Module has no attribute "GrfMask"' not in found[1].stdout:
        problems.append(f"tm.GrfMask was not reported: {found[1].stdout}")
    return problems


if __name__ == "__main__":
    if importlib.util.find_spec("mypy") is None:
        print("skipped: mypy is not installed", file=sys.stderr)
        sys.exit(77)
    package = check()
    print(package.stdout, end="")
    with tempfile.TemporaryDirectory() as folder:
        problems = users(folder)
    print(*problems, sep="\n")
    sys.exit(package.returncode or bool(problems))
