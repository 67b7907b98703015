"""Masked attention on one GPU compared with what torch offers, and the bars it is held to. bench/gpu.sh builds and runs it.

Two times for every row: the whole operator call between CUDA events, warm, median of at least 100; and the kernels alone,
from a captured graph. One head, m = d = 64, square grids, W = 0.9/sqrt(d_i d_j), features already computed.
"""

import argparse
import json
import os
import statistics
import sys

import torch
from device_time import between_events, captured

torch.ops.load_library(os.environ["TOPOMASK_LIBRARY"])
ops = torch.ops.topomask
WIDTH, EPS, CALLS = 64, 1e-6, 100


def grid(side, columns=None):
    """A grid graph as CSR on the GPU, with normalised weights."""
    rows, cols = side, columns or side
    node = torch.arange(rows * cols, device="cuda").view(rows, cols)
    pairs = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:])]
    both_ways = pairs + [(b, a) for a, b in pairs]
    key = torch.cat([(a * node.numel() + b).flatten() for a, b in both_ways]).sort()[0]
    source, target = key // node.numel(), key % node.numel()
    offsets = torch.searchsorted(source, torch.arange(node.numel() + 1, device="cuda"))
    degree = offsets.diff().double()
    weights = (0.9 / (degree[source] * degree[target]).sqrt()).float()
    return offsets, target.int(), weights


def walk_table(graph, walkers, p=None, hops=100, ensemble=0, seed=1):
    """(offsets, columns, hops, loads, counts, entry offsets, entry columns, feature offsets)"""
    offsets, columns, weights = graph
    halting = [0 if p is None else round(p * 2**32)] * hops
    signed = [h - 2**32 if h >= 2**31 else h for h in halting]
    halt_below = torch.tensor(signed, dtype=torch.int32, device="cuda")
    scale = torch.full((hops,), 1.0 if p is None else 1 / (1 - p), device="cuda")
    return ops.walk_table([offsets, columns], weights, None, None, halt_below, scale, walkers, 0, seed, False, ensemble)


def transposed(offsets, columns, nodes):
    sorted_columns, index = columns.sort(stable=True)
    first = torch.arange(nodes + 1, dtype=torch.int32, device="cuda")
    rows = torch.repeat_interleave(torch.arange(nodes, dtype=torch.int32, device="cuda"), offsets.diff())
    return torch.searchsorted(sorted_columns, first), rows[index], index


class Mask:
    """Φ̂Φ̂ᵀ over one table of walks."""

    def __init__(self, graph, walkers, p, hops):
        self.nodes, self.walkers = graph[0].numel() - 1, walkers
        self.table = walk_table(graph, walkers, p, hops)
        offsets, columns = self.table[5], self.table[6]
        self.features = [offsets, columns, *transposed(offsets, columns, self.nodes)]
        made = ops.product_pattern(self.features, self.features)
        self.pattern = [*made, *transposed(*made, self.nodes)]
        self.tiles = self.make_tiles()
        self.f = torch.exp(-torch.arange(min(hops + 1, 16), device="cuda").float())[None]
        self.lists = self.make_lists()
        self.places = None if self.lists else ops.gram_places(self.features, self.pattern, 16 * self.pattern[1].numel())

    def make_lists(self):
        """Lists of hop pairs, where masks keep them (masks/grf/learned_product.h)."""
        most = 4 * self.pattern[1].numel()
        if int(self.features[2].diff().square().sum()) > most:
            return None
        side = [*self.features[:2], self.table[7], self.table[2], self.table[3]]
        lists = ops.hop_pairs(side, side, self.pattern[:2], self.f.shape[1], most)
        return lists if lists[0].numel() else None

    def feature_values(self, f=None):
        return ops.walk_features(self.f if f is None else f, self.table[2], self.table[3], self.table[7], 1 / self.walkers)

    def make_tiles(self):
        """Both ways, for attention on the tensor cores."""
        offsets, columns, t_offsets, t_columns, _ = self.pattern
        return [ops.row_tiles([offsets, columns]), ops.row_tiles([t_offsets, t_columns])]

    def values(self, f=None):
        if self.lists is not None:
            f = self.f if f is None else f
            t, u = torch.tril_indices(f.shape[1], f.shape[1], device="cuda")
            return ops.hop_pair_values(f[:, t] * f[:, u] * self.walkers**-2, *self.lists)
        if self.places[0].numel():
            return ops.placed_gram(self.feature_values(f), self.features, self.pattern, *self.places)
        return ops.sparse_gram(self.feature_values(f), self.features, self.pattern)


