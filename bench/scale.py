#!/usr/bin/env python3
"""What attention over ranks costs, measured and extrapolated; docs/scale.md has the tables.

    torchrun --nproc-per-node 4 bench/scale.py measure [--graph FILE | --side 512]   # a line of JSON for each mask
    python bench/scale.py halo [--parts 64]         # halo rows over many parts, counted in one process, in the same form
    python bench/scale.py table [--measured FILE]   # 10^8 and 10^9 nodes on 8 to 256 GPUs, from such lines

`measure` without torchrun is one rank. Times are medians of the slowest rank.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time

import torch
import torch.distributed as c10d

import topomask as tm
from topomask.dist.exchange import halo_of

HEADS, FEATURES, VALUE_DIM = 4, 16, 16


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
    graph = tm.read_graph(arguments.graph) if arguments.graph else tm.Graph.grid(arguments.side, arguments.side)
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


def halo(arguments):
    """Halo rows over many parts, counted in one process: with few ranks, parts have fewer neighbours than they would have."""
    graph = tm.read_graph(arguments.graph) if arguments.graph else tm.Graph.grid(arguments.side, arguments.side)
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
    """Halo rows of a rank grow as the border of its part, c·√rows; the mask's bytes and entries as its rows."""
    with open(arguments.measured) as file:
        lines = [json.loads(line) for line in file if line.startswith("{")]
    width, layers, s = arguments.heads * arguments.dim, arguments.layers, 2  # bfloat16
    print(f"{arguments.layers} layers, {arguments.heads} heads of {arguments.dim}, bfloat16; {arguments.bandwidth:g} GB/s a GPU\n")
    print("| mask | nodes | GPUs | rows a GPU | halo rows a GPU | mask a GPU, GB | activations a GPU, GB | sent a GPU and step, MB | ms |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name in dict.fromkeys(line["mask"] for line in lines):
        measured = [line for line in lines if line["mask"] == name and line["ranks"] > 1]
        constant = max(line["halo"] / math.sqrt(line["rows"]) for line in measured)
        bytes_a_row = max(line["mask_bytes"] / line["rows"] for line in measured if "mask_bytes" in line)
        for nodes in (10**8, 10**9):
            for gpus in (8, 16, 32, 64, 128, 256):
                rows = nodes / gpus
                halo = constant * math.sqrt(rows)
                # Kept for the backward pass in each layer: the input, q, k, v, the output, and the hidden layer of 4 widths.
                activations = layers * rows * width * 9 * s
                sent = 2 * layers * halo * arguments.heads * 2 * arguments.dim * s
                cells = (f"{rows:.3g}", f"{halo:.3g}", f"{rows * bytes_a_row / 1e9:.3g}", f"{activations / 1e9:.3g}")
                times = f"{sent / 1e6:.3g}", f"{sent / arguments.bandwidth / 1e6:.2g}"
                print(f"| {name} | {nodes:.0e} | {gpus} | {' | '.join(cells + times)} |")
        print(f"| | | | *{name}: {constant:.2f}·√rows halo rows, {bytes_a_row:.0f} bytes a row* | | | | | |", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure")
    one.set_defaults(run=measure)
    counted = commands.add_parser("halo")
    counted.add_argument("--parts", type=int, default=64)
    for command in (one, counted):
        command.add_argument("--graph", help="a file that read_graph reads")
        command.add_argument("--side", type=int, default=512, help="a square grid of this side, without --graph")
        command.add_argument("--method", default="automatic")
    counted.set_defaults(run=halo)
    two = commands.add_parser("table")
    two.add_argument("--measured", default="scale.jsonl", help="what `measure` printed")
    two.add_argument("--layers", type=int, default=2)
    two.add_argument("--heads", type=int, default=4)
    two.add_argument("--dim", type=int, default=16)
    two.add_argument("--bandwidth", type=float, default=50.0, help="GB/s that a GPU sends")
    two.set_defaults(run=table)
    given = parser.parse_args()
    given.run(given)
