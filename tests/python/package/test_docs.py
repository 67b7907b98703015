"""The examples of docs/python.md run, one after the other."""

import contextlib
import io
import re
import unittest

from support import ROOT, Case


class Docs(Case):
    def test_the_examples_run(self):
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "python.md").read_text(), re.M | re.S)
        self.assertGreater(len(blocks), 5)
        names = {}
        for block in blocks:
            with self.subTest(block=block.splitlines()[0]), contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block, "docs/python.md", "exec"), names)


if __name__ == "__main__":
    unittest.main()
