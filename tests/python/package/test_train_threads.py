"""How the threads of python -m topomask.train wait."""

import os
import subprocess
import sys

from support import Case, tm


def settings(**environment):
    """What libgomp prints of its settings, each time that it is loaded."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    }
    packages = os.path.dirname(os.path.dirname(tm.__file__))
    merged = {**kept, "PYTHONPATH": packages, "OMP_DISPLAY_ENV": "verbose", **environment}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "topomask.train", "--keys"], env=merged, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "train.steps" in done.stdout, done.stdout
    return done.stderr


class TrainThreads(Case):
    def test_waiting_threads_sleep(self):
        printed = settings()
        if "GOMP_SPINCOUNT" not in printed:
            self.skipTest("torch's OpenMP is not libgomp")
        self.assertIn("GOMP_SPINCOUNT = '0'", printed)

    def test_settings_of_the_environment_are_kept(self):
        for environment in ({"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "77"}, {"OMP_NUM_THREADS": "1"}):
            self.assertNotIn("GOMP_SPINCOUNT = '0'", settings(**environment), environment)
