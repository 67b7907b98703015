"""Attention under a full mask, tile by tile, on a GPU, compared with torch: flash softmax without a mask, FlexAttention and SDPA
with the same offsets added to their scores, and, for an additive bias of low rank, its factors as further columns of q and k.

    python bench/fused.py                    # grids of 32 × 32 to 256 × 256 tokens, 196 608 tokens × heads at least, bfloat16
    python bench/fused.py --sides 64,256 --flex 0 --json fused.json

Milliseconds of a call between events: forward, and with gradients to q, k, v and the offsets or factors; MiB beyond the inputs; then
what each row is held to. SDPA gets the bias as a matrix that is there already and has no gradient. A bias L·Rᵀ is what [q·scale, L]
and [k, R] add to the scores by themselves, so that any attention without a mask computes it: the idea of FlashBias (Wu et al., NeurIPS
2025, arXiv:2505.12044). L and R are rounded to bfloat16 there; here they count in float32.
"""

import argparse
import json
import time

import topomask as tm
import torch
from device_time import captured_milliseconds, milliseconds
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

HEADS, WIDTH, RANK, TOKENS = 12, 64, 16, 196_608
MATRIX_TOKENS, MATRIX_SLICES = 256, 768
MOST_BIAS = 8 * 2**30  # bytes of the matrix that SDPA takes


def flash(q, k, v, scale=None):
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return scaled_dot_product_attention(q, k, v, scale=scale)


def with_factors(left, right):
    """Flash attention over wider rows; it takes v of their width only."""

    def attend(q, k, v):
        batch = (len(q), -1, -1, -1)
        wide_q = torch.cat([q * WIDTH**-0.5, left.to(q.dtype).expand(batch)], -1)
        wide_k = torch.cat([k, right.to(k.dtype).expand(batch)], -1)
        return flash(wide_q, wide_k, pad(v, (0, left.shape[-1])), scale=1.0)[..., :WIDTH]

    return attend


