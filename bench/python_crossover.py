"""From which size, and up to which share of pairs, attention over a pattern beats SDPA with the pattern as a dense mask, and up to
which width of a window along a sequence it beats FlexAttention with a block mask.

    python bench/python_crossover.py                   # a CPU: ms of processor time on one thread
    python bench/python_crossover.py --device cuda     # wall time, bfloat16

Softmax attention over k-hop neighbourhoods of grids, then of a path; four heads of 64; forward (with backward).
"""

import argparse
import time

import topomask as tm
import torch
from torch.nn.functional import scaled_dot_product_attention

HEADS, WIDTH = 4, 64


def milliseconds(function, calls, device):
    """The least of five rounds: processor time on a CPU, wall time on a GPU."""
    function()
    best = float("inf")
    clock = time.process_time if device == "cpu" else time.perf_counter
    for _ in range(5):
        if device != "cpu":
            torch.cuda.synchronize()
        started = clock()
        for _ in range(calls):
            function()
        if device != "cpu":
            torch.cuda.synchronize()
        best = min(best, (clock() - started) / calls)
    return 1e3 * best


def cell(attend, inputs, calls, device):
    """Forward (with backward); "–" where there is no backward pass."""
    plain = [x.detach() for x in inputs]  # FlexAttention on a CPU refuses what requires a gradient
    forward = milliseconds(lambda: attend(*plain), calls, device)
    try:
        both = milliseconds(lambda: torch.autograd.grad(attend(*inputs).sum(), inputs), max(1, calls // 3), device)
    except Exception:
        return f"{forward:.3g} (–)"
    return f"{forward:.3g} ({both:.3g})"


def ours(pattern, device):
    mask = tm.sparse_mask(pattern.to(device), torch.ones(pattern.entries, device=device))
    mask.prepare()
    return lambda q, k, v: tm.softmax_attention(q, k, v, mask, route="sparse")


def sdpa(pattern, dtype, device):
    nodes = len(pattern.offsets) - 1
    bias = torch.full((nodes, nodes), float("-inf"))
    bias[tuple(pattern.edge_index())] = 0
    bias = bias.to(device, dtype)
    return lambda q, k, v: scaled_dot_product_attention(q, k, v, attn_mask=bias)


def flex(nodes, hops, device):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def near(batch, head, query, key):
        return (query - key).abs() <= hops

    block_mask = create_block_mask(near, None, None, nodes, nodes, device=device)
    compiled = torch.compile(flex_attention)
    return lambda q, k, v: compiled(q, k, v, block_mask=block_mask)


def inputs(nodes, dtype, device):
    torch.manual_seed(0)
    return [torch.randn(1, HEADS, nodes, WIDTH, device=device, dtype=dtype, requires_grad=True) for _ in range(3)]


def grids(dtype, device):
    print("| N | pairs present | topomask | SDPA |\n|---|---|---|---|")
    for side, hops in ((4, 2), (8, 2), (16, 2), (32, 2), (32, 12), (32, 20), (32, 32)):
        nodes, pattern = side * side, tm.Graph.grid(side, side).neighbourhoods(hops)
        given, calls = inputs(nodes, dtype, device), max(2, 20000 // side**3)
        cells = [cell(attend, given, calls, device) for attend in (ours(pattern, device), sdpa(pattern, dtype, device))]
        print(f"| {nodes} | {pattern.entries / nodes**2:.1%} | " + " | ".join(cells) + " |", flush=True)


def windows(nodes, dtype, device):
    print(f"\nA window along a sequence of {nodes}\n\n| entries a row | topomask | FlexAttention |\n|---|---|---|")
    given = inputs(nodes, dtype, device)
    for hops in (4, 16, 64, 256):
        attends = ours(tm.Graph.path(nodes).neighbourhoods(hops), device), flex(nodes, hops, device)
        plain = [x.detach() for x in given]
        difference = float((attends[0](*plain) - attends[1](*plain)).abs().max())
        assert difference < (1e-4 if dtype == torch.float32 else 3e-2), difference
        cells = [cell(attend, given, 2 if device == "cpu" else 20, device) for attend in attends]
        torch._dynamo.reset()
        print(f"| {2 * hops + 1} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--nodes", type=int, help="of the sequence: 4096 on a CPU, 16384 on a GPU")
    arguments = parser.parse_args()
    on_cpu = arguments.device == "cpu"
    torch.set_num_threads(1)
    grids(torch.float32 if on_cpu else torch.bfloat16, arguments.device)
    windows(arguments.nodes or (4096 if on_cpu else 16384), torch.float32 if on_cpu else torch.bfloat16, arguments.device)
