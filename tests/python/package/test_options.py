"""Every field of every options struct of the C++ headers is an argument of the Python functions and classes that take its place."""

import inspect
import itertools
import re
import unittest

import torch
from support import ROOT, Case, tm

HEADERS = sorted((ROOT / "include" / "topomask").rglob("*.h"))

TAKEN = {
    "AttentionOptions": (tm.attention,),
    "CentralityOptions": (tm.centrality_mask, tm.CentralityMask),
    "DiffusionOptions": (tm.diffusion_mask, tm.DiffusionMask),
    "EdgeListOptions": (tm.Graph.from_edges,),
    "ErrorOptions": (tm.mask_error,),
    "FavorOptions": (tm.FeatureMap.favor,),
    "FourierOptions": (tm.random_fourier_factors,),
    "GrfOptions": (tm.grf_mask, tm.GRFMask, tm.hybrid_grf_mask, tm.HybridGRFMask),
    "KnnOptions": (tm.Graph.knn,),
    "NodeKernelOptions": (tm.node_kernel_mask, tm.NodeKernelMask),
    "PowerSeriesOptions": (tm.power_series_mask, tm.power_series_basis, tm.PowerSeriesMask),
    "ProjectionOptions": (tm.projected_mask, tm.ProjectedMask),
    "ReadOptions": (tm.read_graph, tm.read_snap),
    "ShortestPathOptions": (tm.shortest_paths, tm.shortest_path_mask, tm.ShortestPathMask),
    "SoftmaxOptions": (tm.softmax_attention,),
    "StitchOptions": (tm.stitched_grf_mask, tm.StitchedGRFMask),
    "StochasticPositionalOptions": (tm.stochastic_positional_mask, tm.StochasticPositionalMask),
    "SuggestOptions": (tm.suggest, tm.auto_mask, tm.AutoMask),
    "ToeplitzOptions": (tm.toeplitz_mask, tm.toeplitz_distance_mask, tm.ToeplitzMask, tm.ToeplitzDistanceMask),
    "TransformerConvOptions": (tm.pyg.TransformerConv,),
    "WalkOptions": (tm.WalkOptions,),
}
READ_LIMITS = {"ReadLimits": (tm.read_graph, tm.read_snap, tm.read_metis, tm.read_matrix_market, tm.read_npz)}
RENAMED = {
    ("ReadOptions", "weight_dtype"): {"dtype"},
    ("ReadOptions", "limits"): {"max_nodes", "max_edges", "max_isolated"},
    ("ReadOptions", "warn"): set(),  # warnings.warn, which Python's filters direct
    ("SoftmaxOptions", "mask"): {"mode"},  # `mask` is the mask
}
COMMAND_LINE = "of the library of models, topomask_models, which the command line uses and Python does not load"
LEFT_OUT = {
    "AugmentOptions": COMMAND_LINE,
    "DataOptions": COMMAND_LINE,
    "EpisodeDataOptions": COMMAND_LINE,
    "GATOptions": COMMAND_LINE + "; torch_geometric.nn.GATConv has the layer",
    "GKATOptions": COMMAND_LINE + "; NodeKernelMask has the mask of the layer",
    "GraphDataOptions": COMMAND_LINE + "; docs/python-graphs.md names the packages that read such data",
    "GraphModelOptions": COMMAND_LINE,
    "LoaderOptions": COMMAND_LINE + "; torch.utils.data.DataLoader takes its place",
    "PointModelOptions": COMMAND_LINE,
    "TrainOptions": COMMAND_LINE,
    "VideoOptions": COMMAND_LINE,
    "ViTOptions": COMMAND_LINE + "; topomask.nn.ViT takes masks in place of names of variants",
    "ViViTOptions": COMMAND_LINE,
}


def options_structs():
    """Name → fields of every struct whose name ends in Options, without its methods."""
    found = {}
    for path in HEADERS:
        text = re.sub(r"//.*", "", path.read_text())
        for name, body in re.findall(r"^struct (\w+Options)\b[^;{]*\{(.*?)^\};", text, re.M | re.S):
            fields = re.findall(r"^  (?!static|void|template|using)[\w:<>&(), ]*?[\w>)] (\w+)\s*(?:=[^;]*)?;", body, re.M)
            found[name] = fields
    return found


