"""What the programs that bench/gpu.sh runs are held to, in one table: DIR holds their JSON."""

import json
import pathlib
import sys


def read(folder, name):
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def icosphere_bar(found):
    """At most half of what FlexAttention takes."""
    rows = {row["method"]: row for row in found["rows"] if row["nodes"] == 40962 and row["hops"] == 16}
    ours, theirs = rows.get("topomask", {}), rows.get("FlexAttention block mask", {})
    value = ours["both_ms"] / theirs["both_ms"] if "both_ms" in ours and "both_ms" in theirs else None
    return {"name": "icosphere, 40 962 nodes, 16 hops / FlexAttention, forward + backward", "value": value, "limit": 0.5}


def main():
    folder = pathlib.Path(sys.argv[1])
    bars = []
    for name in ("gpu", "fused", "icosphere", "whole_graph"):
        found = read(folder, name)
        if found is None:
            print(f"bars of {name}.py: not measured")
        elif name == "icosphere":
            bars.append(icosphere_bar(found))
        elif name == "whole_graph":
            seconds = found["median_seconds"]
            value = None if seconds is None else 1e3 * seconds
            bars.append({"name": "training step on the whole graph, forward + backward (ms)", "value": value, "limit": 60})
        else:
            bars += found["bars"]
    for bar in bars:
        value = bar["value"]
        verdict = "?     " if value is None else "met   " if value <= bar["limit"] else "MISSED"
        shown = "not measured" if value is None else f"{value:.4g}"
        print(f"  {verdict} {bar['name']}: {shown}, at most {bar['limit']}")


if __name__ == "__main__":
    main()
