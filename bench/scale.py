#!/usr/bin/env python3
"""What attention over ranks costs, measured and extrapolated; docs/scale.md has the tables.

    torchrun --nproc-per-node 4 bench/scale.py measure [--graph FILE | --side 512]   # a line of JSON for each mask
    torchrun --nproc-per-node 2 bench/scale.py overlap --side 512   # how much of the exchanges is hidden behind local rows
    python bench/scale.py one-rank [--side 256]     # every mask over one rank against the mask of one process
    python bench/scale.py partitions --graph FILE [--parts 4 16 64]   # halo rows of every method
    python bench/scale.py shards [--edges 8000000]  # peak memory of shard_edge_list on a random graph
    python bench/scale.py step [--graph FILE]            # time and memory of a training step
    python bench/scale.py halo [--parts 64]         # halo rows over many parts, counted in one process, in the same form
    python bench/scale.py table [--measured FILE]   # 10^8 and 10^9 nodes on 8 to 256 GPUs, from lines of measure and halo

`measure` without torchrun is one rank. Times are medians of the slowest rank.
"""

import argparse
import json
import math
import os
import resource
import statistics
import sys
import time

import topomask as tm
import torch
import torch.distributed as c10d
from scale_process import FEATURES, HEADS, VALUE_DIM, graph_of, one_rank, partitions, shards
from topomask.dist.exchange import halo_of


def mask_bytes(mask):
    """Bytes of the tensors that a mask keeps, each storage once."""
    seen = {}

    def add(tensor):
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()

    for module in mask.modules():
        for tensor in getattr(module, "_local", {}).values():
            add(tensor)
    local = mask.local
    patterns = [local.pattern, *(piece.pattern for piece in local.pieces), *getattr(mask, "_patterns", ())]
    for pattern in patterns:
        for tensor in pattern._operands():
            add(tensor)
    for piece in local.pieces:
        for tensor in (piece.rows, piece.used, piece.entries):
            if tensor is not None:
                add(tensor)
    for tensor in (local.plan.halo, local.plan.send_index):
        add(tensor)
    return sum(seen.values())


def timed(function, repeats=5):
    function()
    times = []
    for _ in range(repeats):
        if c10d.is_initialized():
            c10d.barrier()
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def timed_waiting(group, function, repeats=5):
    """How long a call waits for its exchange."""
    times = []
    for _ in range(repeats):
        if c10d.is_initialized():
            c10d.barrier()
        before = group.seconds_waited
        function()
        times.append(group.seconds_waited - before)
    return statistics.median(times)


