#!/usr/bin/env python3
"""Epochs per second on a TU data set compared with PyG's TransformerConv, at equal width, on the same batches.

    python bench/tu_epochs.py --data PROTEINS.zip [--device cuda]

Both models: a linear layer, `--layers` times attention with a residual connection and ReLU, the mean over the nodes of a graph, a
linear layer; Adam. Ours attends over neighbours and the node itself, or over graph random features with a learnable f for each head;
TransformerConv over the same pairs, self-loops included. Batches are made once and are the same for all, so that what is timed is
training: the first epoch, in which masks are made, is not counted. Medians of `--epochs`.
"""

import argparse
import io
import json
import statistics
import time
import zipfile

import topomask as tm
import torch


def read_tu(path):
    """Edges [2, E] of all graphs, the graph of each node, one-hot labels of nodes, the class of each graph."""
    with zipfile.ZipFile(path) as archive:
        stem = next(name for name in archive.namelist() if name.endswith("_A.txt"))[: -len("_A.txt")]

        def numbers(part):
            text = io.TextIOWrapper(archive.open(f"{stem}_{part}.txt")).read()
            return [[int(float(x)) for x in line.split(",")] for line in text.split("\n") if line.strip()]

        edges = torch.tensor(numbers("A")).T - 1
        graph_of = torch.tensor(numbers("graph_indicator"))[:, 0] - 1
        classes = torch.tensor(numbers("graph_labels"))[:, 0]
        labels = torch.tensor(numbers("node_labels"))[:, 0]
    classes = torch.unique(classes, return_inverse=True)[1]
    return edges, graph_of, torch.nn.functional.one_hot(labels - labels.min()).float(), classes


def batches_of(data, size, device):
    edges, graph_of, features, classes = data
    made = []
    for begin in range(0, len(classes), size):
        inside = (graph_of >= begin) & (graph_of < begin + size)
        nodes = inside.nonzero()[:, 0]
        first = int(nodes[0])
        kept = edges[:, inside[edges[0]]] - first
        graph = tm.Graph.from_edges(len(nodes), kept[0], kept[1])
        loops = torch.arange(len(nodes)).repeat(2, 1)
        both = torch.unique(torch.cat([kept, kept.flip(0), loops], 1), dim=1)
        made.append(
            {
                "graph": graph,
                "edges": both.to(device),
                "x": features[nodes].to(device),
                "graph_of": (graph_of[nodes] - begin).to(device),
                "sizes": torch.bincount(graph_of[nodes] - begin, minlength=min(size, len(classes) - begin)).to(device),
                "y": classes[begin : begin + size].to(device),
            }
        )
    return made


class Model(torch.nn.Module):
    """attend(layer, x, batch) → [N, width]"""

    def __init__(self, features, classes, width, layers, make, attend):
        super().__init__()
        self.embedding, self.head = torch.nn.Linear(features, width), torch.nn.Linear(width, classes)
        self.layers = torch.nn.ModuleList(make() for _ in range(layers))
        self.attend = attend

    def forward(self, batch):
        x = self.embedding(batch["x"])
        for layer in self.layers:
            x = x + torch.relu(self.attend(layer, x, batch))
        sums = x.new_zeros(len(batch["y"]), x.shape[1]).index_add(0, batch["graph_of"], x)
        return self.head(sums / batch["sizes"].unsqueeze(1))


class Attention(torch.nn.Module):
    """The layers of tm.nn.MaskedAttention; the mask comes with the batch."""

    def __init__(self, width, heads, terms=0):
        super().__init__()
        self.heads, self.qkv = heads, torch.nn.Linear(width, 3 * width)
        self.projection = torch.nn.Linear(width, width)
        if terms:
            self.f = torch.nn.Parameter(torch.exp(-torch.arange(float(terms))).repeat(heads, 1))

    def forward(self, x, mask, softmax):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).movedim(-3, 0).transpose(-3, -2)
        out = tm.softmax_attention(q, k, v, mask) if softmax else tm.attention(q, k, v, mask, features="relu")
        return self.projection(out.transpose(-3, -2).flatten(-2))


def models(data, arguments, batches, device):
    shape = data[2].shape[1], int(data[3].max()) + 1, arguments.width, arguments.layers
    width, heads = arguments.width, arguments.heads
    neighbours = [tm.neighbours_mask(batch["graph"]).to(device) for batch in batches]
    walks = [
        tm.sample_walks(batch["graph"].normalised(), walkers=4, halting_probability=0.5, max_hops=7, seed=1).to(device)
        for batch in batches
    ]
    for batch, one, table in zip(batches, neighbours, walks):
        batch["neighbours"], batch["walks"] = one, table
    yield (
        "neighbours, softmax",
        Model(*shape, lambda: Attention(width, heads), lambda layer, x, batch: layer(x, batch["neighbours"], True)),
    )
    yield (
        "neighbours, kernel",
        Model(*shape, lambda: Attention(width, heads), lambda layer, x, batch: layer(x, batch["neighbours"], False)),
    )
    yield (
        "GRF, kernel",
        Model(
            *shape,
            lambda: Attention(width, heads, 8),
            lambda layer, x, batch: layer(x, tm.grf_mask(batch["walks"], layer.f), False),
        ),
    )
    try:
        from torch_geometric.nn import TransformerConv
    except ImportError:
        return
    yield (
        "PyG TransformerConv",
        Model(
            *shape,
            lambda: TransformerConv(width, width // heads, heads=heads),
            lambda layer, x, batch: layer(x, batch["edges"]),
        ),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    data = read_tu(arguments.data)
    batches = batches_of(data, arguments.batch, device)
    for name, model in models(data, arguments, batches, device):
        model.to(device)
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device.type == "cuda")
        times = []
        for epoch in range(arguments.epochs + 3):
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            total = torch.zeros((), device=device)
            for batch in batches:
                optimiser.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(batch), batch["y"])
                loss.backward()
                optimiser.step()
                total += loss.detach()
            last = total.item() / len(batches)
            if epoch >= 3:
                times.append(time.perf_counter() - start)
        rate = 1 / statistics.median(times)
        made = {"model": name, "device": str(device), "graphs": len(data[3]), "batch": arguments.batch}
        made |= {"width": arguments.width, "layers": arguments.layers, "epochs_per_second": round(rate, 3), "loss": round(last, 4)}
        print(json.dumps(made), flush=True)


if __name__ == "__main__":
    main()
