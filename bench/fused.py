"""Attention under a full mask, tile by tile, on a GPU: a Toeplitz mask by the fused route beside torch's flash softmax, which has no
mask, and FlexAttention, which adds the same offsets to its scores. Forward, and with gradients to q, k, v and the offsets.

    python bench/fused.py                    # grids of 16 × 16 to 128 × 128 tokens, 196 608 tokens in all, bfloat16
    python bench/fused.py --sides 64,256 --flex 0
"""

import argparse
import statistics

import topomask as tm
import torch
from torch.nn.functional import scaled_dot_product_attention

HEADS, WIDTH, TOKENS = 12, 64, 196_608


def milliseconds(function, calls=10):
    for _ in range(3):
        function()
    times = []
    for _ in range(calls):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def flex(side, offsets):
    from torch.nn.attention.flex_attention import flex_attention

    compiled = torch.compile(flex_attention)

    def add(score, batch, head, query, key):
        return score + offsets[head, query // side - key // side + side - 1, query % side - key % side + side - 1]

    # The tiles that it chooses by itself with captured offsets want more shared memory than there is.
    tiles = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_M1": 32, "BLOCK_N1": 64, "BLOCK_M2": 64, "BLOCK_N2": 32, "num_stages": 2, "num_warps": 4}
    return lambda q, k, v: compiled(q, k, v, score_mod=add, kernel_options=tiles)


def measure(name, attend, inputs, learnt):
    try:
        with torch.no_grad():
            forward = milliseconds(lambda: attend(*inputs))

        def both():
            out = attend(*inputs)
            torch.autograd.grad(out, [*inputs, *learnt], torch.ones_like(out))

        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        time = milliseconds(both)
        peak = (torch.cuda.max_memory_allocated() - before) / 2**20
        print(f"  {name:34} {forward:8.3f} {time:8.3f} ms {peak:8.0f} MiB", flush=True)
    except Exception as error:  # what fails is a row that says so
        print(f"  {name:34} {type(error).__name__}: {str(error)[:90]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", default="16,32,64,128", help="grids of side × side tokens")
    parser.add_argument("--flex", type=int, default=1, help="0 leaves FlexAttention out, which is compiled first")
    arguments = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: forward, with backward, memory beyond the inputs")
    for side in map(int, arguments.sides.split(",")):
        nodes = side * side
        shape = (max(1, TOKENS // (HEADS * nodes)), HEADS, nodes, WIDTH)
        inputs = [torch.rand(shape, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3)]
        mask = tm.ToeplitzMask([side, side], torch.rand(HEADS, 2 * side - 1, 2 * side - 1)).cuda()
        print(f"{side} x {side} tokens, {shape[0] * HEADS} slices; the planner takes {tm.explain(*inputs, mask).route}")
        learnt = list(mask.parameters())
        measure("Toeplitz, kernel attention", lambda q, k, v: tm.attention(q, k, v, mask, features=None), inputs, learnt)
        measure("Toeplitz, added to softmax", lambda q, k, v: tm.softmax_attention(q, k, v, mask, mode="additive"), inputs, learnt)
        measure("flash softmax, no mask", scaled_dot_product_attention, inputs, [])
        if arguments.flex:
            bias = torch.rand(HEADS, 2 * side - 1, 2 * side - 1, device="cuda").requires_grad_()
            measure("FlexAttention, offsets added", flex(side, bias), inputs, [bias])


if __name__ == "__main__":
    main()