def measure(arguments):
    if "RANK" in os.environ:
        c10d.init_process_group("gloo")
    torch.set_num_threads(1)
    group = tm.dist.Group()
    graph = graph_of(arguments)
    graph = graph.normalised()
    layout = tm.dist.Layout(tm.dist.partition(graph, group.size, arguments.method), group)
    shard = tm.dist.shard(graph, layout)
    walks = tm.dist.sample_walks(graph, layout, walkers=4, halting_probability=0.5, max_hops=8, seed=1)
    coefficients = torch.tensor([1.0, 0.5, 0.25])
    makers = {
        "neighbours": lambda: tm.dist.neighbours_mask(shard),
        "power series, 3 terms": lambda: tm.dist.power_series_mask(shard, torch.nn.Parameter(coefficients)),
        "asymmetric GRF": lambda: tm.dist.asymmetric_grf_mask(walks, torch.nn.Parameter(coefficients)),
        "GRF": lambda: tm.dist.grf_mask(walks, torch.nn.Parameter(coefficients)),
    }
    shapes = [(HEADS, layout.num_rows, width) for width in (FEATURES, FEATURES, VALUE_DIM)]
    q, k, v = (torch.randn(shape).abs().requires_grad_() for shape in shapes)
    for name, make in makers.items():
        mask = make()

        def step(mask=mask):
            tm.attention(q, k, v, mask).sum().backward()

        before = group.bytes_sent
        out = tm.attention(q, k, v, mask)
        forward = group.bytes_sent - before
        out.sum().backward()
        plain = float("nan")
        if group.size == 1:
            whole = {
                "neighbours": lambda: tm.neighbours_mask(graph),
                "power series, 3 terms": lambda: tm.power_series_mask(graph, torch.nn.Parameter(coefficients)),
            }.get(name)
            if whole is not None:
                one = whole()
                plain = timed(lambda one=one: tm.attention(q, k, v, one, route="sparse").sum().backward())
        seconds = timed(step)
        both = torch.cat([k, v], -1).detach()
        alone = timed(lambda mask=mask: halo_of(mask.local.plan, both))
        waited = timed_waiting(group, lambda mask=mask: tm.attention(q.detach(), k.detach(), v.detach(), mask))
        row = [layout.num_rows, mask.local.pattern.entries, mask.halo_rows, mask_bytes(mask), forward]
        rows = group.all_gather([*row, int(1e6 * seconds), len(mask.local.interior), int(1e6 * alone), int(1e6 * waited)])
        if group.rank == 0:
            formula = mask.local.plan.total * HEADS * (FEATURES + VALUE_DIM) * 4
            columns = list(zip(*rows))
            made = {
                "mask": name,
                "nodes": graph.num_nodes,
                "ranks": group.size,
                "rows": max(columns[0]),
                "entries": sum(columns[1]),
                "halo": max(columns[2]),
                "halo_all": sum(columns[2]),
                "mask_bytes": max(columns[3]),
                "sent": sum(columns[4]),
                "formula": formula,
                "milliseconds": max(columns[5]) / 1e3,
                "interior": sum(columns[6]) / graph.num_nodes,
                "exchange_milliseconds": max(columns[7]) / 1e3,
                "waited_milliseconds": max(columns[8]) / 1e3,
            }
            if plain == plain:
                made["plain_milliseconds"] = 1e3 * plain
            print(json.dumps(made), flush=True)


def exposed(group, function, repeats):
    """Milliseconds that a rank waits for the exchanges of a call, from when all have begun them: the mean over ranks of medians."""
    function()
    waits = []
    for _ in range(repeats):
        c10d.barrier()
        group.exchanges = []
        function()
        marks, group.exchanges = group.exchanges, None
        ranks = group.all_gather([int(1e9 * mark) for three in marks for mark in three])
        last = [max(row[k] for row in ranks) for k in range(0, len(ranks[0]), 3)]  # all have begun
        total = [sum(max(0, row[3 * k + 2] - max(row[3 * k + 1], begun)) for k, begun in enumerate(last)) for row in ranks]
        waits.append(sum(total) / len(total) / 1e6)
    return statistics.median(waits)


def overlap(arguments):
    """How much of the exchanges of a layer, forward and backward, is hidden behind the rows that need none: 1 − waited / alone.

    alone is how long a rank waits if it has nothing to do meanwhile. A rank that is late is not the exchange's fault: waiting
    counts from when the last rank has begun it."""
    if "RANK" in os.environ:
        c10d.init_process_group("gloo")
    torch.set_num_threads(1)
    group = tm.dist.Group()
    graph = graph_of(arguments).normalised()
    layout = tm.dist.Layout(tm.dist.partition(graph, group.size, arguments.method), group)
    walks = tm.dist.sample_walks(graph, layout, walkers=4, halting_probability=0.5, max_hops=8, seed=1)
    masks = {
        "neighbours": tm.dist.neighbours_mask(tm.dist.shard(graph, layout)),
        "GRF": tm.dist.grf_mask(walks, torch.nn.Parameter(torch.tensor([1.0, 0.5, 0.25])), reduce=False),
    }
    shapes = [(HEADS, layout.num_rows, width) for width in (FEATURES, FEATURES, VALUE_DIM)]
    q, k, v = (torch.randn(shape).abs().requires_grad_() for shape in shapes)
    both = torch.cat([k, v], -1).detach().requires_grad_()
    for name, mask in masks.items():
        plan = mask.local.plan
        alone = exposed(group, lambda plan=plan: halo_of(plan, both).sum().backward(), arguments.repeats)
        waited = exposed(group, lambda mask=mask: tm.attention(q, k, v, mask).sum().backward(), arguments.repeats)
        if group.rank == 0:
            made = {"mask": name, "nodes": graph.num_nodes, "ranks": group.size, "exchange_milliseconds": alone}
            print(json.dumps({**made, "waited_milliseconds": waited, "hidden": 1 - waited / max(alone, 1e-9)}), flush=True)


