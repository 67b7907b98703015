"""Every route of attention on a GPU over masks, sizes and dtypes, forward and with gradients, and what the planner estimates.

    python bench/planner_gpu.py --json planner.json     # about two minutes; bench_planner is its counterpart on the CPU

Prints a row for each route: estimated and measured milliseconds. Then, by route and dtype, how far estimates are off, what the way
back adds, the constants of src/attention/cuda_cost_model.cpp as least squares fit them, and where the planner's choice takes more than
1.5 times as long as the fastest route.
"""

import argparse
import json
import math
import statistics
import time
from collections import defaultdict

import topomask as tm
import torch
from device_time import milliseconds

WITHIN = 1.5
RANK = 16  # of factors


def series(powers):
    return lambda side, heads: tm.PowerSeriesMask(tm.Graph.grid(side, side).normalised(0.9), torch.full((heads, powers + 1), 0.5))


def table(side, heads):
    return tm.ShortestPathMask(tm.Graph.grid(side, side), torch.rand(heads, 2 * side) + 0.1)


def full(side, heads):
    return tm.DenseMask(torch.rand(heads, side**2, side**2) + 0.1)


def toeplitz(side, heads):
    return tm.ToeplitzMask([side, side], torch.rand(heads, 2 * side - 1, 2 * side - 1) + 0.1)


def factors(side, heads):
    return tm.FreeFeaturesMask(*(torch.rand(heads, side**2, RANK) + 0.1 for _ in range(2)))


# name → (side, heads) → mask, and the largest side
KINDS = {
    "neighbours": (lambda side, heads: tm.NeighboursMask(tm.Graph.grid(side, side)), 256),
    "series3": (series(3), 256),
    "series10": (series(10), 128),
    "dense": (full, 64),
    "toeplitz": (toeplitz, 128),
    "factors": (factors, 128),
    "table": (table, 64),
    "none": (lambda side, heads: tm.NoneMask(side * side), 256),
    "causal": (lambda side, heads: tm.CausalMask(side * side), 128),
}


