"""From which size, and up to which share of pairs, attention over a pattern beats SDPA with the pattern as a dense mask.

    python bench/python_crossover.py

Softmax attention over k-hop neighbourhoods of grids, four heads of 64; ms of processor time on one thread, forward (with backward).
"""

import time

import topomask as tm
import torch
from torch.nn.functional import scaled_dot_product_attention

HEADS, WIDTH = 4, 64


def milliseconds(function, calls):
    """The least of five rounds."""
    function()
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for _ in range(calls):
            function()
        best = min(best, (time.process_time() - started) / calls)
    return 1e3 * best


def row(side, hops):
    pattern = tm.Graph.grid(side, side).neighbourhoods(hops)
    nodes = side * side
    mask = tm.sparse_mask(pattern, torch.ones(pattern.entries))
    bias = torch.full((nodes, nodes), float("-inf"))
    bias[tuple(pattern.edge_index())] = 0
    q, k, v = (torch.randn(1, HEADS, nodes, WIDTH, requires_grad=True) for _ in range(3))
    calls = max(2, 20000 // side**3)
    cells = []
    for attend in (
        lambda: tm.softmax_attention(q, k, v, mask, route="sparse"),
        lambda: scaled_dot_product_attention(q, k, v, attn_mask=bias),
    ):
        with torch.no_grad():
            forward = milliseconds(attend, calls)
        both = milliseconds(lambda attend=attend: torch.autograd.grad(attend().sum(), (q, k, v)), max(1, calls // 3))
        cells.append(f"{forward:.3g} ({both:.3g})")
    print(f"| {nodes} | {pattern.entries / nodes**2:.1%} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("| N | pairs present | topomask | SDPA |\n|---|---|---|---|")
    for side, hops in ((4, 2), (8, 2), (16, 2), (32, 2), (32, 12), (32, 20), (32, 32)):
        row(side, hops)