def step(arguments):
    """Forward and backward of a two-layer GRF transformer (width 64, 4 heads, perceptron of 2 widths) in one process."""
    graph = graph_of(arguments).normalised()
    layout = tm.dist.Layout(tm.dist.partition(graph, 1))
    walks = tm.dist.sample_walks(graph, layout, walkers=4, halting_probability=0.5, max_hops=8, seed=1)
    functions = [torch.nn.Parameter(torch.exp(-0.5 * torch.arange(9.0)).repeat(HEADS, 1)) for _ in range(2)]
    first = tm.dist.grf_mask(walks, functions[0])
    masks = [first, first.sharing(functions[1])]
    phi = tm.FeatureMap.relu(1e-3)
    model = tm.nn.GraphTransformer(features=25, classes=16, masks=masks, width=64, heads=HEADS, phi=phi, chunk=arguments.chunk)
    x, labels = torch.randn(layout.num_rows, 25), torch.randint(0, 16, (layout.num_rows,))
    del graph, walks
    for _ in range(arguments.repeats):
        seconds, processor = [time.perf_counter()], [time.process_time()]
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        seconds.append(time.perf_counter())
        processor.append(time.process_time())
        loss.backward()
        seconds.append(time.perf_counter())
        processor.append(time.process_time())
        made = {"nodes": len(x), "chunk": arguments.chunk, "threads": torch.get_num_threads()}
        for name, times in (("seconds", seconds), ("processor_seconds", processor)):
            made[f"forward_{name}"], made[f"backward_{name}"] = (round(b - a, 2) for a, b in zip(times, times[1:]))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({**made, "peak_gib": round(peak, 2)}), flush=True)


def halo(arguments):
    """Halo rows over many parts, counted in one process: with few ranks, parts have fewer neighbours than they would have."""
    graph = graph_of(arguments)
    walks = tm.sample_walks(graph.normalised(), walkers=4, halting_probability=0.5, max_hops=8, seed=1)
    cut = tm.dist.partition(graph, arguments.parts, arguments.method)
    patterns = {
        "neighbours": graph.pattern,
        "power series, 3 terms": graph.neighbourhoods(2),
        "asymmetric GRF": walks.pattern,
        "GRF": tm.grf_mask(walks, torch.ones(3)).sparse()[0],
    }
    for name, pattern in patterns.items():
        as_graph = tm.Graph.from_pattern(pattern, torch.ones(pattern.entries), directed=True)
        found = cut.statistics(as_graph)
        worst = int(torch.argmax(found.halo / found.rows.sqrt()))
        made = {"mask": name, "nodes": graph.num_nodes, "ranks": arguments.parts, "rows": int(found.rows[worst])}
        print(json.dumps({**made, "halo": int(found.halo[worst]), "halo_all": int(found.halo.sum())}), flush=True)


