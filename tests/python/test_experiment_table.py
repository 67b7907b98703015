"""experiments/table.py: means and spreads over seeds, folds and retrains."""

import json
import pathlib
import subprocess
import sys

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


def test_cells_are_means_and_deviations_over_seeds(tmp_path):
    for seed, accuracy in enumerate((0.5, 0.6, 0.7)):
        write_run(tmp_path, "A-1", f"gkat-{seed}", accuracy)
    write_run(tmp_path, "A-1", "gcn-0", 0.25)
    for seed, accuracy in enumerate((0.8, 0.8, 0.8)):
        write_run(tmp_path, "B_2", f"gkat-{seed}", accuracy)
    rows = table(tmp_path, "--columns", "gkat gcn absent", "--title", "set")
    assert rows[0] == ["set", "gkat", "gcn"]
    assert rows[2] == ["A-1", "60.0 ± 10.0", "25.0 (1)"]
    assert rows[3][:2] == ["B 2", "80.0 ± 0.0"]
    assert rows[4][:2] == ["mean", "70.0"]
    assert table(tmp_path, "--split", "validation", "--no-mean")[-1][0] == "B 2"


def test_retrains_of_a_fold_are_averaged_first(tmp_path):
    for name, accuracy in (("gkat-0.0", 0.2), ("gkat-0.1", 0.4), ("gkat-1.0", 0.5), ("gkat-1.1", 0.5)):
        write_run(tmp_path, "set", name, accuracy)
    assert table(tmp_path)[2] == ["set", "40.0 ± 14.1"]
