"""topomask from Python compared with what else computes attention over a graph: one table, forward and with backward.

    python bench/python_speed.py                       # the machine's best device, every size
    python bench/python_speed.py --device cpu --sides 64,128 --json speed.json

Tokens of a grid attend to those within two hops (13 a row); four heads of 64. Rows of one group compute the same function, and are
compared. Libraries that are not installed, and what a device cannot do, are rows that say so.
"""

import argparse
import importlib.metadata
import json
import statistics
import time

import topomask as tm
import torch

HEADS, WIDTH, HOPS = 4, 64, 2
CLOCK = time.perf_counter


class Case:
    """A grid of side², its pattern, inputs [1, H, N, D] and node features [N, H·D]."""

    def __init__(self, side, dtype, device):
        self.side, self.nodes, self.dtype, self.device = side, side * side, dtype, device
        graph = tm.Graph.grid(side, side)
        self.graph = graph.to(device)
        self.pattern = graph.neighbourhoods(HOPS).to(device)
        generator = torch.Generator().manual_seed(0)
        shape = (1, HEADS, self.nodes, WIDTH)
        self.q, self.k, self.v = (torch.randn(shape, generator=generator).to(device, dtype) for _ in range(3))
        self.x = torch.randn(self.nodes, HEADS * WIDTH, generator=generator).to(device, dtype)

    def edges(self):
        """[2, E], source → target, as PyG wants them."""
        return self.pattern.edge_index().flip(0).contiguous()

    def allowed(self):
        near = torch.zeros(self.nodes, self.nodes, dtype=torch.bool, device=self.device)
        near[tuple(self.pattern.edge_index())] = True
        return near


def ours_softmax(case):
    mask = tm.sparse_mask(case.pattern, torch.ones(case.pattern.entries, device=case.device))
    return lambda q, k, v: tm.softmax_attention(q, k, v, mask)


def sdpa_masked(case):
    if case.nodes > (1 << 13 if case.device.type == "cpu" else 1 << 15):
        raise MemoryError(f"left out: the mask alone has {case.nodes}² entries")
    bias = torch.zeros(case.nodes, case.nodes, dtype=case.dtype, device=case.device).masked_fill_(~case.allowed(), float("-inf"))
    return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def flex(case):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    side = case.side

    def within(batch, head, query, key):
        return (query // side - key // side).abs() + (query % side - key % side).abs() <= HOPS

    block_mask = create_block_mask(within, None, None, case.nodes, case.nodes, device=case.device)
    compiled = torch.compile(flex_attention)
    return lambda q, k, v: compiled(q, k, v, block_mask=block_mask)


def sdpa_plain(case):
    if case.nodes > 1 << 13 and case.device.type == "cpu":
        raise TimeoutError(f"left out: {case.nodes}² pairs take a CPU minutes")
    return torch.nn.functional.scaled_dot_product_attention


def ours_kernel(case):
    mask = tm.sparse_mask(case.pattern, torch.ones(case.pattern.entries, device=case.device))
    return lambda q, k, v: tm.attention(q, k, v, mask)


def torch_sparse(case):
    """The same function with torch's sampled product and sparse matrices, head by head."""
    offsets, columns = case.pattern.offsets, case.pattern.columns.long()
    shape = (case.nodes, case.nodes)
    empty = torch.sparse_csr_tensor(offsets, columns, torch.zeros(len(columns), dtype=case.dtype, device=case.device), shape)

    def attend(q, k, v):
        heads = []
        for h in range(HEADS):
            scores = torch.sparse.sampled_addmm(empty, q[0, h].relu(), k[0, h].relu().T.contiguous())
            ones = torch.ones(case.nodes, 1, dtype=case.dtype, device=case.device)
            joint = scores @ torch.cat([v[0, h], ones], 1)
            heads.append(joint[:, :-1] / joint[:, -1:].clamp(min=1e-6))
        return torch.stack(heads).unsqueeze(0)

    return attend


def ours_grf(case):
    mask = tm.GRFMask(case.graph, walkers=4, halting_probability=0.5, heads=HEADS).to(case.device)
    return lambda q, k, v: tm.attention(q, k, v, mask)


def ours_linear(case):
    mask = tm.none_mask(case.nodes)
    return lambda q, k, v: tm.attention(q, k, v, mask)


def fla_linear(case):
    from fla.ops.linear_attn import chunk_linear_attn

    if case.device.type != "cuda":
        raise RuntimeError("Triton: CUDA only")

    def attend(q, k, v):
        out, _ = chunk_linear_attn(*(x.transpose(1, 2).contiguous() for x in (q.relu(), k.relu(), v)), normalize=True)
        return out.transpose(1, 2)

    return attend


def layer(make):
    def build(case):
        torch.manual_seed(0)
        module = make().to(case.device, case.dtype)
        edges = case.edges()
        return lambda x: module(x, edges)

    return build


def pyg(name):
    def make():
        import torch_geometric.nn

        return getattr(torch_geometric.nn, name)(HEADS * WIDTH, WIDTH, heads=HEADS)

    return make


# group → name → what builds the function; in the last group the layers differ from one another.
GROUPS = {
    "softmax attention over the pattern": {
        "topomask, softmax_attention": ours_softmax,
        "FlexAttention, block mask, compiled": flex,
        "SDPA, dense mask": sdpa_masked,
    },
    "kernel attention over the pattern": {"topomask, attention": ours_kernel, "torch.sparse": torch_sparse},
    "other attention, same sizes": {
        "topomask, GRFMask of 4 walkers": ours_grf,
        "topomask, linear attention": ours_linear,
        "fla, linear attention (causal)": fla_linear,
        "SDPA, every pair": sdpa_plain,
    },
    "layers over the edges, with projections": {
        "topomask, pyg.TransformerConv": layer(lambda: tm.pyg.TransformerConv(HEADS * WIDTH, WIDTH, heads=HEADS)),
        "PyG, TransformerConv": layer(pyg("TransformerConv")),
        "PyG, GATConv": layer(pyg("GATConv")),
    },
}
SAME = ("softmax attention over the pattern", "kernel attention over the pattern")


def milliseconds(function, device, repeats):
    """The median of `repeats` calls after two that do not count."""
    times = []
    for call in range(repeats + 2):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        started = CLOCK()
        function()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if call >= 2:
            times.append(1e3 * (CLOCK() - started))
    return statistics.median(times)


def measure(group, build, case, repeats):
    function = build(case)
    given = [case.x] if group.startswith("layers") else [case.q, case.k, case.v]
    learnt = [x.clone().requires_grad_() for x in given]

    def forward():
        with torch.no_grad():
            return function(*given)

    row = {"forward_ms": milliseconds(forward, case.device, repeats), "out": forward()}
    cotangent = torch.ones_like(row["out"])
    if case.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    try:
        row["both_ms"] = milliseconds(lambda: torch.autograd.grad(function(*learnt), learnt, cotangent), case.device, repeats)
    except Exception as error:
        row["note"] = "backward: " + reason(error)
    if case.device.type == "cuda":
        row["peak_mib"] = (torch.cuda.max_memory_allocated() - before) / 2**20
    return row


def reason(error):
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text[:90]}"