def table(arguments):
    """Halo rows of a rank grow as the border of its part, c·√rows; the mask's bytes, compute and peak memory as its rows."""
    with open(arguments.measured) as file:
        lines = [json.loads(line) for line in file if line.startswith("{")]
    width, layers, s = arguments.heads * arguments.dim, arguments.layers, 2  # bfloat16
    setting = f"{arguments.heads} heads of {arguments.dim}, bfloat16; {arguments.bandwidth:g} GB/s a GPU"
    print(f"{layers} layers, {setting} of {arguments.memory:g} GB\n")
    columns = "mask", "nodes", "GPUs", "rows a GPU", "halo rows a GPU", "mask a GPU, GB", "activations a GPU, GB"
    columns = *columns, f"fits {arguments.memory:g} GB", "compute, ms", "sent a GPU and step, MB", "sending, ms"
    print(f"| {' | '.join(columns)} |")
    print("|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|")
    for name in dict.fromkeys(line["mask"] for line in lines if line["mask"] in (arguments.masks or [line["mask"]])):
        measured = [line for line in lines if line["mask"] == name and line["ranks"] > 1]
        constant = max(line["halo"] / math.sqrt(line["rows"]) for line in measured)
        bytes_a_row = max(line["mask_bytes"] / line["rows"] for line in measured if "mask_bytes" in line)
        for nodes in (10**8, 10**9):
            for gpus in (8, 16, 32, 64, 128, 256):
                rows = nodes / gpus
                halo = constant * math.sqrt(rows)
                # Kept for the backward pass in each layer: the input, q, k, v, the output, and the hidden layer.
                activations = layers * rows * width * (5 + arguments.mlp_ratio) * s
                sent = 2 * layers * halo * arguments.heads * 2 * arguments.dim * s
                peak = rows * arguments.peak_gib * 2**30 / arguments.step_nodes
                compute = rows * arguments.step_milliseconds / arguments.step_nodes
                cells = f"{rows:.3g}", f"{halo:.3g}", f"{rows * bytes_a_row / 1e9:.3g}", f"{activations / 1e9:.3g}"
                fits = "yes" if peak < arguments.memory * 1e9 else f"no, {peak / 1e9:.3g}"
                times = f"{compute:.3g}", f"{sent / 1e6:.3g}", f"{sent / arguments.bandwidth / 1e6:.2g}"
                print(f"| {name} | {nodes:.0e} | {gpus} | {' | '.join((*cells, fits, *times))} |")
        print(f"{name}: {constant:.2f}·√rows halo rows, {bytes_a_row:.0f} bytes a row", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure")
    one.set_defaults(run=measure)
    counted = commands.add_parser("halo")
    counted.add_argument("--parts", type=int, default=64)
    hidden = commands.add_parser("overlap")
    hidden.add_argument("--repeats", type=int, default=25)
    hidden.set_defaults(run=overlap)
    alone = commands.add_parser("one-rank")
    alone.add_argument("--repeats", type=int, default=12)
    alone.add_argument("--masks", nargs="*", help="those of these names; all without")
    alone.set_defaults(run=one_rank)
    divided = commands.add_parser("partitions")
    divided.add_argument("--parts", type=int, nargs="+", default=[4, 16, 64])
    divided.set_defaults(run=partitions)
    written = commands.add_parser("shards")
    written.add_argument("--nodes", type=int, default=1_000_000)
    written.add_argument("--edges", type=int, default=8_000_000)
    written.add_argument("--parts", type=int, default=4)
    written.set_defaults(run=shards)
    whole = commands.add_parser("step")
    whole.add_argument("--repeats", type=int, default=3)
    whole.add_argument("--chunk", type=int, default=8192, help="rows that a block computes at once; 0: all")
    whole.set_defaults(run=step)
    for command in (one, counted, hidden, alone, divided, whole):
        command.add_argument("--graph", help="a file that read_graph reads")
        command.add_argument("--side", type=int, default=512, help="a square grid of this side, without --graph")
        command.add_argument("--method", default="automatic")
    counted.set_defaults(run=halo)
    two = commands.add_parser("table")
    two.add_argument("--measured", default="scale.jsonl", help="what `measure` and `halo` printed")
    two.add_argument("--layers", type=int, default=2)
    two.add_argument("--heads", type=int, default=4)
    two.add_argument("--dim", type=int, default=16)
    two.add_argument("--mlp-ratio", type=int, default=2, help="widths of the hidden layer, as in examples/roads.json")
    two.add_argument("--masks", nargs="*", help="those of the lines that are named so; all without")
    two.add_argument("--memory", type=float, default=141.0, help="GB of a GPU, here an H200")
    # One step of bench/whole_graph.py on an H200, forward and backward (docs/performance-gpu.md).
    two.add_argument("--step-nodes", type=float, default=1_988_100, help="nodes of the training step that was measured, ...")
    two.add_argument("--step-milliseconds", type=float, default=39.2, help="its time ...")
    two.add_argument("--peak-gib", type=float, default=10.7, help="and its peak memory")
    two.add_argument("--bandwidth", type=float, default=50.0, help="GB/s that a GPU sends")
    two.set_defaults(run=table)
    given = parser.parse_args()
    given.run(given)
