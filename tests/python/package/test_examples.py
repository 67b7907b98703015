"""The examples of examples/python that need more than torch."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, Case, needs, tm


class Examples(Case):
    @needs("matplotlib")
    def test_the_picture_of_the_readme(self):
        packages = os.pathsep.join(filter(None, [str(pathlib.Path(tm.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "room.png"
            command = [sys.executable, "-W", "ignore", str(ROOT / "examples" / "python" / "room.py"), str(picture)]
            environment = {**os.environ, "PYTHONPATH": packages, "MPLBACKEND": "agg"}
            result = subprocess.run(command, env=environment, capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stderr)
            drawn = picture.read_bytes()
        self.assertEqual(drawn[:8], b"\x89PNG\r\n\x1a\n")
        kept = (ROOT / "docs" / "room.png").read_bytes()
        self.assertEqual(drawn[16:24], kept[16:24])  # width and height
        self.assertIn("docs/room.png", (ROOT / "README.md").read_text())


if __name__ == "__main__":
    unittest.main()
