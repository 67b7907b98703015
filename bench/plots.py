#!/usr/bin/env python3
"""Draws the results of a benchmark suite as a picture.

usage: bench/plots.py frontier|flops RESULTS.json PICTURE.png

Needs matplotlib (Debian: python3-matplotlib). `bench/run` calls it after the suites that have a picture.
"""

import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import report  # noqa: E402

#: Method families of the frontier, by the start of their name: label, colour, marker.
FAMILIES = {
    "iid": ("GRF, independent walkers", "#888888", "o"),
    "antithetic_repelling": ("GRF, antithetic and repelling", "#1f6f43", "D"),
    "antithetic": ("GRF, antithetic", "#b08000", "v"),
    "repelling": ("GRF, repelling", "#3a9c6b", "^"),
    "asymmetric": ("GRF, one-sided", "#b3202c", "s"),
    "hybrid1": ("one exact hop, then walks", "#7a3fa0", "P"),
    "hybrid2": ("two exact hops, then walks", "#c070d0", "X"),
    "exact": ("exact series", "#1f5fb0", "*"),
}


def family_of(method):
    return next(name for name in FAMILIES if method == name or method.startswith(name + "_"))


def draw_frontier(results, plt):
    titles = {"grid": "grid, at most 4 neighbours, N = {}", "random100": "random graph, 100 neighbours, N = {}"}
    errors = {"mask_error": "relative error of the mask", "output_error": "relative error of the output"}
    graphs = list(dict.fromkeys(key[:2] for key in results.cases))
    figure, axes = plt.subplots(len(graphs), 2, figsize=(11, 4.2 * len(graphs)), squeeze=False)
    for row, (graph, nodes) in zip(axes, graphs):
        for axis, (counter, label) in zip(row, errors.items()):
            lines = {}
            for (mask, _, method, kind), item in results.cases.items():
                if mask == graph and kind == "attention":
                    lines.setdefault(family_of(method), []).append((item["real_time"], item[counter]))
            for family, points in lines.items():
                text, colour, marker = FAMILIES[family]
                axis.plot(*zip(*points), color=colour, marker=marker, label=text, linewidth=1)
            axis.set(
                xscale="log",
                yscale="log",
                xlabel="ms of one attention, mask made before",
                ylabel=label,
                title=titles.get(graph, graph + ", N = {}").format(nodes),
            )
            axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize=8)
    return figure


def draw_flops(results, plt):
    figure, (flops, times) = plt.subplots(1, 2, figsize=(11, 4.2))
    styles = {"softmax": ("#b3202c", "s"), "linear": ("#888888", "o"), "grf": ("#1f6f43", "D")}
    for variant, (colour, marker) in styles.items():
        points = sorted((key[1], item["flop"], item["real_time"]) for key, item in results.cases.items() if key[2] == variant)
        nodes, operations, milliseconds = zip(*points)
        flops.plot(nodes, operations, color=colour, marker=marker, label=variant)
        times.plot(nodes, milliseconds, color=colour, marker=marker, label=variant)
    for axis, label in ((flops, "operations"), (times, "ms")):
        axis.set(xscale="log", yscale="log", xlabel="N", ylabel=label)
        axis.grid(alpha=0.3)
    flops.legend()
    return figure


def main():
    drawings = {"frontier": draw_frontier, "flops": draw_flops}
    if len(sys.argv) != 4 or sys.argv[1] not in drawings:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        import matplotlib
    except ImportError:
        print("plots.py: no matplotlib for this python; scripts/packages.sh bench installs it for Debian's", file=sys.stderr)
        return 1
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    _, suite, source, target = sys.argv
    figure = drawings[suite](report.Results(json.loads(pathlib.Path(source).read_text())), plt)
    figure.tight_layout()
    figure.savefig(target, dpi=110)
    return 0


if __name__ == "__main__":
    sys.exit(main())
