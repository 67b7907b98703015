"""What attention over ranks costs that one process can measure: the commands `one-rank`, `partitions` and `shards` of scale.py."""

import glob
import json
import os
import statistics
import tempfile
import time

import topomask as tm
import torch

HEADS, FEATURES, VALUE_DIM = 4, 16, 16


def graph_of(arguments):
    """The file of --graph, or a square grid."""
    return tm.read_graph(arguments.graph) if arguments.graph else tm.Graph.grid(arguments.side, arguments.side)


def one_rank(arguments):
    """Attention, forward and backward, under each mask over one rank and under the mask of one process: the least processor time of
    calls that alternate, so that both meet the same load of the machine."""
    torch.set_num_threads(1)
    graph = graph_of(arguments).normalised()
    layout = tm.dist.Layout(tm.dist.partition(graph, 1))
    shard, nodes, tokens = tm.dist.shard(graph, layout), graph.num_nodes, 4
    walking = {"walkers": 4, "halting_probability": 0.5, "max_hops": 8}
    walks, table = tm.dist.sample_walks(graph, layout, seed=1, **walking), tm.sample_walks(graph, seed=1, **walking)
    keys, key_table = tm.dist.sample_walks(graph, layout, seed=2, **walking), tm.sample_walks(graph, seed=2, **walking)

    def f():
        return torch.nn.Parameter(torch.tensor([1.0, 0.5, 0.25]))

    def left():
        return torch.nn.Parameter(torch.rand(nodes, 8, generator=torch.Generator().manual_seed(0)))

    def values():
        return torch.nn.Parameter(graph.weights.clone())

    whole = tm.neighbours_mask(graph)
    # name: how to make the mask over one rank, and that of one process; its route; how many global tokens it has.
    cases = {
        "neighbours": (lambda: tm.dist.neighbours_mask(shard), lambda: whole, "sparse", 0),
        "sparse": (lambda: tm.dist.sparse_mask(shard, values()), lambda: tm.sparse_mask(graph.pattern, values()), "sparse", 0),
        "power series, 3 terms": (
            lambda: tm.dist.power_series_mask(shard, f()), lambda: tm.power_series_mask(graph, f()), "sparse", 0
        ),
        "asymmetric GRF": (
            lambda: tm.dist.asymmetric_grf_mask(walks, f()), lambda: tm.asymmetric_grf_mask(table, f()), "sparse", 0
        ),
        "GRF": (lambda: tm.dist.grf_mask(walks, f()), lambda: tm.grf_mask(table, f()), "sparse", 0),
        "GRF, walks of keys": (
            lambda: tm.dist.grf_mask(walks, f(), key_walks=keys), lambda: tm.grf_mask(table, f(), key_walks=key_table), "sparse", 0
        ),
        "none": (lambda: tm.dist.none_mask(layout), lambda: tm.none_mask(nodes), "automatic", 0),
        "free features, rank 8": (
            lambda: tm.dist.free_features_mask(layout, left()), lambda: tm.free_features_mask(left()), "automatic", 0
        ),
        f"neighbours, {tokens} global tokens": (
            lambda: tm.dist.with_global_tokens(tm.dist.neighbours_mask(shard), tokens),
            lambda: tm.with_global_tokens(whole, tokens), "automatic", tokens,
        ),
    }  # fmt: skip
    for name, (divided, plain, route, extra) in cases.items():
        if arguments.masks and name not in arguments.masks:
            continue
        shapes = [(HEADS, nodes + extra, width) for width in (FEATURES, FEATURES, VALUE_DIM)]
        q, k, v = (torch.randn(shape).abs().requires_grad_() for shape in shapes)
        masks, times = (divided(), plain()), ([], [])
        for call in range(arguments.repeats + 1):
            for mask, taken, way in zip(masks, times, ("automatic", route)):
                start = time.process_time()
                tm.attention(q, k, v, mask, route=way).sum().backward()
                if call:  # the first call warms up
                    taken.append(1e3 * (time.process_time() - start))
        least = [min(taken) for taken in times]
        spread = [statistics.median(taken) / min(taken) - 1 for taken in times]
        made = {"mask": name, "nodes": nodes, "repeats": arguments.repeats, "load": round(os.getloadavg()[0], 1)}
        made |= {"one_rank_milliseconds": round(least[0], 2), "plain_milliseconds": round(least[1], 2)}
        print(json.dumps({**made, "ratio": round(least[0] / least[1], 3), "median_over_least": round(max(spread), 3)}), flush=True)


def partitions(arguments):
    """Halo rows of all parts together, for attention over neighbours, and the processor time of each method."""
    graph = graph_of(arguments)
    methods = (["metis"] if tm.dist.has_metis() else []) + ["cuthill_mckee", "ranges"]
    for method in methods:
        for parts in arguments.parts:
            start = time.process_time()
            cut = tm.dist.partition(graph, parts, method)
            seconds = time.process_time() - start
            found = cut.statistics(graph)
            made = {"method": method, "nodes": graph.num_nodes, "parts": parts, "halo": int(found.halo.sum())}
            made |= {"share": float(f"{made['halo'] / graph.num_nodes:.2g}"), "cut_entries": found.cut_entries}
            print(json.dumps({**made, "processor_seconds": round(seconds, 2)}), flush=True)


def shards(arguments):
    """Peak resident memory of shard_edge_list above what the process has before it, on a text file of random edges."""
    nodes, parts = arguments.nodes, arguments.parts
    cut = tm.dist.Partition((torch.arange(nodes) * parts // nodes).to(torch.int32), parts)
    draw, chunk = torch.Generator().manual_seed(1), 1 << 16
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "edges.txt")
        with open(path, "w") as file:
            for begin in range(0, arguments.edges, chunk):
                pairs = torch.randint(nodes, (min(chunk, arguments.edges - begin), 2), generator=draw).tolist()
                file.write("".join(f"{a} {b}\n" for a, b in pairs))
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak is counted from here
        before = resident("VmRSS")
        tm.dist.shard_edge_list(path, cut, os.path.join(folder, "shards"))
        peak = resident("VmHWM") - before
        largest = max(os.path.getsize(each) for each in glob.glob(os.path.join(folder, "shards", "*.tmshard")))
    entries = (largest - 84 - 8 - 16 * (nodes // parts)) // 8  # of the format in docs/scale.md
    made = {"nodes": nodes, "edges": arguments.edges, "parts": parts, "entries_of_a_part": entries}
    print(json.dumps({**made, "peak_mb": round(peak / 1e6, 1), "peak_bytes_an_entry": round(peak / entries, 1)}), flush=True)


def resident(key):
    """Bytes that the system counts for this process: VmRSS now, VmHWM at the peak."""
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(f"{key}:"))
