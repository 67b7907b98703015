#!/usr/bin/env python3
"""One markdown table of an experiment: OUT/ROW/NAME-SEED/summary.json, a row for each ROW and a column for each NAME.

    experiments/table.py OUT [--rows "A B"] [--columns "X Y"] [--base X] [--split test] [--title TEXT] [--no-mean]

A cell is the mean ± standard deviation (n − 1) over seeds in percent, with their number where it is not that of the
other cells. Where a SEED is FOLD.RETRAIN, the retrains of a fold are averaged first. The last row is the mean over the
rows, of columns that have them all: the rows of a seed are averaged first, and ± is the deviation of these means over
the seeds that have every row. With --base, a second table has each column's difference to column X, seed by seed: the
mean and its 95 % interval by Student's t (bold where it leaves out 0). Folds share training data, so that their
intervals are narrower than those of independent data. The tables are printed and written to OUT/table.md.
"""

import argparse
import collections
import json
import math
import pathlib
import statistics

# Quantiles of Student's t for a two-sided 95 % interval at 1, 2, … 30 degrees of freedom.
T_QUANTILES = (
    [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281]
    + [2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860]
    + [2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423]
)


def t_quantile(degrees):
    if degrees <= len(T_QUANTILES):
        return T_QUANTILES[degrees - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def by_seed(run_folders, split):
    """Accuracy of each fold or seed, in percent."""
    found = collections.defaultdict(list)
    for folder in run_folders:
        accuracy = json.loads((folder / "summary.json").read_text())["accuracy"].get(split)
        if accuracy is not None:
            found[folder.name.rsplit("-", 1)[1].split(".")[0]].append(100 * accuracy)
    return {seed: statistics.mean(retrains) for seed, retrains in found.items()}


def mean_by_seed(of_rows):
    """The mean over rows, for each seed that has them all."""
    seeds = set(of_rows[0]).intersection(*of_rows[1:])
    return {seed: statistics.mean(row[seed] for row in of_rows) for seed in seeds}


def cell(values, usual):
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}" + (f" ({len(values)})" if len(values) != usual else "")


def difference_cell(column, base, usual):
    values = [column[seed] - base[seed] for seed in column if seed in base]
    if len(values) < 2:
        return f"{values[0]:+.1f} (1)" if values else ""
    mean = statistics.mean(values)
    half = t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    text = f"{mean:+.1f} ± {half:.1f}"
    return (f"**{text}**" if abs(mean) > half else text) + (f" ({len(values)})" if len(values) != usual else "")


def markdown(lines):
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rows", default="", help="in this order; otherwise all, by name")
    parser.add_argument("--columns", default="", help="in this order; otherwise all, by name")
    parser.add_argument("--base", default="", help="column that others are compared with, where it has runs")
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
    values = {place: by_seed(runs[place], options.split) for place in ((r, c) for r in rows for c in columns)}
    counts = collections.Counter(len(found) for found in values.values() if found)
    usual = counts.most_common(1)[0][0] if counts else 0

    names = [row.replace("_", " ") for row in rows]
    lines = [[options.title, *columns]]
    lines += [[name, *(cell(values[row, c].values(), usual) for c in columns)] for name, row in zip(names, rows)]
    means = {}
    if len(rows) > 1 and not options.no_mean:
        in_all = {c: [values[row, c] for row in rows] for c in columns}
        means = {c: mean_by_seed(of_rows) if all(of_rows) else {} for c, of_rows in in_all.items()}
        lines.append(["mean", *(cell(means[column].values(), usual) for column in columns)])
    text = markdown(lines)
    text += f"\nAccuracy on {options.split} data in percent; {usual} runs in a cell unless another number stands there.\n"
    others = [column for column in columns if column != options.base]
    if options.base in columns and others:
        base = options.base
        lines = [[f"{options.title} (minus {base})".strip(), *others]]
        for name, row in zip(names, rows):
            lines.append([name, *(difference_cell(values[row, c], values[row, base], usual) for c in others)])
        if means:
            lines.append(["mean", *(difference_cell(means[c], means[base], usual) for c in others)])
        text += f"\n{markdown(lines)}\nPaired differences to {base} with 95 % intervals; bold: the interval leaves out 0.\n"
    print(text)
    (options.out / "table.md").write_text(text)


if __name__ == "__main__":
    main()