NAMED = {
    "true": True,
    "false": False,
    "": None,
    "at::kFloat": torch.float32,
    "kDefaultMemoryBudget": tm.mask.DEFAULT_MEMORY_BUDGET,
}


def value(text):
    """A default value of C++ as Python has it: numbers, powers of two, a string for an enumerator, None for nothing."""
    if text in NAMED:
        return NAMED[text]
    power = re.fullmatch(r"int64_t\{1\} << (\d+)", text)
    choice = re.fullmatch(r"(?:\w+::)+(\w+?)(?:\(\))?", text)
    return 2 ** int(power[1]) if power else choice[1] if choice else float(text)


def defaults():
    """(struct, field) → the default value of every field that has one."""
    text = "\n".join(re.sub(r"//.*", "", path.read_text()) for path in HEADERS)
    for name, body in re.findall(r"^struct (\w+Options|ReadLimits)\b[^;{]*\{(.*?)^\};", text, re.M | re.S):
        found = re.findall(r"^  (?!static|void|template|using)[\w:<>&(), ]*?[\w>)] (\w+)\s*=\s*([^;]*);", body, re.M)
        yield from (
            ((name, field), value("" if default == "{}" else default))
            for field, default in found
            if name in {**TAKEN, **READ_LIMITS}
        )


def arguments(function):
    return set(getattr(function, "__dataclass_fields__", None) or inspect.signature(function).parameters)


class Options(Case):
    def test_every_struct_is_known(self):
        self.assertEqual(set(options_structs()), set(TAKEN) | set(LEFT_OUT))
        self.assertEqual(set(TAKEN) & set(LEFT_OUT), set())

    def test_the_fields_are_found(self):
        structs = options_structs()
        self.assertEqual(structs["KnnOptions"], ["k", "directed"])
        self.assertEqual(structs["ReadOptions"],
                         ["directed", "duplicates", "self_loops", "limits", "weight_dtype", "one_based", "warn"])  # fmt: skip
        self.assertEqual(structs["SoftmaxOptions"], ["mask", "scale", "route", "eps", "memory_budget"])
        self.assertEqual(len(structs["WalkOptions"]), 13)
        self.assertTrue(all(structs.values()))

    def test_every_field_is_an_argument(self):
        for name, fields in options_structs().items():
            for function in TAKEN.get(name, ()):
                wanted = set().union(*(RENAMED.get((name, field), {field}) for field in fields))
                with self.subTest(struct=name, function=function.__name__):
                    self.assertEqual(wanted - arguments(function), set())

    def test_defaults_are_the_same(self):
        found = dict(defaults())
        self.assertEqual(found["PowerSeriesOptions", "max_sparse_entries"], 1 << 26)
        self.assertEqual(found["AttentionOptions", "features"], "relu")
        self.assertGreater(len(found), 60)
        budget = re.search(r"kDefaultMemoryBudget = int64_t\{1\} << (\d+);", (ROOT / "include/topomask/planner.h").read_text())
        self.assertEqual(tm.mask.DEFAULT_MEMORY_BUDGET, 1 << int(budget[1]))
        compared = 0
        self.assertIsNone(found.pop(("ReadOptions", "limits")))  # READ_LIMITS
        for (name, field), default in found.items():
            names = RENAMED.get((name, field), {field})
            for function, argument in itertools.product({**TAKEN, **READ_LIMITS}[name], names):
                argument = inspect.signature(function).parameters.get(argument)
                if argument is not None and argument.default is not inspect.Parameter.empty:
                    compared += 1
                    with self.subTest(struct=name, field=field, function=function.__name__):
                        self.assertEqual(argument.default, default)
        self.assertGreater(compared, 90)

    def test_walk_options_have_the_same_fields_in_the_same_order(self):
        self.assertEqual(options_structs()["WalkOptions"], list(tm.WalkOptions.__dataclass_fields__))


if __name__ == "__main__":
    unittest.main()
