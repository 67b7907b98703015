#!/usr/bin/env python3
"""One training step of a two-layer GRF transformer on a whole graph: seconds and peak memory, on the CPU or a GPU.

    python bench/whole_graph.py --graph roads-12-cities.txt.gz               # two threads, float32
    python bench/whole_graph.py --graph FILE --device cuda --autocast bfloat16

Width 64, 4 heads, a perceptron of two widths, four walkers a node that halt with probability 0.5; both layers share the walks and
have a learnable f for each head. A line of JSON for each step; the first ones also make what later ones reuse (patterns, lists).
Without --graph it is a grid of `--side` squared nodes.
"""

import argparse
import json
import resource
import statistics
import time

import topomask as tm
import torch

HEADS, WIDTH, FEATURES, CLASSES, TERMS = 4, 64, 25, 16, 9


def model_on(graph, chunk, device):
    options = dict(walkers=4, halting_probability=0.5, max_hops=TERMS - 1, seed=1)
    walks = tm.sample_walks(graph, **options).to(device)
    start = torch.exp(-0.5 * torch.arange(float(TERMS), device=device)).repeat(HEADS, 1)
    return tm.nn.GraphTransformer(
        features=FEATURES,
        classes=CLASSES,
        masks=[tm.GRFMask(walks, start) for _ in range(2)],
        width=WIDTH,
        heads=HEADS,
        phi=tm.FeatureMap.relu(1e-3),
        chunk=chunk,
    ).to(device)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", help="a file that tm.read_graph reads")
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--autocast", choices=("bfloat16", "float16"), help="the dtype of products; float32 without")
    parser.add_argument("--chunk", type=int, help="rows at a time; 2 048 on the CPU and all on a GPU")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--profile", type=int, default=0, help="after the steps, one more, of which so many kernels are listed")
    parser.add_argument("--json", help="also write the steps there")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device, cuda = torch.device(arguments.device), arguments.device.startswith("cuda")
    graph = tm.read_graph(arguments.graph) if arguments.graph else tm.Graph.grid(arguments.side, arguments.side)
    chunk = (0 if cuda else 2048) if arguments.chunk is None else arguments.chunk
    nodes = graph.num_nodes
    model = model_on(graph.normalised(), chunk, device)
    del graph
    x, labels = torch.randn(nodes, FEATURES, device=device), torch.randint(0, CLASSES, (nodes,), device=device)
    low = getattr(torch, arguments.autocast) if arguments.autocast else torch.bfloat16

    def now():
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter(), time.process_time()

    def run_step():
        model.zero_grad()
        marks = [now()]
        with torch.autocast(device.type, low, enabled=arguments.autocast is not None):
            loss = torch.nn.functional.cross_entropy(model(x), labels)
        marks.append(now())
        loss.backward()
        marks.append(now())
        return loss, marks

    steps = []
    for step in range(arguments.steps):
        loss, marks = run_step()
        made = {"step": step, "nodes": nodes, "device": str(device), "autocast": arguments.autocast, "chunk": chunk}
        for place, name in enumerate(("seconds", "processor_seconds")):
            forward, backward = (round(b[place] - a[place], 4) for a, b in zip(marks, marks[1:]))
            made |= {f"forward_{name}": forward, f"backward_{name}": backward}
        peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        steps.append(made | {"peak_gib": round(peak, 2), "loss": round(loss.item(), 5)})
        print(json.dumps(steps[-1]), flush=True)
    last = [step["forward_seconds"] + step["backward_seconds"] for step in steps[2:]]
    if last:
        print(f"median of the last {len(last)} steps, forward and backward: {1e3 * statistics.median(last):.1f} ms")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"steps": steps, "median_seconds": statistics.median(last) if last else None}, file, indent=1)
    if arguments.profile:
        activity, order = ("CUDA", "self_cuda_time_total") if cuda else ("CPU", "self_cpu_time_total")
        with torch.profiler.profile(activities=[getattr(torch.profiler.ProfilerActivity, activity)]) as profile:
            run_step()
        print(profile.key_averages().table(sort_by=order, row_limit=arguments.profile, max_name_column_width=90))


if __name__ == "__main__":
    main()
