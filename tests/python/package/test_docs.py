"""The examples of the guide pages run, page by page, and the page of the interface is what the docstrings say."""

import contextlib
import io
import re
import subprocess
import sys
import unittest

from support import ROOT, Case, missing

PAGES = sorted((ROOT / "docs").glob("python*.md"))


class Docs(Case):
    def test_the_examples_run(self):
        self.assertGreater(len(PAGES), 5)
        for page in PAGES:
            blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
            wanted = {name for block in blocks for name in re.findall(r"^(?:import|from) (\w+)", block, re.M)}
            absent = missing(*wanted)
            names = {}
            for block in blocks:
                with self.subTest(page=page.name, block=block.splitlines()[0]):
                    if absent:
                        self.skipTest(f"needs {', '.join(absent)}")
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(compile(block, page.name, "exec"), names)

    def test_links_lead_somewhere(self):
        for page in PAGES + [ROOT / "README.md", ROOT / "docs" / "versioning.md"]:
            for link in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
                self.assertTrue((page.parent / link).exists(), f"{page.name}: {link}")

    def test_the_interface_is_that_of_the_docstrings(self):
        command = [sys.executable, "-W", "ignore", ROOT / "scripts" / "api_docs.py", "--check"]
        import os

        import topomask

        packages = os.path.dirname(os.path.dirname(topomask.__file__))
        found = subprocess.run(command, env={**os.environ, "PYTHONPATH": packages}, capture_output=True, text=True)
        self.assertEqual(found.returncode, 0, found.stderr)


if __name__ == "__main__":
    unittest.main()
