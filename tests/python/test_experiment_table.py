"""experiments/table.py: means and spreads over seeds, folds and retrains, and differences seed by seed."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write_run(out, row, name, accuracy):
    folder = out / row / name
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({"accuracy": {"test": accuracy, "validation": 1.0}}))


def table(out, *arguments):
    command = [sys.executable, str(ROOT / "experiments" / "table.py"), str(out), *arguments]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert (out / "table.md").read_text() in text
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line.startswith("|")]


class ExperimentTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def test_cells_are_means_and_deviations_over_seeds(self):
        for seed, accuracy in enumerate((0.5, 0.6, 0.7)):
            write_run(self.out, "A-1", f"gkat-{seed}", accuracy)
        write_run(self.out, "A-1", "gcn-0", 0.25)
        for seed, accuracy in enumerate((0.8, 0.8, 0.8)):
            write_run(self.out, "B_2", f"gkat-{seed}", accuracy)
        rows = table(self.out, "--columns", "gkat gcn absent", "--title", "set")
        self.assertEqual(rows[0], ["set", "gkat", "gcn"])
        self.assertEqual(rows[2], ["A-1", "60.0 ± 10.0", "25.0 (1)"])
        self.assertEqual(rows[3][:2], ["B 2", "80.0 ± 0.0"])
        self.assertEqual(rows[4][:2], ["mean", "70.0 ± 5.0"])
        self.assertEqual(table(self.out, "--split", "validation", "--no-mean")[-1][0], "B 2")

    def test_retrains_of_a_fold_are_averaged_first(self):
        for name, accuracy in (("gkat-0.0", 0.2), ("gkat-0.1", 0.4), ("gkat-1.0", 0.5), ("gkat-1.1", 0.5)):
            write_run(self.out, "set", name, accuracy)
        self.assertEqual(table(self.out)[2], ["set", "40.0 ± 14.1"])

    def test_the_mean_row_averages_the_rows_of_each_seed_first(self):
        # Rows vary by 10 points between seeds in opposite directions: their mean does not vary.
        for seed, accuracy in enumerate((0.5, 0.6, 0.7)):
            write_run(self.out, "A", f"gkat-{seed}", accuracy)
            write_run(self.out, "B", f"gkat-{seed}", 1.3 - accuracy)
        write_run(self.out, "A", "gkat-3", 0.9)  # a seed without the other row
        self.assertEqual(table(self.out)[-1], ["mean", "65.0 ± 0.0 (3)"])

    def test_differences_are_taken_seed_by_seed(self):
        for seed, (base, other) in enumerate(((0.5, 0.53), (0.6, 0.62), (0.7, 0.74))):
            write_run(self.out, "A", f"gkat-{seed}", base)
            write_run(self.out, "A", f"gat-{seed}", other)
            write_run(self.out, "B", f"gkat-{seed}", 0.5)
            write_run(self.out, "B", f"gat-{seed}", (0.4, 0.5, 0.6)[seed])
        rows = table(self.out, "--base", "gkat", "--columns", "gkat gat", "--title", "set")
        self.assertEqual(rows[5], ["set (minus gkat)", "gat"])
        self.assertEqual(rows[7], ["A", "**+3.0 ± 2.5**"])  # deviation 1, 4.3027/√3
        self.assertEqual(rows[8], ["B", "+0.0 ± 24.8"])
        self.assertEqual(rows[9], ["mean", "+1.5 ± 13.1"])  # of −3.5, 1 and 7
        self.assertEqual(len(table(self.out, "--base", "absent")), 5)

    def test_quantiles_of_students_t(self):
        spec = importlib.util.spec_from_file_location("table", ROOT / "experiments" / "table.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for degrees, quantile in ((1, 12.7062), (14, 2.1448), (30, 2.0423), (31, 2.0395), (60, 2.0003), (1000, 1.9623)):
            self.assertAlmostEqual(module.t_quantile(degrees), quantile, delta=1e-4)


if __name__ == "__main__":
    unittest.main()
