#!/usr/bin/env python3
"""The table of experiments/robot.sh, from the summaries that `topomask train` writes: robot_table.py OUT."""

import json
import math
import pathlib
import statistics
import sys

from conditions import describe

SCORES = [
    ("ssim", "SSIM", 1, 3),
    ("ssim_moved", "SSIM, moved objects' pixels", 1, 3),
    ("psnr", "PSNR, dB", 1, 2),
    ("psnr_moved", "PSNR, dB, moved objects' pixels", 1, 2),
    ("particle_error", "error of particles on moved objects, mm", 1000, 1),
]


def load(folder):
    """Summaries of finished runs by variant, in the order of their names."""
    runs = {}
    for path in sorted(folder.glob("*/summary.json")):
        name, _, seed = path.parent.name.rpartition("-")
        runs.setdefault(name, []).append((int(seed), json.loads(path.read_text())))
    return runs


def cell(values, scale, digits):
    values = [scale * v for v in values if v is not None and not math.isnan(v)]
    if not values:
        return "–"
    text = f"{statistics.mean(values):.{digits}f}"
    return f"{text} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else text


def score_table(runs, name, title, scale, digits):
    curves = {variant: [s["curves"]["test"] for _, s in found] for variant, found in runs.items()}
    steps = len(next(iter(curves.values()))[0][name])
    print(f"\n{title}\n")
    print("| variant | seeds | mean | " + " | ".join(f"step {s + 1}" for s in range(steps)) + " |")
    print("|---|---|---" + "|---" * steps + "|")

    def row(label, lists):
        scored = [[v for v in values if v is not None] for values in lists]
        means = [statistics.mean(values) for values in scored if values]
        cells = [cell([values[s] for values in lists], scale, digits) for s in range(steps)]
        print(f"| {label} | {len(lists)} | {cell(means, scale, digits)} | " + " | ".join(cells) + " |")

    every = [curve for found in curves.values() for curve in found]
    for prefix, label in (("copy_", "floor: the last frame again"), ("encoded_", "true frames, rendered")):
        if prefix + name in every[0]:
            row(label, [curve[prefix + name] for curve in every])
    for variant, found in curves.items():
        row(variant, [curve[name] for curve in found])


def cost_table(runs):
    print("\n| variant | seeds | a step, ms | memory, MB | parameters |")
    print("|---|---|---|---|---|")
    for variant, found in runs.items():
        summaries = [s for _, s in found]
        print(
            f"| {variant} | {len(found)} | {cell([s['step_ms'] for s in summaries], 1, 1)} | "
            f"{cell([s['peak_memory_mb'] for s in summaries], 1, 0)} | {summaries[0].get('parameters', '–')} |"
        )


def main():
    out = pathlib.Path(sys.argv[1])
    for tier, title in (("small", "64 × 64 cameras, 8 192 particles"), ("large", "128 × 128 cameras, 32 768 particles")):
        runs = load(out / tier)
        if not runs:
            continue
        print(f"\n## {title}")
        for score in SCORES:
            score_table(runs, *score)
        cost_table(runs)
        print("\n" + "\n".join(describe(out / tier)))


if __name__ == "__main__":
    main()
