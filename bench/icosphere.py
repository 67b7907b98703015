"""Softmax attention inside k-hop neighbourhoods of an icosphere, forward and backward: topomask compared with SDPA with a block-banded
mask and FlexAttention with a block mask. Prints a table, then one line of JSON.

    python bench/icosphere.py                                    # 10 242 and 40 962 nodes, 8, 16 and 32 hops, on the GPU
    python bench/icosphere.py --device cpu --levels 3 --hops 2   # a smoke test

Nodes are in reverse Cuthill–McKee order. What fails (memory, no kernel) is a row that says so. Every method is compared with the
first one that ran.
"""

import argparse
import json
import statistics
import sys
import time
import traceback

import topomask as tm
import torch
from torch.nn.functional import scaled_dot_product_attention


class Problem:
    """An ordered mesh, the pattern of its neighbourhoods, and q, k, v of one head layout [1, H, N, D]."""

    def __init__(self, level, hops, heads, width, dtype, device):
        mesh = tm.Graph.icosphere(level)
        started = time.perf_counter()
        graph = tm.permuted(mesh, tm.reverse_cuthill_mckee(mesh))
        self.pattern = graph.neighbourhoods(hops)
        self.seconds = time.perf_counter() - started
        self.nodes, self.hops, self.device = graph.num_nodes, hops, device
        self.cpu_pattern, self.pattern = self.pattern, self.pattern.to(device)
        generator = torch.Generator().manual_seed(0)
        shape = (1, heads, self.nodes, width)
        self.q, self.k, self.v, self.cotangent = (torch.randn(shape, generator=generator).to(device, dtype) for _ in range(4))

    @property
    def per_row(self):
        return self.pattern.entries / self.nodes

    def allowed(self, first, last):
        """bool [last − first, N] on the device: who is near whom."""
        offsets, columns = self.pattern.offsets, self.pattern.columns
        a, b = int(offsets[first]), int(offsets[last])
        rows = torch.repeat_interleave(torch.arange(last - first, device=self.device), offsets[first : last + 1].diff())
        near = torch.zeros(last - first, self.nodes, dtype=torch.bool, device=self.device)
        near[rows, columns[a:b].long()] = True
        return near


def ours(problem):
    ones = torch.ones(problem.pattern.entries, device=problem.device)
    mask = tm.sparse_mask(problem.pattern, ones)
    mask.prepare()
    return lambda q, k, v: tm.softmax_attention(q, k, v, mask, route="sparse")


def ours_compiled(problem):
    return torch.compile(ours(problem), fullgraph=True)


def banded(problem, block=1024):
    """Queries in blocks; each attends to the interval of keys that its rows reach, under an additive mask."""
    pieces = []
    for first in range(0, problem.nodes, block):
        last = min(first + block, problem.nodes)
        near = problem.allowed(first, last)
        reached = near.any(0).nonzero()
        low, high = int(reached.min()), int(reached.max()) + 1
        low, high = low // 8 * 8, min(problem.nodes, (high + 7) // 8 * 8)  # the kernels want aligned masks
        bias = torch.zeros(last - first, high - low, dtype=problem.q.dtype, device=problem.device)
        bias.masked_fill_(~near[:, low:high], float("-inf"))
        pieces.append((first, last, low, high, bias))

    def attend(q, k, v):
        parts = []
        for first, last, low, high, bias in pieces:
            part = scaled_dot_product_attention(q[:, :, first:last], k[:, :, low:high], v[:, :, low:high], attn_mask=bias)
            parts.append(part)
        return torch.cat(parts, 2)

    return attend


def dense(problem):
    bias = torch.zeros(problem.nodes, problem.nodes, dtype=problem.q.dtype, device=problem.device)
    for first in range(0, problem.nodes, 1024):
        last = min(first + 1024, problem.nodes)
        bias[first:last].masked_fill_(~problem.allowed(first, last), float("-inf"))
    return lambda q, k, v: scaled_dot_product_attention(q, k, v, attn_mask=bias)


def flex(problem):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    step = 2048
    near = torch.cat([problem.allowed(a, min(a + step, problem.nodes)) for a in range(0, problem.nodes, step)])

    def mask_mod(batch, head, query, key):
        return near[query, key]

    block_mask = create_block_mask(mask_mod, None, None, problem.nodes, problem.nodes, device=problem.device)
    compiled = torch.compile(flex_attention)
    return lambda q, k, v: compiled(q, k, v, block_mask=block_mask)