def inputs(nodes, dtype, batch=1, heads=1, grad=False):
    generator = torch.Generator("cuda").manual_seed(0)
    make = lambda: torch.rand(batch, heads, nodes, WIDTH, generator=generator, device="cuda").to(dtype)
    return [make().requires_grad_(grad) for _ in range(3)]


def call_ms(function, calls=CALLS):
    """Median time of one call between events, warm."""
    for _ in range(5):
        function()
    return statistics.median(between_events(function) for _ in range(calls))


def graph_ms(function, calls=CALLS, repeats=10):
    """Median time of the kernels of one call, from a captured graph."""
    return call_ms(captured(function, repeats).replay, calls // 2) / repeats


def peak_mib(function):
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


class Table:
    def __init__(self):
        self.rows, self.bars = [], []

    def add(self, nodes, walks, what, dtype, call=None, graph=None, memory=None, note=""):
        row = dict(nodes=nodes, walks=walks, what=what, dtype=dtype, call_ms=call, graph_ms=graph, peak_mib=memory, note=note)
        self.rows.append(row)
        shown = lambda x, form: " " * 10 if x is None else f"{x:10{form}}"
        print(
            f"{nodes:>9} {walks:<12} {what:<34} {dtype:<9}{shown(call, '.4f')}{shown(graph, '.4f')}{shown(memory, '.1f')}  {note}",
            flush=True,
        )
        return row

    def bar(self, name, value, limit):
        self.bars.append(dict(name=name, value=value, limit=limit, met=value <= limit))

    def attempt(self, nodes, walks, what, dtype, function, **options):
        """A row of torch's; what does not fit or is not there says so."""
        try:
            with torch.no_grad():
                call = call_ms(function, options.get("calls", CALLS))
                return self.add(nodes, walks, what, dtype, call, memory=peak_mib(function))
        except Exception as error:  # a baseline that fails is a finding, not a failure
            torch.cuda.empty_cache()
            return self.add(nodes, walks, what, dtype, note=f"{type(error).__name__}: {str(error).splitlines()[0][:60]}")


def algorithm1(mask, q, k, v):
    """The paper's Algorithm 1 with torch.sparse: Φ(Φᵀ[φ(k) ⊗ v]), O(N·m·d) memory."""
    size = (mask.nodes, mask.nodes)
    phi = torch.sparse_csr_tensor(mask.features[0], mask.features[1].long(), mask.feature_values()[0], size)
    phi_t = torch.sparse_csr_tensor(mask.features[2], mask.features[3].long(), mask.feature_values()[0][mask.features[4]], size)
    q, k, v = q[0, 0], k[0, 0], torch.cat([v[0, 0], torch.ones_like(v[0, 0, :, :1])], 1)

    def run():
        z = (k[:, :, None] * v[:, None, :]).flatten(1)
        y = (phi @ (phi_t @ z)).view(mask.nodes, WIDTH, WIDTH + 1)
        out = (q[:, :, None] * y).sum(1)
        return out[:, :-1] / out[:, -1:]

    return run


def gathered(mask, values, q, k, v):
    """Gather and index_add over the same pattern: what message-passing layers compute."""
    source = torch.repeat_interleave(torch.arange(mask.nodes, device="cuda"), mask.pattern[0].diff())
    target, q, k, v = mask.pattern[1].long(), q[0, 0], k[0, 0], v[0, 0]

    def run():
        weight = (q[source] * k[target]).sum(1) * values[0]
        out = torch.zeros_like(v).index_add_(0, source, weight[:, None] * v[target])
        return out / torch.zeros(mask.nodes, device="cuda").index_add_(0, source, weight)[:, None]

    return run


def transformer_conv(mask, x):
    from torch_geometric.nn import TransformerConv  # optional

    layer = TransformerConv(WIDTH, WIDTH).cuda()
    source = torch.repeat_interleave(torch.arange(mask.nodes, device="cuda"), mask.pattern[0].diff())
    edges = torch.stack([mask.pattern[1].long(), source])
    return lambda: layer(x[0, 0], edges)


def linear(q, k, v):
    def run():
        out = q @ (k.mT @ v)
        return out / (q @ k.sum(-2, keepdim=True).mT)

    return run


def flex(mask, q, k, v):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    dense = torch.zeros(mask.nodes, mask.nodes, dtype=torch.bool, device="cuda")
    source = torch.repeat_interleave(torch.arange(mask.nodes, device="cuda"), mask.pattern[0].diff())
    dense[source, mask.pattern[1].long()] = True
    block = create_block_mask(lambda b, h, i, j: dense[i, j], None, None, mask.nodes, mask.nodes, device="cuda", _compile=True)
    compiled = torch.compile(flex_attention)
    return lambda: compiled(q, k, v, block_mask=block)


def ours(table, mask, name, dtype, bar=None):
    values = mask.values()
    q, k, v = inputs(mask.nodes, dtype)
    label = str(dtype).removeprefix("torch.")
    forward = lambda: ops.sparse_attention(q, k, v, values, [*mask.pattern, *mask.tiles], EPS)[0]
    with torch.no_grad():
        row = table.add(mask.nodes, name, "ours, forward", label, call_ms(forward), graph_ms(forward), peak_mib(forward))
    q, k, v = inputs(mask.nodes, dtype, grad=True)
    learnt = values.detach().requires_grad_()
    cotangent = torch.ones_like(v)

    def both():
        out = ops.sparse_attention(q, k, v, learnt, [*mask.pattern, *mask.tiles], EPS)[0]
        torch.autograd.grad(out, (q, k, v, learnt), cotangent)

    f = mask.f.clone().requires_grad_()

    def from_f(backward):
        def run():
            out = ops.sparse_attention(q, k, v, mask.values(f), [*mask.pattern, *mask.tiles], EPS)[0]
            if backward:
                torch.autograd.grad(out, (q, k, v, f), cotangent)

        return run

    fb = table.add(mask.nodes, name, "ours, forward + backward", label, call_ms(both), graph_ms(both), peak_mib(both))
    with torch.no_grad():
        row_f = table.add(mask.nodes, name, "ours, forward from f", label, call_ms(from_f(False)), graph_ms(from_f(False)))
    fb_f = table.add(mask.nodes, name, "ours, forward + backward from f", label, call_ms(from_f(True)), graph_ms(from_f(True)))
    if bar:
        table.bar(f"forward {mask.nodes} {name} {label} (graph, ms)", row["graph_ms"], bar)
        table.bar(f"forward + backward / forward, all from f, {mask.nodes} {name} {label}", fb_f["graph_ms"] / row_f["graph_ms"], 4)
        table.bar(
            f"forward + backward / forward, from the values, {mask.nodes} {name} {label}", fb["graph_ms"] / row["graph_ms"], 4
        )


def attention_rows(table):
    n4, n20 = (4, 0.5, 100), (20, 0.1, 10)
    cases = [
        (64, "n4", n4, None),
        (181, "n4", n4, (0.03, 0.02)),
        (181, "n20", n20, None),
        (512, "n4", n4, None),
        (512, "n20", n20, (1.5, 0.9)),
        (1024, "n4", n4, (0.5, 0.3)),
    ]
    for side, name, walks, bars in cases:
        mask = Mask(grid(side), *walks)
        per_row = mask.pattern[1].numel() / mask.nodes
        print(f"# N = {mask.nodes}, {name}: {mask.features[1].numel() / mask.nodes:.1f} entries a row of Φ, {per_row:.1f} of ΦΦᵀ")
        ours(table, mask, name, torch.float32, bars and bars[0])
        ours(table, mask, name, torch.bfloat16, bars and bars[1])
        q, k, v = inputs(mask.nodes, torch.float32)
        hq, hk, hv = inputs(mask.nodes, torch.bfloat16)
        if mask.nodes <= 262144:
            table.attempt(mask.nodes, name, "Algorithm 1, torch.sparse", "float32", algorithm1(mask, q, k, v), calls=20)
        table.attempt(mask.nodes, name, "gather + index_add", "float32", gathered(mask, mask.values(), q, k, v), calls=20)
        try:
            table.attempt(mask.nodes, name, "PyG TransformerConv", "float32", transformer_conv(mask, q), calls=20)
        except ImportError:
            table.add(mask.nodes, name, "PyG TransformerConv", "float32", note="torch_geometric is not installed here")
        table.attempt(mask.nodes, name, "unmasked linear", "float32", linear(q, k, v))
        if mask.nodes <= 262144:
            attend = torch.nn.functional.scaled_dot_product_attention
            table.attempt(mask.nodes, name, "flash softmax", "bfloat16", lambda: attend(hq, hk, hv), calls=20)
        if mask.nodes <= 32768:
            dense = torch.zeros(mask.nodes, mask.nodes, dtype=torch.bfloat16, device="cuda")
            table.attempt(
                mask.nodes, name, "SDPA with a dense mask", "bfloat16", lambda: attend(hq, hk, hv, attn_mask=dense), calls=20
            )
            del dense
            try:
                run = flex(mask, hq, hk, hv)
            except Exception as error:
                table.add(mask.nodes, name, "FlexAttention", "bfloat16", note=str(error).splitlines()[0][:60])
            else:
                table.attempt(mask.nodes, name, "FlexAttention", "bfloat16", run, calls=20)
        del mask
        torch.cuda.empty_cache()


def learning_rows(table):
    """Forward and backward with a learned f, and the same from the values: what refreshing the mask costs."""
    for side, name, walks, bar in ((512, "n20", (20, 0.1, 10), 2.2), (1024, "n4", (4, 0.5, 100), 1.6)):
        mask = Mask(grid(side), *walks)
        for dtype in (torch.float32, torch.bfloat16):
            ours(table, mask, name, dtype)
            plain, learned = (
                next(r for r in reversed(table.rows) if r["what"] == f"ours, forward + backward{end}") for end in ("", " from f")
            )
            ratio = learned["graph_ms"] / plain["graph_ms"]
            table.bar(f"forward + backward from f / from the values, {mask.nodes} {name} {dtype}", ratio, bar)
            if name == "n4" and dtype == torch.float32:
                forward = next(r for r in reversed(table.rows) if r["what"] == "ours, forward")
                table.bar(f"forward {mask.nodes} {name} {dtype} (graph, ms)", forward["graph_ms"], 0.5)
        if mask.lists is None:
            with torch.no_grad():
                table.add(
                    mask.nodes, name, "values from f, by places", "float32", call_ms(mask.values, 20), graph_ms(mask.values, 20, 2)
                )
            print(f"places of {mask.nodes} {name}: {sum(x.nbytes for x in mask.places) / 2**20:.0f} MiB")
        else:
            bytes_kept = sum(x.nbytes for x in mask.lists)
            print(
                f"lists of {mask.nodes} {name}: {bytes_kept / 2**20:.0f} MiB, "
                f"{mask.lists[1].numel() / mask.pattern[1].numel():.2f} pairs an entry"
            )
            with torch.no_grad():
                table.add(
                    mask.nodes, name, "values from f, by lists", "float32", call_ms(mask.values, 20), graph_ms(mask.values, 20, 2)
                )


def batch_rows(table, bandwidth):
    """Many slices over one mask, with values per head: an encoder, and a training batch of images of 16 x 16 patches."""
    for side, batch, heads, dtypes in ((32, 16, 12, (torch.float32, torch.bfloat16)), (16, 512, 3, (torch.bfloat16,))):
        mask = Mask(grid(side), 20, 0.1, 10)
        values = mask.values(mask.f * torch.linspace(0.5, 1, heads, device="cuda")[:, None])
        for dtype in dtypes:
            label, name = str(dtype).removeprefix("torch."), f"{batch} x {heads} heads"
            q, k, v = inputs(mask.nodes, dtype, batch, heads)
            forward = lambda: ops.sparse_attention(q, k, v, values, [*mask.pattern, *mask.tiles], EPS)[0]
            with torch.no_grad():
                alone = graph_ms(forward)
                moved = 4 * q.numel() * q.element_size() + values.numel() * 4
                share = moved / alone / 1e6 / bandwidth
                table.add(
                    mask.nodes,
                    "n20",
                    f"{name}, forward",
                    label,
                    call_ms(forward),
                    alone,
                    peak_mib(forward),
                    f"{share:.0%} of copy bandwidth",
                )
            q, k, v = inputs(mask.nodes, dtype, batch, heads, grad=True)
            learnt, cotangent = values.detach().requires_grad_(), torch.ones_like(v)

            def both():
                out = ops.sparse_attention(q, k, v, learnt, [*mask.pattern, *mask.tiles], EPS)[0]
                torch.autograd.grad(out, (q, k, v, learnt), cotangent)

            table.add(mask.nodes, "n20", f"{name}, forward + backward", label, call_ms(both), graph_ms(both), peak_mib(both))


def kernel_ms(function, name):
    """Time of the kernels whose name holds `name`, per call, from the profiler."""
    function()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(20):
            function()
        torch.cuda.synchronize()
    return sum(e.device_time_total for e in profile.key_averages() if name in e.key) / 20 / 1e3


def building_rows(table):
    graph = grid(128, 256)
    walk = lambda: walk_table(graph, 27, None, 3, ensemble=27)
    alone = kernel_ms(walk, "repelling_kernel")
    table.add(32768, "27 x 3 hops", "walks, repelling (table, kernels)", "float32", call_ms(walk), alone)
    table.bar("walks 32768 x 27 x 3 hops, repelling: the walking kernels (ms)", alone, 0.1)
    graph = grid(512)
    table.add(
        262144,
        "n20",
        "walk table",
        "float32",
        call_ms(lambda: walk_table(graph, 20, 0.1, 10), 20),
        kernel_ms(lambda: walk_table(graph, 20, 0.1, 10), "walk_kernel"),
    )
    mask = Mask(graph, 20, 0.1, 10)
    pattern = lambda: ops.product_pattern(mask.features, mask.features)
    row = table.add(262144, "n20", "pattern of ΦΦᵀ", "", call_ms(pattern, 20), kernel_ms(pattern, "pattern_kernel"))
    table.bar("pattern of ΦΦᵀ, 262144 n20 (call, ms)", row["call_ms"], 8)
    table.add(262144, "n20", "its tiles, both ways", "", call_ms(mask.make_tiles, 20), kernel_ms(mask.make_tiles, "merge_kernel"))
    with torch.no_grad():
        table.add(262144, "n20", "values of ΦΦᵀ from f", "float32", call_ms(mask.values, 20), graph_ms(mask.values, 20, 2))
    points = torch.rand(32768, 3, device="cuda")
    nearest = lambda: ops.nearest_neighbours(points, 3)
    row = table.add(32768, "", "3 nearest of points in space", "float32", call_ms(nearest), graph_ms(nearest))
    table.bar("3 nearest neighbours of 32768 points (graph, ms)", row["graph_ms"], 1)
    cdist = lambda: torch.cdist(points, points).topk(4, largest=False)
    table.attempt(32768, "", "the same by cdist + topk", "float32", cdist, calls=10)


def copy_bandwidth():
    """GB/s. Not from a captured graph: there a copy is left to the copy engines, which reach two thirds of the bandwidth."""
    source = torch.rand(2**28, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / call_ms(lambda: target.copy_(source), 20) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--rows", default="building,batch,attention", help="which parts")
    options = parser.parse_args()
    torch.manual_seed(0)
    bandwidth = copy_bandwidth()
    device = torch.cuda.get_device_name()
    print(f"# {device}, torch {torch.__version__}, copy {bandwidth:.0f} GB/s")
    print(f"{'N':>9} {'walks':<12} {'what':<34} {'dtype':<9}{'call ms':>10}{'graph ms':>10}{'peak MiB':>10}")
    table = Table()
    parts = dict(building=building_rows, batch=lambda t: batch_rows(t, bandwidth), attention=attention_rows, learning=learning_rows)
    for part in options.rows.split(","):
        parts[part](table)
    print("\nbars")
    for bar in table.bars:
        print(f"  {'met   ' if bar['met'] else 'MISSED'} {bar['name']}: {bar['value']:.4f}, at most {bar['limit']}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(
                dict(device=device, torch=torch.__version__, copy_gb_s=bandwidth, rows=table.rows, bars=table.bars), file, indent=1
            )


if __name__ == "__main__":
    sys.exit(main())