def flex(side, offsets):
    from torch.nn.attention.flex_attention import flex_attention

    torch._dynamo.reset()  # else the second grid gets code for every side, with divisions by a number known at run time only
    compiled = torch.compile(flex_attention, dynamic=False)

    def add(score, batch, head, query, key):
        return score + offsets[head, query // side - key // side + side - 1, query % side - key % side + side - 1]

    # The tiles that it chooses by itself with captured offsets want more shared memory than there is.
    tiles = {
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_M1": 32,
        "BLOCK_N1": 64,
        "BLOCK_M2": 64,
        "BLOCK_N2": 32,
        "num_stages": 2,
        "num_warps": 4,
    }
    return lambda q, k, v: compiled(q, k, v, score_mod=add, kernel_options=tiles)


def bias_matrix(side, offsets, dtype):
    """[1, H, N, N] of the offsets [H, 2·side − 1, 2·side − 1], for SDPA."""
    place = torch.arange(side * side, device=offsets.device)
    row, column = place // side, place % side
    flat = offsets.flatten(1).to(dtype)
    matrix = torch.empty(HEADS, len(place), len(place), dtype=dtype, device=offsets.device)
    for head in range(HEADS):
        for first in range(0, len(place), 2048):
            here = slice(first, first + 2048)
            down, across = row[here, None] - row + side - 1, column[here, None] - column + side - 1
            matrix[head, here] = flat[head][down * (2 * side - 1) + across]
    return matrix[None]


class Report:
    def __init__(self):
        self.rows, self.bars = [], []

    def measure(self, group, name, make, inputs, learnt=(), compiled=False, graph=False):
        """make() → a function of q, k, v. `compiled`: the forward pass is timed as part of training, which saves a compilation."""
        row = {"group": group, "name": name}
        try:
            attend = make()
            with torch.set_grad_enabled(compiled):
                row["forward_ms"] = milliseconds(lambda: attend(*inputs))

            def both():
                out = attend(*inputs)
                torch.autograd.grad(out, [*inputs, *learnt], torch.ones_like(out))

            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            row["both_ms"] = milliseconds(both)
            row["peak_mib"] = (torch.cuda.max_memory_allocated() - before) / 2**20
            if graph:
                with torch.no_grad():
                    row["forward_kernels_ms"] = captured_milliseconds(lambda: attend(*inputs))
                row["both_kernels_ms"] = captured_milliseconds(both)
        except Exception as error:  # what fails is a row that says so
            text = str(error).strip().splitlines()
            row["note"] = f"{type(error).__name__}: {text[0][:90] if text else ''}"
            torch.cuda.empty_cache()
        self.rows.append(row)
        shown = "".join(f"{row[key]:10.3f}" if key in row else f"{'–':>10}" for key in ("forward_ms", "both_ms"))
        alone = f"  kernels {row['forward_kernels_ms']:.3f} {row['both_kernels_ms']:.3f}" if "both_kernels_ms" in row else ""
        print(f"  {name:38}{shown}{row.get('peak_mib', 0):9.0f} MiB{alone}  {row.get('note', '')}", flush=True)
        return row

    def bar(self, name, value, limit):
        met = None if value is None else value <= limit
        self.bars.append({"name": name, "value": value, "limit": limit, "met": met})

    def show_bars(self):
        print("\nbars")
        for bar in self.bars:
            verdict = {True: "met   ", False: "MISSED", None: "?     "}[bar["met"]]
            value = "not measured" if bar["value"] is None else f"{bar['value']:.3f}"
            print(f"  {verdict} {bar['name']}: {value}, at most {bar['limit']}")


def ratio(a, b, key):
    return a[key] / b[key] if key in a and key in b else None


def rows_of(slices, nodes):
    shape = (max(1, slices // HEADS), HEADS, nodes, WIDTH)
    return [torch.rand(shape, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3)]


def grid_rows(report, side, with_flex):
    nodes = side * side
    inputs = rows_of(TOKENS // nodes, nodes)
    mask = tm.ToeplitzMask([side, side], torch.rand(HEADS, 2 * side - 1, 2 * side - 1)).cuda()
    group, learnt = f"{side} x {side}", list(mask.parameters())
    taken = tm.explain(*inputs, mask, features=None).route
    print(f"{group} tokens, {len(inputs[0]) * HEADS} slices; the planner takes {taken}", flush=True)
    kernel = report.measure(
        group,
        "Toeplitz, kernel attention",
        lambda: lambda q, k, v: tm.attention(q, k, v, mask, features=None, route="fused"),
        inputs,
        learnt,
    )
    added = report.measure(
        group,
        "Toeplitz, added to softmax",
        lambda: lambda q, k, v: tm.softmax_attention(q, k, v, mask, mode="additive", route="fused"),
        inputs,
        learnt,
    )
    report.measure(group, "flash softmax, no mask", lambda: flash, inputs)
    bias = torch.rand(HEADS, 2 * side - 1, 2 * side - 1, device="cuda").requires_grad_()
    if with_flex:
        theirs = report.measure(group, "FlexAttention, offsets added", lambda: flex(side, bias), inputs, [bias], compiled=True)
        for what, ours in (("kernel attention", kernel), ("added to softmax", added)):
            for key, label in (("forward_ms", "forward"), ("both_ms", "forward + backward")):
                report.bar(f"Toeplitz, {what} / FlexAttention, {group}, {label}", ratio(ours, theirs, key), 1.0)
    if HEADS * nodes**2 * 2 <= MOST_BIAS:

        def with_matrix():
            matrix = bias_matrix(side, bias.detach(), torch.bfloat16)
            return lambda q, k, v: scaled_dot_product_attention(q, k, v, attn_mask=matrix)

        report.measure(group, "SDPA, offsets as a matrix", with_matrix, inputs)
        torch.cuda.empty_cache()
    factors = [torch.rand(HEADS, nodes, RANK, device="cuda").requires_grad_() for _ in range(2)]
    low_rank = tm.FreeFeaturesMask(*(x.detach() for x in factors)).cuda()
    mine = report.measure(
        group,
        f"factors of rank {RANK}, added to softmax",
        lambda: lambda q, k, v: tm.softmax_attention(q, k, v, low_rank, mode="additive", route="fused"),
        inputs,
        list(low_rank.parameters()),
    )
    theirs = report.measure(group, "the same as columns, flash", lambda: with_factors(*factors), inputs, factors)
    report.bar(f"factors of rank {RANK} / as columns of flash, {group}, forward + backward", ratio(mine, theirs, "both_ms"), 1.0)
    if side == 128:
        report.bar("Toeplitz, 128 x 128 x 12, forward (ms)", kernel.get("forward_ms"), 4.0)
        report.bar("Toeplitz, 128 x 128 x 12, forward + backward (ms)", kernel.get("both_ms"), 16.0)
    if side == 256:
        each = inputs[0].nbytes / 2**20  # q, k and v are there before; the output is as large
        share = (3 * each + kernel["peak_mib"]) / (4 * each) if "peak_mib" in kernel else None
        report.bar("Toeplitz, 256 x 256 x 12, peak memory / inputs and outputs", share, 3.0)


def matrix_rows(report):
    inputs = rows_of(MATRIX_SLICES, MATRIX_TOKENS)
    mask = tm.DenseMask(torch.rand(HEADS, MATRIX_TOKENS, MATRIX_TOKENS)).cuda()
    group = f"matrix, {MATRIX_TOKENS}"
    print(f"{MATRIX_TOKENS} tokens, {MATRIX_SLICES} slices, a matrix for each head", flush=True)
    attend = lambda q, k, v: tm.attention(q, k, v, mask, features=None, route="fused")
    row = report.measure(group, "matrix, kernel attention", lambda: attend, inputs, list(mask.parameters()), graph=True)
    report.measure(group, "flash softmax, no mask", lambda: flash, inputs, graph=True)
    bias = mask.dense().detach().to(torch.bfloat16)[None]
    report.measure(
        group, "SDPA, matrix added", lambda: lambda q, k, v: scaled_dot_product_attention(q, k, v, attn_mask=bias), inputs
    )
    report.bar("matrix, 256 tokens x 768, forward (kernels, ms)", row.get("forward_kernels_ms"), 0.12)
    report.bar("matrix, 256 tokens x 768, forward + backward (kernels, ms)", row.get("both_kernels_ms"), 0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", default="32,64,128,256", help="grids of side × side tokens")
    parser.add_argument("--flex", type=int, default=1, help="0 leaves FlexAttention out, which is compiled first")
    parser.add_argument("--matrix", type=int, default=1, help="0 leaves the matrix mask out")
    parser.add_argument(
        "--seconds", type=float, default=130, help="after so long FlexAttention, whose compilation takes longest, is left out"
    )
    parser.add_argument("--json", help="also write the rows there")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    device, started = torch.cuda.get_device_name(), time.perf_counter()
    print(
        f"{device}, torch {torch.__version__}, bfloat16, {HEADS} heads of {WIDTH}: forward, with backward (ms), memory beyond the inputs"
    )
    report = Report()
    if arguments.matrix:
        matrix_rows(report)
    for side in map(int, arguments.sides.split(",")):
        grid_rows(report, side, bool(arguments.flex) and time.perf_counter() - started < arguments.seconds)
        torch.cuda.empty_cache()
    report.show_bars()
    print(f"{time.perf_counter() - started:.0f} s")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"device": device, "torch": torch.__version__, "rows": report.rows, "bars": report.bars}, file, indent=1)


if __name__ == "__main__":
    main()