class Sweep:
    def __init__(self, arguments):
        self.arguments, self.rows, self.started = arguments, [], time.perf_counter()

    def point(self, name, mask, dtype):
        """All routes of one problem."""
        a, nodes = self.arguments, mask.size
        batch = max(1, a.tokens // nodes)
        inputs = [(torch.rand(batch, a.heads, nodes, a.width, device="cuda") + 0.1).to(dtype) for _ in range(3)]
        learnt = list(mask.parameters())
        for training in (False, True):
            wanted = [x.detach().requires_grad_(training) for x in inputs]
            plan = tm.explain(*wanted, mask, features=None) if training else self.forward_plan(wanted, mask)
            for estimate in plan.estimates:
                if not estimate.available or estimate.seconds > a.slowest:
                    continue
                row = {
                    "mask": name,
                    "nodes": nodes,
                    "slices": batch * a.heads,
                    "dtype": str(dtype).removeprefix("torch."),
                    "route": estimate.route,
                }
                row |= {"training": training, "chosen": plan.route == estimate.route, "estimate_ms": 1e3 * estimate.seconds}
                self.measure(row, wanted, learnt, mask)

    @staticmethod
    def forward_plan(inputs, mask):
        with torch.no_grad():
            return tm.explain(*inputs, mask, features=None)

    def measure(self, row, inputs, learnt, mask):
        def forward():
            return tm.attention(*inputs, mask, features=None, route=row["route"])

        def both():
            out = forward()
            torch.autograd.grad(out, [*inputs, *learnt], torch.ones_like(out))

        try:
            with torch.set_grad_enabled(row["training"]):
                row["ms"] = milliseconds(both if row["training"] else forward, self.arguments.seconds)
        except Exception as error:  # a route that fails is a row that says so
            row["note"] = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
            torch.cuda.empty_cache()
        self.rows.append(row)
        shown = f"{row['ms']:10.3f} {row['estimate_ms'] / row['ms']:7.2f}" if "ms" in row else f"{'–':>10} {'–':>7}"
        kind = "both" if row["training"] else "forward"
        print(
            f"{row['mask']:<11}{row['nodes']:>6}{row['slices']:>6} {row['dtype']:<9}{kind:<8}{row['route']:<9}"
            f"{row['estimate_ms']:10.3f}{shown}{'  chosen' if row['chosen'] else ''}  {row.get('note', '')}",
            flush=True,
        )

    def run(self):
        print(f"{'mask':<11}{'N':>6}{'B·H':>6} {'dtype':<9}{'pass':<8}{'route':<9}{'estimate':>10}{'ms':>10} {'ratio':>7}")
        for name in self.arguments.kinds.split(","):
            make, largest = KINDS[name]
            for side in map(int, self.arguments.sides.split(",")):
                if side > largest:
                    continue
                mask = make(side, self.arguments.heads).cuda()
                for dtype in (torch.bfloat16, torch.float32):
                    if time.perf_counter() - self.started > self.arguments.limit:
                        print("the time is over; the rest is left out")
                        return
                    self.point(name, mask, dtype)
                    torch.cuda.empty_cache()
                del mask


def show_estimates(rows):
    print("\nestimate / measured, and both / forward:")
    groups, forward = defaultdict(list), {}
    for row in rows:
        key = (row["mask"], row["nodes"], row["dtype"], row["route"])
        group = groups[row["route"], row["dtype"]]
        if not row["training"]:
            forward[key] = row["ms"]
        group.append((row["estimate_ms"] / row["ms"], row["ms"] / forward[key] if row["training"] and key in forward else None))
    for (route, dtype), found in sorted(groups.items()):
        off, back = [x for x, _ in found], [x for _, x in found if x]
        spread = math.exp(statistics.fmean(abs(math.log(x)) for x in off))
        text = f"{statistics.median(back):5.2f} ({min(back):.2f} – {max(back):.2f})" if back else "–"
        print(
            f"  {route:<9} {dtype:<9} estimates {statistics.median(off):5.2f} ({min(off):.2f} – {max(off):.2f}), "
            f"mean factor {spread:.2f}; back {text}"
        )


def fit_fused(rows, width):
    """Forward calls as start + multiply-adds / rate, by relative least squares. All sizes have the same number of rows, so that what
    a row costs is in the start; --tokens changes it."""
    print("\nfused, forward: microseconds for start and rows, 1e12 multiply-adds a second")
    for dtype in sorted({row["dtype"] for row in rows}):
        for kind in sorted({row["mask"] for row in rows}):
            here = [r for r in rows if r["route"] == "fused" and not r["training"] and r["dtype"] == dtype and r["mask"] == kind]
            if len(here) < 3:
                continue
            widths = 2 * width + (RANK if kind == "factors" else 0)
            half = 0.5 if kind == "causal" else 1.0
            work = torch.tensor([half * r["slices"] * r["nodes"] ** 2 * widths for r in here]).double() / 1e12
            seconds = torch.tensor([r["ms"] for r in here]).double() / 1e3
            sides = torch.stack([torch.ones_like(work), work], 1) / seconds[:, None]
            start, product = torch.linalg.lstsq(sides, torch.ones_like(work)[:, None]).solution[:, 0].tolist()
            rate = f"{1 / product:.1f}" if product > 0 else "–"
            print(f"  {dtype:<9} {kind:<11} {1e6 * start:8.1f} {rate:>8}")


def show_choices(rows):
    problems = defaultdict(list)
    for row in rows:
        problems[row["mask"], row["nodes"], row["dtype"], row["training"]].append(row)
    worst = []
    for key, found in problems.items():
        chosen = next((r for r in found if r["chosen"]), None)
        best = min(found, key=lambda r: r["ms"])
        if chosen:
            worst.append((chosen["ms"] / best["ms"], key, chosen["route"], best["route"]))
    good = sum(ratio <= WITHIN for ratio, *_ in worst)
    print(f"\nthe choice is within {WITHIN} of the best measured route in {good} of {len(worst)} problems")
    for ratio, key, chosen, best in sorted(worst, reverse=True):
        if ratio > WITHIN:
            print(f"  {ratio:5.2f}: {chosen} in place of {best}, {' '.join(map(str, key[:3]))}, {'both' if key[3] else 'forward'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--sides", default="14,32,64,128")
    parser.add_argument("--heads", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=65_536, help="of a batch")
    parser.add_argument("--width", type=int, default=64, help="m = d")
    parser.add_argument("--slowest", type=float, default=0.1, help="seconds; what is estimated slower is left out")
    parser.add_argument("--seconds", type=float, default=0.05, help="for each row")
    parser.add_argument("--limit", type=float, default=150, help="seconds for all")
    parser.add_argument("--json", help="also write the rows there")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    sweep = Sweep(arguments)
    sweep.run()
    measured = [row for row in sweep.rows if "ms" in row]
    show_estimates(measured)
    fit_fused(measured, arguments.width)
    show_choices(measured)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": sweep.rows}, file, indent=1)


if __name__ == "__main__":
    main()
