"""What a call from Python costs beyond the same call in C++: forward, planned once, on a graph so small that the call is all.

    python bench/python_overhead.py

The C++ side is the library's own `attention`, called in a loop by TorchScript, without the interpreter of Python. Both take
features already, or both apply ReLU. Times are the least of many rounds, which other load on the machine hardly touches.
"""

import json
import time
import warnings

import topomask as tm
import torch

CALLS, ROUNDS = 10, 400


def loop(mask, softmax, relu):
    """A TorchScript function (q, k, v, calls) → the last output, of calls into C++ alone."""

    class Kernel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = mask._object

        def forward(self, q, k, v, calls: int):
            out = v
            for _ in range(calls):
                out = self.mask.attention(q, k, v, "automatic", 1e-6, 4294967296)
            return out

    class Relu(Kernel):
        def forward(self, q, k, v, calls: int):
            out = v
            for _ in range(calls):
                out = self.mask.attention(torch.relu(q), torch.relu(k), v, "automatic", 1e-6, 4294967296)
            return out

    class Softmax(Kernel):
        def forward(self, q, k, v, calls: int):
            out = v
            for _ in range(calls):
                out = self.mask.softmax_attention(q, k, v, "multiplicative", None, "automatic", 1e-6, 4294967296)
            return out

    return torch.jit.script(Softmax() if softmax else Relu() if relu else Kernel())


def least(function):
    """Seconds of one of CALLS calls, in the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        function()
        best = min(best, (time.perf_counter() - started) / CALLS)
    return best


def overhead(mask, kind):
    """Microseconds of a call in C++ and from Python. kind: "features", "relu" or "softmax"."""
    torch.manual_seed(0)
    q, k, v = (torch.rand(mask.heads, mask.size, 8) for _ in range(3))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        inside = loop(mask, kind == "softmax", kind == "relu")

        def outside():
            for _ in range(CALLS):
                if kind == "softmax":
                    tm.softmax_attention(q, k, v, mask)
                else:
                    tm.attention(q, k, v, mask, features="relu" if kind == "relu" else None)

        inside(q, k, v, CALLS), inside(q, k, v, CALLS), outside()
        return 1e6 * least(lambda: inside(q, k, v, CALLS)), 1e6 * least(outside)


def one_at_a_time(mask, kind):
    """Microseconds of a C++ call when every second thing is the interpreter: its code has left the caches by then."""
    torch.manual_seed(0)
    q, k, v = (torch.rand(mask.heads, mask.size, 8) for _ in range(3))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        inside = loop(mask, kind == "softmax", kind == "relu")

        def calls(count):
            for _ in range(CALLS):
                inside(q, k, v, count)

        calls(1), calls(0)
        return 1e6 * (least(lambda: calls(1)) - least(lambda: calls(0)))


def masks():
    graph = tm.Graph.grid(4, 4)
    return {
        "none": tm.NoneMask(16),
        "sparse": tm.SparseMask(graph, heads=2),
        "sparse, edges in another order": tm.SparseMask(graph.edge_index().flip(-1), heads=2),
        "power series": tm.PowerSeriesMask(graph, heads=2),
        "graph random features": tm.GRFMask(graph, heads=2),
        "Toeplitz": tm.ToeplitzMask([4, 4], torch.rand(2, 7, 7)),
        "global tokens around it": tm.GlobalTokens(tm.GRFMask(graph, heads=2)),
    }


def main():
    torch.set_num_threads(1)
    rows = []
    print(f"torch {torch.__version__}, µs of a call, least of {ROUNDS} rounds of {CALLS}\n")
    titles = ("mask", "", "C++, in a loop", "C++, one at a time", "Python", "beyond the loop", "beyond one at a time")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for name, mask in masks().items():
        for kind in ("features", "relu", "softmax"):
            inside, outside = overhead(mask, kind)
            single = one_at_a_time(mask, kind)
            rows.append({"mask": name, "kind": kind, "cpp_us": inside, "cpp_single_us": single, "python_us": outside})
            numbers = (inside, single, outside, outside - inside, outside - single)
            print(f"| {name} | {kind} | " + " | ".join(f"{number:.1f}" for number in numbers) + " |", flush=True)
    print("\n" + json.dumps(rows))


if __name__ == "__main__":
    main()
