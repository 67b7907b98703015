"""What the tests of the masks that GPSAttention keeps share: functions that make masks, and ways of writing to f."""

import copy
import ctypes

import torch
from families import random
from support import Case, missing, tm

NODES = 12


def whole(graph, f):
    return tm.power_series_mask(graph.normalised(), f)


def computed(graph, f):
    return tm.power_series_mask(graph.normalised(), torch.nn.functional.softplus(f))


def inside(graph, f):
    """What is computed from f is in masks inside the mask."""
    return tm.PerHeadMask([computed(graph, f[head]) for head in range(2)])


def around(graph, f):
    return tm.GlobalTokens(computed(graph, f), 0)


def mixed(graph, f):
    """f itself is in the mask, and so is what is computed from it."""
    graph = graph.normalised()
    return tm.power_series_mask(graph.with_weights(graph.weights * f.sigmoid().mean()), f)


def detached(graph, f):
    """What is computed from f has no gradient."""
    return tm.power_series_mask(graph.normalised(), f.detach().exp())


def by_number(graph, f):
    """f itself is in the mask, and a number is read from it."""
    return tm.power_series_mask(graph.normalised(f.sigmoid().mean().item()), f)


def by_entries(graph, f):
    """f itself is in the mask, and C++ computes entries of another mask that has f."""
    inner = tm.power_series_mask(graph.normalised(), f).dense()
    return tm.power_series_mask(graph.normalised(1 / inner.abs().max().item()), f)


READING = (detached, by_number, by_entries)


def constant(graph, f):
    return tm.shortest_path_mask(graph, torch.linspace(1, 0.1, NODES, dtype=torch.float64))


COMPUTED = {  # the coefficients of the power series over the normalised graph that each of these masks is
    computed: torch.nn.functional.softplus,
    inside: torch.nn.functional.softplus,
    around: torch.nn.functional.softplus,
    mixed: lambda f: f * f.sigmoid().mean() ** torch.arange(f.shape[-1]),
}


def edges_of(*seeds):
    return [tm.Graph.erdos_renyi(NODES, 0.4, seed=seed).edge_index() for seed in seeds]


def layer_of(mask, **options):
    torch.manual_seed(0)
    return tm.pyg.GPSAttention(8, heads=2, mask=mask, features="elu", **options).double()


def layer_like(layer, mask):
    """Another layer with the same parameters."""
    other = layer_of(mask)
    other.load_state_dict(layer.state_dict())
    return other


def counted(mask):
    """The function, and the list of the graphs that it was called with."""
    made = []

    def counting(graph, f):
        made.append(graph)
        return mask(graph, f)

    return counting, made


def call(layer, edges, x):
    layer.set_graph(edges, NODES)
    return layer(x)[0]


def ways_of_writing_f():
    """Writes of other values, some of which no version counter sees."""

    def exchange(f, value):
        f.data = value

    def optimiser(**options):
        def step(f, value):
            f.grad = f.detach() - value
            torch.optim.AdamW([f], lr=0.1, **options).step()
            f.grad = None

        return step

    def exchange_memory(f, value):
        with torch.no_grad():
            f.set_(value.clone())

    ways = {
        "AdamW(fused=True)": optimiser(fused=True),
        "AdamW(foreach=True)": optimiser(foreach=True),
        "AdamW(foreach=False)": optimiser(foreach=False),
        "in place": lambda f, value: f.detach().copy_(value),
        ".data": lambda f, value: f.data.copy_(value),
        ".data exchanged": exchange,
        "set_": exchange_memory,
        "pointer": lambda f, value: bytes_of(f).__setitem__(slice(None), bytes_of(value).tobytes()),
    }
    if not missing("numpy"):
        ways["NumPy"] = lambda f, value: f.detach().numpy().__setitem__(..., value.numpy())
    return ways


def bytes_of(tensor):
    size = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")


class KeptCase(Case):
    def setUp(self):
        self.x = random(1, NODES, 8)

    def right(self, layer, edges):
        """The output and the gradient of f are those of a layer that has kept nothing."""
        results = []
        for one in (layer, copy.deepcopy(layer)):
            one.zero_grad()
            out = call(one, edges.clone() if one is not layer else edges, self.x)
            if torch.is_grad_enabled() and one.f.requires_grad:
                out.square().sum().backward()
                results.append([out] if one.f.grad is None else [out, one.f.grad])
            else:
                results.append([out])
        for got, want in zip(*results, strict=True):
            self.close(got, want, 1e-9)
        return results[0]
