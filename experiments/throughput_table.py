"""The table of experiments/throughput.sh: DIR "VARIANTS" "SIDES" TOKENS. Medians over the timed stretches of all runs, the range of the
middle half of them and of the medians of single runs, and what softmax takes at the same size.
"""

import json
import pathlib
import statistics
import sys

WARM = 2  # stretches at the start of a run


def stretches(run):
    """Milliseconds a step."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line["step_ms"] for line in lines if line["kind"] == "train"][WARM:]


def row_of(folder, variant, side):
    """Of all finished runs of a variant at a size; None where there are none."""
    runs = sorted(path.parent for path in folder.glob(f"{variant}-{side}-*/summary.json"))
    times = [found for found in map(stretches, runs) if found]
    if not times:
        return None
    every = sorted(sum(times, []))
    quarters = statistics.quantiles(every, n=4, method="inclusive") if len(every) > 1 else every * 3
    medians = [statistics.median(found) for found in times]
    memory = max(json.loads((run / "summary.json").read_text())["peak_memory_mb"] for run in runs)
    return {"median": statistics.median(every), "quarters": (quarters[0], quarters[2]), "runs": medians, "memory": memory}


def main():
    folder, variants, sides, tokens = (
        pathlib.Path(sys.argv[1]),
        sys.argv[2].split(),
        map(int, sys.argv[3].split()),
        int(sys.argv[4]),
    )
    print(
        f"{'variant':<10}{'tokens':>8}{'batch':>7}{'step, ms':>10}{'middle half':>18}{'single runs':>18}{'/ softmax':>11}{'memory, MB':>12}"
    )
    for side in sides:
        softmax = row_of(folder, "softmax", side)
        for variant in variants:
            row = row_of(folder, variant, side)
            start = f"{variant:<10}{side * side:>8}{tokens // side**2:>7}"
            if row is None:
                print(f"{start}  no run has finished")
                continue
            low, high = row["quarters"]
            ratio = f"{row['median'] / softmax['median']:.3f}" if softmax else "–"
            middle, single = f"{low:.2f} – {high:.2f}", f"{min(row['runs']):.2f} – {max(row['runs']):.2f}"
            print(f"{start}{row['median']:>10.2f}{middle:>18}{single:>18}{ratio:>11}{row['memory']:>12.0f}")


if __name__ == "__main__":
    main()
