"""The package has every public name of the C++ headers that it is made of; test_model_names.py has those of models and data, and
test_options.py the fields of options."""

import functools
import inspect
import re
import unittest

import torch
from support import ROOT, Case, tm
from topomask.train import config
from topomask.train.data import SPLITS

HEADERS = sorted(path for path in (ROOT / "include" / "topomask").glob("*.h") if path.name not in ("config.h", "run_config.h"))
ELSEWHERE = {"to_string"}  # Python has strings for choices
CHOICES = "a string in Python"
PART = "a part of masks of the library"
RANKS = "tm.dist has it for the part of this rank"
RUN = "of a run of the command line; tm.train.RunConfig has those of Python"
WITHOUT = {
    **dict.fromkeys(["Causality", "Coupling", "Diagonal", "DiffusionMethod", "Duplicates", "Estimator", "Generator"], CHOICES),
    **dict.fromkeys(["NeighbourKernel", "PartitionMethod", "Proposal", "Route", "Scaling", "SelfLoops", "SoftmaxMask"], CHOICES),
    **dict.fromkeys(["Factor", "Factors", "ForestStructure", "HopCache", "KeptLoads", "MaskCounts", "MaskTiles", "TileKind"], PART),
    **dict.fromkeys(["MaskedProductGradients", "SparseMatrix", "Workload"], PART),
    **dict.fromkeys(["HaloExchange", "HaloRows", "LocalRows", "ShardIndex", "TravelGround", "Travellers"], RANKS),
    **dict.fromkeys(["OptionField", "OptionLister", "RunConfig"], RUN),
    "ReadLimits": "max_nodes, max_edges and max_isolated of the readers",
}
METHODS = {  # by class, those that Python has in another form, and the form
    "DistanceFunction": {"rule": "of the library's own masks", "product": "f * g", "sum": "f + g"},
    "Forest": {"structure": "of the library's own masks"},
    "Graph": {"matrix": "Pattern and weights"},
    "GraphBatch": {"size": "len(batch)"},
    "Mask": {
        "counts": "`work`, for the planner",
        "device": "that of its parameters",
        "dtype": "that of its parameters",
        "factors": "of the library's own masks",
        "masked_product": "of the library's own masks",
        "masked_product_backward": "of the library's own masks",
        "masked_product_work": "of the library's own masks",
        "name": "LibraryMask.name; of others the class",
        "rebuild": "parameters are assigned",
        "sparse": "LibraryMask.sparse",
        "tiles": "of the library's own masks",
    },
    "NeighbourWalks": {"num_nodes": "nodes"},
    "SparsePattern": {
        "device": "that of its tensors",
        "known_product": "of the library's own masks",
        "product": "of the library's own masks",
        "tensors": "fields",
        "tiles": "of the library's own masks",
        "transposed": "of the library's own masks",
    },
}
RENAMED = {
    "HaloPlan": "dist.HaloPlan",
    "Partition": "dist.Partition",
    "PartitionStatistics": "dist.PartitionStatistics",
    "Shard": "dist.Shard",
    "SparsePattern": "Pattern",
}


def without_comments(text):
    return re.sub(r"//.*", "", text)


def functions(text):
    """Free functions: declarations that begin in the first column."""
    found = re.findall(r"^(?! |using|return|class|struct|enum|inline|template|namespace|#)[\w:<>,* &]+?[ &](\w+)\(", text, re.M)
    return set(found)


def enum_names(path, table):
    """The names of an enumeration in its EnumNames table, which C++ parses and prints with."""
    text = (ROOT / "src" / path).read_text()
    return tuple(re.findall(r'"(\w+)"', re.search(rf"\b{table}\{{(.*?)\}};", text, re.S)[1]))


def choices(options, name):
    """The strings that an option of a run in Python may have."""
    return options.__dataclass_fields__[name].metadata["choices"]