def rows_of(case, repeats):
    for group, methods in GROUPS.items():
        reference = None
        for name, build in methods.items():
            row = {"nodes": case.nodes, "dtype": str(case.dtype)[6:], "group": group, "method": name}
            try:
                row |= measure(group, build, case, repeats)
                out = row.pop("out").double()
                if group in SAME:
                    reference = out if reference is None else reference
                    row["difference"] = float((out - reference).abs().max() / reference.abs().max())
            except Exception as error:  # not installed, no memory, no kernel: said in the table
                row["note"] = reason(error)
            yield row
            if case.device.type == "cuda":
                torch.cuda.empty_cache()


def short(number):
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def table(rows):
    """Markdown: a row per method, columns by size."""
    sizes = sorted({(row["dtype"], row["nodes"]) for row in rows})
    lines = ["| | " + " | ".join(f"N = {nodes}, {dtype}" for dtype, nodes in sizes) + " |", "|---|" + "---|" * len(sizes)]
    for group in GROUPS:
        lines.append(f"| *{group}* |" + " |" * len(sizes))
        for name in GROUPS[group]:
            cells = []
            for dtype, nodes in sizes:
                row = next((r for r in rows if (r["dtype"], r["nodes"], r["method"]) == (dtype, nodes, name)), {})
                both = f" ({short(row['both_ms'])})" if "both_ms" in row else " (–)"
                cells.append(f"{short(row['forward_ms'])}{both}" if "forward_ms" in row else "–")
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sides", default="64,128,256", help="N = side²")
    parser.add_argument("--dtypes", help="float32 on a CPU, float32,bfloat16 on a GPU")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true", help="time of the processor on one thread: for machines that are busy")
    parser.add_argument("--json", help="write the rows there")
    arguments = parser.parse_args()
    if arguments.cpu_time:
        global CLOCK
        CLOCK = time.process_time
        torch.set_num_threads(1)
    device = torch.device(arguments.device)
    dtypes = (arguments.dtypes or ("float32" if device.type == "cpu" else "float32,bfloat16")).split(",")
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    versions = {"torch": torch.__version__, "topomask": tm.__version__}
    for name in ("torch_geometric", "fla", "flash-linear-attention"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    print(machine, versions)
    rows = []
    for dtype in dtypes:
        for side in map(int, arguments.sides.split(",")):
            for row in rows_of(Case(side, getattr(torch, dtype), device), arguments.repeats):
                rows.append(row)
                print({name: round(value, 5) if isinstance(value, float) else value for name, value in row.items()}, flush=True)
            torch._dynamo.reset()
    print("\nms forward (with backward), medians\n\n" + table(rows))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"machine": machine, "versions": versions, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
