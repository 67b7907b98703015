"""Tables and bars from the JSON of a benchmark suite."""

import math
import statistics


class Results:
    """Cases by (mask, N, variant, pass), from names `<suite>/<mask>/N:<N>/<variant>/<pass>`. Times in ms."""

    def __init__(self, data):
        self.context = data["context"]
        self.cases, self.errors = {}, []
        for item in data["benchmarks"]:
            _, mask, nodes, variant, kind = item["name"].split("/")
            if item.get("error_occurred"):
                self.errors.append(f"{item['name']}: {item['error_message']}")
            else:
                self.cases[mask, int(nodes.removeprefix("N:")), variant, kind] = item

    def column(self, index):
        """The distinct values of one part of the key, in the order of the run."""
        return list(dict.fromkeys(key[index] for key in self.cases))

    def time(self, *key):
        item = self.cases.get(key)
        return item and item["real_time"]

    def peak(self, *key):
        item = self.cases.get(key)
        return item and item["peak_bytes"]


def human_bytes(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def print_table(rows):
    """Columns as wide as they must be, the first on the left, the others on the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())
    print()


def print_times(results, mask, kind, reference):
    """Per N and variant: median ms, ± half the spread, the ratio against the reference variant."""
    variants = [v for v in results.column(2) if any(key[0] == mask and key[2:] == (v, kind) for key in results.cases)]
    sizes = [n for n in results.column(1) if any(key[0] == mask and key[1] == n and key[3] == kind for key in results.cases)]
    times, peaks = [["N", *variants]], [["N", *variants]]
    for n in sizes:
        base = results.time(mask, n, reference, kind)
        time_row, peak_row = [str(n)], [str(n)]
        for variant in variants:
            item = results.cases.get((mask, n, variant, kind))
            if not item:
                time_row.append("–")
                peak_row.append("–")
                continue
            ratio = f" {item['real_time'] / base:6.3g}×" if base else ""
            time_row.append(f"{item['real_time']:.4g} ±{50 * item['spread']:.0f}%{ratio}")
            peak_row.append(human_bytes(item["peak_bytes"]))
        times.append(time_row)
        peaks.append(peak_row)
    print(f"{mask}, {kind}: ms, ± half the spread, time over that of `{reference}`")
    print_table(times)
    print(f"{mask}, {kind}: peak memory of a call, output included")
    print_table(peaks)


def markdown(results, reference="sparse"):
    """The forward and backward times of a suite as Markdown, a row per variant, with the ratio against the reference."""
    context, lines = results.context, []
    lines.append(
        f"{context.get('cpu', 'unknown cpu')}, {context['threads']} threads, torch {context['torch']}, version "
        f"{context['git']}, {context['date'][:10]}. Median ms, ± half the spread, time over that of `{reference}`."
    )
    for mask in results.column(0):
        for kind in results.column(3):
            chosen = {key: item for key, item in results.cases.items() if key[0] == mask and key[3] == kind}
            sizes = sorted({key[1] for key in chosen})
            lines += [
                "",
                f"**{mask}, {kind}**",
                "",
                "| variant | " + " | ".join(f"N = {n}" for n in sizes) + " |",
                "|---|" + "---|" * len(sizes),
            ]
            for variant in dict.fromkeys(key[2] for key in chosen):
                cells = []
                for n in sizes:
                    item, base = chosen.get((mask, n, variant, kind)), chosen.get((mask, n, reference, kind))
                    cells.append(
                        f"{item['real_time']:.3g} ±{50 * item['spread']:.0f}% ({item['real_time'] / base['real_time']:.3g}×)"
                        if item and base
                        else "–"
                    )
                lines.append(f"| `{variant}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def markdown_tables(results, tables):
    """Tables as Markdown, each under its title, after a line on the machine."""
    context = results.context
    lines = [
        f"{context.get('cpu', 'unknown cpu')}, {context['threads']} threads, torch {context['torch']}, "
        f"version {context['git']}, {context['date'][:10]}."
    ]
    for title, (head, *rows) in tables.items():
        lines += ["", f"**{title}**", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        lines += ["| " + " | ".join(cell.strip() for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write_docs(folder, name, data):
    """Replaces the part of the suite's page between `<!-- bench:NAME -->` and `<!-- end -->` by its tables."""
    path, results = folder / DOCS[name], Results(data)
    head, rest = path.read_text().split(f"<!-- bench:{name} -->\n", 1)
    tail = rest.split("<!-- end -->", 1)[1]
    tables = {**TABLES, "masks": masks_tables}
    text = markdown_tables(results, tables[name](results)) if name in tables else markdown(results)
    path.write_text(f"{head}<!-- bench:{name} -->\n{text}<!-- end -->{tail}")


class Bars:
    """Requirements on measured figures; one whose cases were not run is skipped."""

    def __init__(self):
        self.rows, self.passed = [["bar", "measured", "wanted", ""]], True

    def check(self, what, value, wanted, at_least):
        if value is None:
            self.rows.append([what, "–", "", "skipped"])
            return
        good = value >= wanted if at_least else value <= wanted
        self.passed &= good
        self.rows.append([what, f"{value:.3g}", f"{'≥' if at_least else '≤'} {wanted:g}", "pass" if good else "FAIL"])

    def note(self, what, value):
        """A figure next to the bars, compared with nothing."""
        if value is not None:
            self.rows.append([what, f"{value:.3g}", "", ""])


def ratio(above, below):
    return above / below if above and below else None


def slope(first, last, growth):
    return math.log(last / first) / math.log(growth) if first and last else None


def attention_bars(results):
    bars, mask, n, far = Bars(), "series3", 16384, 262144

    def time(variant, kind="forward", nodes=n):
        return results.time(mask, nodes, variant, kind)

    for baseline, wanted in (("torch_sddmm", 4), ("torch_algorithm1", 150), ("torch_sdpa", 200), ("torch_linear", 1.8)):
        bars.check(f"N = {n}: {baseline} / sparse, forward", ratio(time(baseline), time("sparse")), wanted, True)
    bars.check(f"N = {n}: torch_algorithm1 / features, forward", ratio(time("torch_algorithm1"), time("features")), 4, True)
    bars.check(f"N = {n}: sparse, forward_backward / forward", ratio(time("sparse", "forward_backward"), time("sparse")), 4, False)
    bars.check(f"sparse, slope of time, N = {n} to {far}", slope(time("sparse"), time("sparse", nodes=far), far / n), 1.05, False)
    bars.note("  the same of one pass over q, k, v and the output", slope(time("stream"), time("stream", nodes=far), far / n))
    peaks = [results.peak(mask, nodes, "sparse", "forward") for nodes in (n, far)]
    bars.check(f"sparse, slope of peak_bytes, N = {n} to {far}", slope(*peaks, far / n), 1.05, False)
    # The call, its plan and the clock all take microseconds here: the margin is for noise.
    bars.check("N = 256: planned / dense, forward", ratio(time("planned", nodes=256), time("dense", nodes=256)), 1.05, False)
    grf_bars(results, bars)
    return bars


def grf_bars(results, bars):
    n, near, far = 16384, 4096, 1048576
    for mask, wanted in (
        ("grf_n4", (("torch_algorithm1", 400), ("torch_sddmm", 5), ("torch_linear", 3))),
        ("grf_n20", (("torch_algorithm1", 40), ("torch_sddmm", 2.5))),
    ):
        for baseline, least in wanted:
            times = [results.time(mask, n, variant, "forward") for variant in (baseline, "sparse")]
            bars.check(f"{mask}, N = {n}: {baseline} / sparse, forward", ratio(*times), least, True)
    times = [results.time("grf_n4", n, variant, "forward") for variant in ("torch_algorithm1", "features")]
    bars.check(f"grf_n4, N = {n}: torch_algorithm1 / features, forward", ratio(*times), 8, True)
    times = [results.time("grf_n4", nodes, "sparse", "forward") for nodes in (near, far)]
    bars.check(f"grf_n4, sparse, slope of time, N = {near} to {far}", slope(*times, far / near), 1.05, False)
    times = [results.time("grf_n4", nodes, "stream", "forward") for nodes in (near, far)]
    bars.note("  the same of one pass over q, k, v and the output", slope(*times, far / near))
    # Inputs and cotangent live before the call.
    peak = results.peak("grf_n4", far, "sparse_learned", "forward_backward")
    bars.check(f"grf_n4, N = {far}: GiB, forward_backward with gradient to f", peak and (peak + 4 * far * 64 * 4) / 2**30, 6, False)


def planner_bars(results):
    """Prints estimates against times, and holds the chosen route's time against the best."""
    by_point, off = {}, {}
    for (mask, nodes, variant, _), item in results.cases.items():
        by_point.setdefault((nodes, mask), {})[variant] = item
        off.setdefault(variant, []).append((item["real_time"] / item["estimate_ms"], nodes, mask))
    routes = results.column(2)
    rows, worst = [["N, mask", *routes, "chosen", "chosen / best"]], None
    for (nodes, mask), items in by_point.items():
        cells = [f"{items[r]['real_time']:.3g} ({items[r]['estimate_ms']:.3g})" if r in items else "–" for r in routes]
        chosen = next((r for r in items if items[r]["chosen"]), None)
        loss = items[chosen]["real_time"] / min(i["real_time"] for i in items.values()) if chosen else None
        worst = max(worst or 0, loss) if loss else worst
        rows.append([f"{nodes} {mask}", *cells, chosen or "–", f"{loss:.2f}" if loss else "–"])
    print("ms measured (estimated)")
    print_table(rows)
    print("measured / estimated per route: multiply the route's constants by the median to centre it")
    table = [["route", "median", "least", "at", "most", "at"]]
    for route, values in off.items():
        (low, *low_at), (high, *high_at) = min(values), max(values)
        median = statistics.median(value for value, *_ in values)
        table.append([route, f"{median:.2f}", f"{low:.2f}", " ".join(map(str, low_at)), f"{high:.2f}", " ".join(map(str, high_at))])
    print_table(table)
    bars = Bars()
    bars.check("worst chosen / best over the grid", worst, 1.5, False)
    return bars


def walks_bars(results):
    """Prints rates and sizes, and holds the two rates that are promised on a million-node grid."""
    rows, bars, rates = (
        [["sampler, graph", "N", "pass", "ms", "million walks/s", "million steps/s", "nnz/row", "triples/row"]],
        Bars(),
        {},
    )
    for (sampler, nodes, graph, kind), item in results.cases.items():
        per_second = 1e-3 / item["real_time"]  # millions
        walks, steps = item.get("walks"), item.get("steps")
        if kind == "sample":
            rates[sampler, graph] = walks * per_second, steps * per_second
        cells = [f"{walks * per_second:.1f}", f"{steps * per_second:.1f}", f"{item['nnz'] / nodes:.2f}"] if walks else ["–"] * 3
        rows.append([f"{sampler} {graph}", str(nodes), kind, f"{item['real_time']:.4g}", *cells, f"{item['triples'] / nodes:.2f}"])
    print_table(rows)
    bars.check("n4_p.5 on the grid: million walks/s", rates.get(("n4_p.5", "grid"), (None, None))[0], 25, True)
    bars.check("n20_p.1_cap10 on the grid: million steps/s", rates.get(("n20_p.1_cap10", "grid"), (None, None))[1], 90, True)
    return bars


def crossover(times):
    """N from which on the structured route wins, from [(N, structured, dense)] ascending: interpolated in logarithms."""
    wins = [(n, math.log(dense / structured)) for n, structured, dense in times]
    if wins[-1][1] <= 0:
        return f"> {wins[-1][0]}"
    last_loss = max((i for i, (_, gain) in enumerate(wins) if gain <= 0), default=None)
    if last_loss is None:
        return f"< {wins[0][0]}"
    (n0, g0), (n1, g1) = wins[last_loss], wins[last_loss + 1]
    return f"{n0 * (n1 / n0) ** (-g0 / (g1 - g0)):.0f}"


def crossover_table(results):
    """A row per family: dense over structured attention by N, and where they cross."""
    pairs = {}
    for (mask, nodes, variant, kind), item in results.cases.items():
        if kind != "forward" or not variant.endswith("_attention") or variant == "dense_attention":
            continue
        dense = results.time(mask, nodes, "dense_attention", kind)
        if dense:
            pairs.setdefault((mask, variant.removesuffix("_attention")), []).append((nodes, item["real_time"], dense))
    if not pairs:
        return []
    sizes = sorted({nodes for times in pairs.values() for nodes, *_ in times})
    rows = [["family", "route", *(f"N = {n}" for n in sizes), "crossover"]]
    for (mask, route), times in pairs.items():
        times.sort()
        by_size = {n: f"{structured:.3g} / {dense:.3g}" for n, structured, dense in times}
        rows.append([mask, route, *(by_size.get(n, "–") for n in sizes), crossover(times)])
    return rows


def masks_tables(results):
    rows = crossover_table(results)
    return {"attention, ms, structured / dense, and the N from which on the structured route wins": rows} if rows else {}


def masks_bars(results):
    """A row per family and N with the time of every variant, and what is promised of them."""
    variants = results.column(2)
    rows = [["family, N, pass", *variants]]
    for mask, nodes, kind in dict.fromkeys((key[0], key[1], key[3]) for key in results.cases):
        times = [results.time(mask, nodes, variant, kind) for variant in variants]
        rows.append([f"{mask} {nodes} {kind}", *(f"{time:.3g}" if time else "–" for time in times)])
    print("ms")
    print_table(rows)
    for title, table in masks_tables(results).items():
        print(title)
        print_table(table)
    bars, tree, near, far = Bars(), "forest_exponential", 8192, 82115
    dense, product, copy = (
        results.time(tree, nodes, variant, "forward") for nodes, variant in ((near, "dense_matmul"), (far, "matmul"), (far, "copy"))
    )
    bars.check(
        f"{tree}, N = {far}: dense, extrapolated from {near} / matmul",
        ratio(dense and dense * (far / near) ** 2, product),
        100,
        True,
    )
    bars.check(f"{tree}, N = {far}: matmul / copy", ratio(product, copy), 4, False)
    times = [results.time("forest_table", nodes, "matmul", "forward") for nodes in (4096, 1048576)]
    bars.check("forest_table, slope of time, N = 4096 to 1048576", slope(*times, 256), 1.2, False)
    times = [results.time("toeplitz", 4096, variant, "forward") for variant in ("dense_attention", "operator_attention")]
    bars.check("toeplitz, 64×64: dense_attention / attention", ratio(*times), 5, True)
    times = [results.time("toeplitz", 4096, variant, "forward") for variant in ("dense_attention", "fused_attention")]
    bars.check("toeplitz, 64×64: dense_attention / fused_attention", ratio(*times), 5, True)
    for variant, baseline in (("fused_attention", "sdpa"), ("fused_softmax", "sdpa_bias")):
        times = [results.time("toeplitz", 16384, name, "forward") for name in (variant, baseline)]
        bars.check(f"toeplitz, 128×128: {variant} / {baseline}", ratio(*times), 1, False)
    times = [results.time("toeplitz", 16384, name, "forward_backward") for name in ("fused_softmax", "sdpa")]
    bars.note("  forward and backward, with gradients to the offsets: fused_softmax / sdpa", ratio(*times))
    for nodes in (4096, 16384, 65536, 262144):
        times = [results.time("diffusion", nodes, variant, "forward") for variant in ("matmul", "sparse_products")]
        bars.check(f"diffusion, N = {nodes}: matmul / its sparse products", ratio(*times), 1.5, False)
    return bars


def pareto(points):
    """The names whose (time, error) no other one beats in both."""
    return {
        name
        for name, (time, error) in points.items()
        if not any(t <= time and e <= error and (t, e) != (time, error) for t, e in points.values())
    }


def frontier_tables(results):
    """Rows per graph, one for each way to have the mask, cheapest attention first; * where nothing is cheaper and better."""
    routes = ("automatic", "dense", "sparse", "features", "operator")
    tables = {}
    for graph, nodes in dict.fromkeys(key[:2] for key in results.cases):
        items = {key[2]: item for key, item in results.cases.items() if key[0] == graph and key[3] == "attention"}
        anew = {method: results.time(graph, nodes, method, "anew") for method in items}
        best = pareto({method: (item["real_time"], item["mask_error"]) for method, item in items.items()})
        best_anew = pareto({method: (anew[method], item["mask_error"]) for method, item in items.items() if anew[method]})
        rows = [["method", "route", "entries a row", "mask error", "graph error", "output error", "attention, ms", "with mask, ms"]]
        for method, item in sorted(items.items(), key=lambda pair: pair[1]["real_time"]):
            rows.append(
                [
                    method,
                    routes[round(item["route"])],
                    f"{item['entries']:.0f}",
                    *(f"{item[kind]:.3g}" for kind in ("mask_error", "graph_error", "output_error")),
                    f"{item['real_time']:.3g}" + ("*" if method in best else " "),
                    (f"{anew[method]:.3g}" if anew[method] else "–") + ("*" if method in best_anew else " "),
                ]
            )
        tables[f"{graph}, N = {nodes}"] = rows
    return tables


def flops_tables(results):
    """Figure 3 of Reid et al.: MFLOP against N, and milliseconds."""
    rows = [["N", *(f"{variant}, {unit}" for unit in ("MFLOP", "ms") for variant in results.column(2))]]
    for nodes in results.column(1):
        items = [results.cases.get(("path", nodes, variant, "forward")) for variant in results.column(2)]
        rows.append(
            [
                str(nodes),
                *(f"{item['flop'] / 1e6:.3g}" if item else "–" for item in items),
                *(f"{item['real_time']:.3g}" if item else "–" for item in items),
            ]
        )
    return {"path, n = 4, p_halt = .5, d = m = 8": rows}


def print_suite(name, data):
    """Prints a suite's tables; False where a case failed or a bar is missed."""
    results = Results(data)
    context = results.context
    # A load above the number of threads at the start says that other programs were measured too.
    parts = {"cpu": "", "threads": "threads ", "torch": "torch ", "git": "version ", "date": "", "load_avg": "load "}
    print(f"\n{name}: " + ", ".join(prefix + str(context[key]) for key, prefix in parts.items() if key in context) + "\n")
    if name == "planner":
        bars = planner_bars(results)
    elif name == "walks":
        bars = walks_bars(results)
    elif name == "masks":
        bars = masks_bars(results)
    elif name in TABLES:
        bars = Bars()
        for title, rows in TABLES[name](results).items():
            print(title)
            print_table(rows)
    else:
        for mask in results.column(0):
            for kind in results.column(3):
                print_times(results, mask, kind, "sparse")
        bars = attention_bars(results) if name == "attention" else Bars()
    if len(bars.rows) > 1:
        print_table(bars.rows)
    for error in results.errors:
        print(f"error: {error}")
    return bars.passed and not results.errors


TABLES = {"frontier": frontier_tables, "flops": flops_tables}  #: suites that promise no bar
DOCS = {
    "attention": "performance.md",
    "frontier": "accuracy-and-cost.md",
    "flops": "accuracy-and-cost.md",
    "masks": "choosing-a-mask.md",
}  #: where tables go
