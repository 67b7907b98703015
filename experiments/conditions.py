#!/usr/bin/env python3
"""What the runs of a table have in common, and which of them are whole: conditions.py FOLDER..., each with NAME-SEED/ runs.

For each folder: data, items of the splits, variants, seeds, length of the training, device, precision and version. A run that
has not finished is named, so that a seed that is missing in a table is seen."""

import json
import pathlib
import sys


def read(path):
    return json.loads(path.read_text()) if path.exists() else {}


def different(values):
    """Each value once, in the order in which they come."""
    return " or ".join(dict.fromkeys(str(value) for value in values))


def lengths(config):
    train = config["train"]
    length = f"{train['epochs']} epochs" if train.get("epochs") and not train.get("steps") else f"{train['steps']} steps"
    return f"{length} of {train['batch_size']}"


def describe(folder):
    """Lines about the runs of a folder."""
    runs = sorted(path.parent for path in folder.glob("*/config.json"))
    whole = [run for run in runs if (run / "summary.json").exists()]
    if not runs:
        return [f"{folder.name}: no runs"]
    configs = [read(run / "config.json") for run in runs]
    summaries = [read(run / "summary.json") for run in whole]
    seeds = sorted({s["seed"] for s in summaries})
    names = dict.fromkeys(run.name.rpartition("-")[0] for run in whole)
    data = different(pathlib.Path(config["data"].get("path") or config["data"].get("kind", "")).name for config in configs)
    items = different(", ".join(f"{split} {n}" for split, n in s.get("items", {}).items()) for s in summaries)
    lines = [
        f"{folder.name}: data {data} ({items}); {len(whole)} of {len(runs)} runs finished: {', '.join(names)}; "
        f"seeds {', '.join(map(str, seeds))}; {different(map(lengths, configs))}; "
        f"{different(c['train']['device'] + ', ' + c['train']['precision'] for c in configs)}; "
        f"topomask {different(s.get('version', '?') for s in summaries)}"
    ]
    lines += [f"{folder.name}: {run.name} has not finished" for run in runs if run not in whole]
    return lines


def main():
    for folder in map(pathlib.Path, sys.argv[1:]):
        print("\n".join(describe(folder)))


if __name__ == "__main__":
    main()