def members(text, name):
    """Static, const and virtual methods of a class that are public."""
    body = re.search(rf"^class {name}\b[^;{{]*\{{(.*?)^\}};", text, re.M | re.S)
    public = re.split(r" (?:private|protected):", body[1])[0]
    statics = re.findall(r"^  static [\w:<>&, ]+? (\w+)\(", public, re.M)
    consts = re.findall(r"^  (?!static|friend|using)[\w:<>&, ]*?[ &](\w+)\([^)]*\)\s*const", public, re.M)
    return set(statics) | set(consts)


def _get(owner, name):
    return getattr(owner, name, None)


class Names(Case):
    def setUp(self):
        self.every_text = "\n".join(
            without_comments(path.read_text()) for path in sorted((ROOT / "include" / "topomask").glob("*.h"))
        )
        self.text = "\n".join(without_comments(path.read_text()) for path in HEADERS)
        self.ranks = without_comments((ROOT / "include" / "topomask" / "dist.h").read_text())

    def test_every_function_is_there(self):
        names = functions(self.text) - functions(self.ranks)
        self.assertGreater(len(names), 60)
        self.assertEqual({name for name in names - ELSEWHERE if not callable(getattr(tm, name, None))}, set())

    def test_every_function_over_ranks_is_there(self):
        """What C++ does for one part, `tm.dist` does for the part of this rank."""
        renamed = {
            "given_partition": "Partition",
            "partition_statistics": "PartitionStatistics",
            "read_shard": "load_shard",
            "read_shard_index": "load_partition",
            "sample_walks_from": "sample_walks",
            "shard_of": "shard",
            "table_of_visits": "travelling_walks",
            "travel": "travelling_walks",
        }
        operators = {"halo_exchange", "start_halo_exchange", "sum_over_ranks"}
        names = functions(self.ranks)
        self.assertGreater(len(names), 10)
        self.assertEqual({name for name in operators if not hasattr(tm.ops, name)}, set())
        self.assertEqual(
            {name for name in names - operators if not callable(getattr(tm.dist, renamed.get(name, name), None))}, set()
        )

    def test_every_mask_has_a_module(self):
        makers = {name for name in functions(self.text) if name.endswith("_mask")}
        self.assertGreater(len(makers), 20)
        have = {name.lower() for name in dir(tm)}
        self.assertEqual({name for name in makers if name.replace("_", "") not in have}, set())

    def test_every_class_is_there(self):
        found = set(re.findall(r"^(?:class|struct|enum class) (\w+)", self.every_text, re.M))
        found = {name for name in found if not name.endswith("Options")}  # test_options.py
        self.assertGreater(len(found), 50)
        self.assertEqual(set(WITHOUT) - found, set(), "no such class")
        places = {name: RENAMED.get(name, name) for name in found - set(WITHOUT)}
        self.assertEqual({name for name, place in places.items() if not functools.reduce(_get, place.split("."), tm)}, set())

    def test_every_method_is_there(self):
        """Of every class that Python has: static methods, and those that change nothing."""
        instances = {"NeighbourWalks": tm.NeighbourWalks(tm.cloud_neighbours(torch.rand(1, 5, 2), 2), 2)}
        classes = set(re.findall(r"^class (\w+)[^;]*?\{", self.text, re.M)) - set(WITHOUT)
        self.assertGreaterEqual(classes, {"Graph", "GraphBatch", "Mask", "NeighbourWalks", "WalkTable", "FeatureMap"})
        self.assertEqual(set(METHODS) - classes, set(), "no such class")
        for name in classes:
            with self.subTest(name):
                have, found = instances.get(name, _get(tm, RENAMED.get(name, name))), members(self.text, name)
                elsewhere = METHODS.get(name, {})
                fields = getattr(have, "__dataclass_fields__", {})
                self.assertEqual(set(elsewhere) - found, set(), "no such method")
                self.assertEqual({m for m in found - set(elsewhere) if not hasattr(have, m) and m not in fields}, set())
        self.assertGreaterEqual(members(self.text, "Mask"), {"size", "matmul", "to", "frozen", "tiles", "masked_product"})

    def test_choices_of_a_run_have_the_names_of_the_enumerations(self):
        self.assertEqual(choices(config.ModelOptions, "sampler"), enum_names("walks/names.h", "kCouplingNames"))
        self.assertEqual(choices(config.RankOptions, "partition"), enum_names("dist/names.h", "kPartitionMethodNames"))
        self.assertEqual(SPLITS, enum_names("data/names.h", "kSplitNames"))
        features = set(enum_names("data/graphs/names.h", "kNodeFeatureNames"))
        self.assertLessEqual(set(choices(config.DataOptions, "features")), features)
        maps = set(enum_names("nn/names.h", "kFeatureNames")) | {"softmax"}
        self.assertLessEqual(set(choices(config.ModelOptions, "attention")), maps)

    def test_defaults_have_the_names_of_the_enumerations(self):
        self.assertIn(tm.WalkOptions().coupling, enum_names("walks/names.h", "kCouplingNames"))
        self.assertIn(tm.WalkOptions().proposal, enum_names("walks/names.h", "kProposalNames"))
        for table, argument in {"kGeneratorNames": "generator", "kDiffusionMethodNames": "method"}.items():
            default = inspect.signature(tm.diffusion_mask).parameters[argument].default
            self.assertIn(default, enum_names("masks/names.h", table))

    def test_every_choice_of_an_enumeration_is_taken(self):
        graph = tm.Graph.grid(3, 3)
        alpha, lambda_, points = torch.ones(3), torch.tensor(0.5), torch.rand(9, 2)
        q = torch.rand(9, 4)
        taken = {
            ("attention/names.h", "kSoftmaxMaskNames"): lambda name: tm.softmax_attention(q, q, q, tm.NoneMask(9), mode=name),
            ("graph/names.h", "kDuplicatesNames"): lambda name: tm.Graph.from_edge_index([[0], [1]], duplicates=name),
            ("graph/names.h", "kSelfLoopsNames"): lambda name: tm.Graph.from_edge_index([[0], [1]], self_loops=name),
            ("walks/names.h", "kCouplingNames"): lambda name: tm.sample_walks(graph, coupling=name),
            ("walks/names.h", "kProposalNames"): lambda name: tm.sample_walks(
                graph, proposal=name, proposal_weights=graph.weights if name == "given" else None
            ),
            ("masks/names.h", "kDiagonalNames"): lambda name: tm.grf_mask(
                tm.sample_walks(graph, group_products=name == "debiased"), alpha, diagonal=name
            ),
            ("masks/names.h", "kCausalityNames"): lambda name: tm.toeplitz_mask([3, 3], torch.ones(5, 5), causality=name),
            ("masks/names.h", "kGeneratorNames"): lambda name: tm.diffusion_mask(graph, lambda_, generator=name),
            ("masks/names.h", "kDiffusionMethodNames"): lambda name: tm.diffusion_mask(graph, lambda_, method=name),
            ("masks/names.h", "kNeighbourKernelNames"): lambda name: tm.random_fourier_factors(points, kernel=name),
        }
        for (path, table), call in taken.items():
            for name in enum_names(path, table):
                with self.subTest(table=table, name=name):
                    call(name)
            with self.subTest(table=table), self.assertRaisesRegex((ValueError, TypeError), "unheard_of"):
                call("unheard_of")
        masks = [tm.NoneMask(9), tm.PowerSeriesMask(graph, terms=2), tm.ToeplitzMask([3, 3])]  # no mask offers every route

        def taken_by(mask, route):
            try:
                tm.attention(q, q, q, mask, route=route)
            except ValueError as error:
                self.assertRegex(str(error), f"route must be one the mask offers, got {route}")
                return False
            return True

        for route in enum_names("attention/names.h", "kRouteNames"):
            with self.subTest(route=route):
                self.assertTrue(any([taken_by(mask, route) for mask in masks]))
        with self.assertRaisesRegex(ValueError, "unheard_of"):
            tm.attention(q, q, q, masks[0], route="unheard_of")

    def test_everything_public_has_a_docstring(self):
        self.assertEqual([name for name in tm.__all__ if name != "ops" and not (getattr(tm, name).__doc__ or "").strip()], [])


if __name__ == "__main__":
    unittest.main()