METHODS = {
    "topomask": ours,
    "topomask compiled": ours_compiled,
    "SDPA block-banded mask": banded,
    "SDPA dense mask": dense,
    "FlexAttention block mask": flex,
}


def synchronise(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(function, device, repeats):
    """The median of `repeats` calls after two that do not count."""
    times = []
    for call in range(repeats + 2):
        synchronise(device)
        started = time.perf_counter()
        function()
        synchronise(device)
        if call >= 2:
            times.append(1e3 * (time.perf_counter() - started))
    return statistics.median(times)


def measure(problem, attend, repeats):
    """Outputs and gradients, ms of forward and of both, MiB beyond what was there before."""
    device = problem.q.device
    q, k, v = (x.clone().requires_grad_() for x in (problem.q, problem.k, problem.v))

    def both():
        return torch.autograd.grad(attend(q, k, v), (q, k, v), problem.cotangent)

    def forward():
        with torch.no_grad():
            return attend(problem.q, problem.k, problem.v)

    result = {"forward_ms": milliseconds(forward, device, repeats), "outputs": [forward()]}
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    try:
        result["both_ms"] = milliseconds(both, device, repeats)
        result["outputs"] += both()
    except Exception as error:  # FlexAttention has no backward pass on a CPU
        result["note"] = "backward: " + reason(error)
    if device.type == "cuda":
        result["peak_mib"] = (torch.cuda.max_memory_allocated(device) - before) / 2**20
    return result


def reason(error):
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:110] if text else ''}"


def difference(outputs, reference):
    return max(float((a.double() - b.double()).abs().max() / b.double().abs().max()) for a, b in zip(outputs, reference))


def run(problem, names, repeats, verbose):
    reference = None
    for name in names:
        row = {"nodes": problem.nodes, "hops": problem.hops, "per_row": problem.per_row, "method": name}
        try:
            found = measure(problem, METHODS[name](problem), repeats)
            outputs = found.pop("outputs")
            row.update(found)
            if reference is None:
                reference = outputs
            row["difference"] = difference(outputs, reference)
        except Exception as error:  # one method that does not run must not end the table
            row["note"] = reason(error)
            if verbose:
                traceback.print_exc()
        yield row
        if problem.q.is_cuda:
            torch._dynamo.reset()
            torch.cuda.empty_cache()


def show(row):
    def number(name, form):
        return f"{row[name]:{form}}" if name in row else "–"

    line = f"{row['nodes']:>7} {row['hops']:>4} {row['per_row']:>6.0f}  {row['method']:<28}"
    line += f"{number('forward_ms', '10.3f'):>10} {number('both_ms', '10.3f'):>10} {number('peak_mib', '9.0f'):>9}"
    print(line + f" {number('difference', '9.1e'):>9}  {row.get('note', '')}", flush=True)


def show_ratios(rows):
    """How much longer FlexAttention takes than the first method, forward and backward."""
    for row in rows:
        first = next(r for r in rows if (r["nodes"], r["hops"]) == (row["nodes"], row["hops"]))
        if row["method"].startswith("Flex") and "both_ms" in row and "both_ms" in first:
            print(
                f"{row['nodes']} nodes, {row['hops']} hops: {row['method']} / {first['method']} {row['both_ms'] / first['both_ms']:.2f}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--levels", default="5,6")
    parser.add_argument("--hops", default="8,16,32")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--json", help="also write the rows there")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    names = arguments.methods.split(",")
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        sys.exit(f"icosphere.py: methods must be among {', '.join(METHODS)}, got {unknown[0]}")

    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{machine}, torch {torch.__version__}, {arguments.dtype}, {arguments.heads} heads of {arguments.width}")
    print(f"{'nodes':>7} {'hops':>4} {'a row':>6}  {'method':<28}{'forward':>10} {'with bwd':>10} {'peak MiB':>9} {'differs':>9}")
    rows = []
    for level in map(int, arguments.levels.split(",")):
        for hops in map(int, arguments.hops.split(",")):
            dtype = getattr(torch, arguments.dtype)
            problem = Problem(level, hops, arguments.heads, arguments.width, dtype, device)
            for row in run(problem, names, arguments.repeats, arguments.verbose):
                rows.append(row)
                show(row)
            del problem
    show_ratios(rows)
    result = {"machine": machine, "torch": torch.__version__, "dtype": arguments.dtype, "rows": rows}
    print(json.dumps(result))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
