#!/usr/bin/env python3
"""One markdown table of an experiment: OUT/ROW/NAME-SEED/summary.json, a row for each ROW and a column for each NAME.

    experiments/table.py OUT [--rows "A B"] [--columns "X Y"] [--split test] [--title TEXT] [--no-mean]

A cell is the mean ± standard deviation (n − 1) over seeds in percent, with their number where it is not that of the
other cells. Where a SEED is FOLD.RETRAIN, the retrains of a fold are averaged first. The last row is the mean over the
rows, of columns that have them all. The table is printed and written to OUT/table.md.
"""

import argparse
import collections
import json
import pathlib
import statistics


def folds(run_folders, split):
    """Accuracy of each fold or seed, in percent."""
    found = collections.defaultdict(list)
    for folder in run_folders:
        accuracy = json.loads((folder / "summary.json").read_text())["accuracy"].get(split)
        if accuracy is not None:
            found[folder.name.rsplit("-", 1)[1].split(".")[0]].append(100 * accuracy)
    return [statistics.mean(retrains) for retrains in found.values()]


def cell(values, usual):
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}" + (f" ({len(values)})" if len(values) != usual else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rows", default="", help="in this order; otherwise all, by name")
    parser.add_argument("--columns", default="", help="in this order; otherwise all, by name")
    parser.add_argument("--split", default="test")
    parser.add_argument("--no-mean", action="store_true", help="no row with the mean over the rows")
    parser.add_argument("--title", default="", help="of the first column")
    options = parser.parse_args()

    runs = collections.defaultdict(list)  # (row, column) → folders
    for summary in options.out.glob("*/*-*/summary.json"):
        runs[summary.parent.parent.name, summary.parent.name.rsplit("-", 1)[0]].append(summary.parent)
    rows = options.rows.split() or sorted({row for row, _ in runs})
    columns = options.columns.split() or sorted({column for _, column in runs})
    columns = [c for c in columns if any((row, c) in runs for row in rows)]
    values = {place: folds(runs[place], options.split) for place in ((r, c) for r in rows for c in columns)}
    counts = collections.Counter(len(found) for found in values.values() if found)
    usual = counts.most_common(1)[0][0] if counts else 0

    lines = [[options.title, *columns], ["---"] * (1 + len(columns))]
    lines += [[row.replace("_", " "), *(cell(values[row, column], usual) for column in columns)] for row in rows]
    if len(rows) > 1 and not options.no_mean:
        means = []
        for column in columns:
            found = [values[row, column] for row in rows]
            means.append(f"{statistics.mean(map(statistics.mean, found)):.1f}" if all(found) else "")
        lines.append(["mean", *means])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    text += f"\n\nAccuracy on {options.split} data in percent; {usual} runs in a cell unless another number stands there.\n"
    print(text)
    (options.out / "table.md").write_text(text)


if __name__ == "__main__":
    main()
