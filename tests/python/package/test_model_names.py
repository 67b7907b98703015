"""Every public name of the headers of models, data, tasks and training is in Python, or a table here says what takes its place.

These headers are of the library topomask_models, which the command line loads and Python does not: it needs libjpeg, libpng and a
C++ trainer, and Python has packages for what it does.
"""

import functools
import re
import unittest

from support import ROOT, Case, tm
from test_names import functions, without_comments

FOLDERS = ("data", "nn", "tasks", "train")

IN_PYTHON = {
    "AttentionVariant": "nn.MaskedAttention",
    "Episode": "episodes.Episode",
    "EpisodeSet": "episodes.EpisodeSet",
    "KernelAttention": "nn.MaskedAttention",
    "MultiheadAttention": "nn.MaskedAttention",
    "SoftmaxAttention": "nn.MaskedAttention",
    "TransformerBlock": "nn.Block",
    "TransformerConv": "pyg.TransformerConv",
    "ViT": "nn.ViT",
}
"""Of the same kind and under another name or in a module; `EpisodeSet` gives its summaries as dicts."""

LEFT_OUT = {
    "the command line trains; tm.train trains over ranks": """Checkpoint load_checkpoint save_checkpoint weights load_weights
        LoadedTask load_task LoadedModel load_model TrainMetrics EvalMetrics MovingAverage Optimiser learning_rate TrainHooks
        TrainResult train WeightCopies Task ScoreCurve Evaluation TaskRegistration make_task evaluate complete_config ParameterKind
        parameter_kind""",
    "torch.utils.data has data sets and loaders": """ImageBatch DatasetInfo ImageDataset Split to_string open_dataset subset
        memory_dataset Loader TrainBatch augment_options without_mixing prepare VideoBatch VideoInfo VideoDataset open_videos
        moving_clips prepare_clips""",
    "torchvision.io and Pillow read and write images; matplotlib has colour maps": """read_image resize_image write_png encode_png
        colour_map panels encode_animation write_animation""",
    "docs/python-graphs.md names the packages that read such data": """LoadedGraphs open_graphs GraphSet GraphSample GraphSplit take""",
    "episodes are written by topomask-robot-data and the C++ class": """EpisodeSummary EpisodeWriter check_episode""",
    "a few tensor operations on the fields of tm.episodes.Episode": """unproject moved_objects moved_pixels""",
    "layers take masks in place of names of variants": """MaskSource GivenMask FrozenMasks VariantSetting VariantRegistration
        make_variant variant_names GraphMaskSetting GraphMask FunctionGraphMask GraphMaskRegistration make_graph_mask graph_mask_names
        has_mask_function         WalkPool preset_names""",
    "torch_geometric.nn has the layers and pools": """GraphEdges GCNConv SGConv ChebConv SAGEConv GINConv GATConv GKATConv sum_pool
        mean_pool max_pool AttentionPool""",
    "models of the command line alone": """GraphStructure GraphModel GraphModelRegistration make_graph_model graph_model_names
        block_linear_attention LocalStructure LocalLayer LocalLayerRegistration make_local_layer local_layer_names PointCloud Rays
        Cameras subsample_keys subsample feature_of_colour colour_of_feature PixelEncoder InterlacerBlock Interlacer PointRenderer
        PointModel GridEncoder ViViT""",
    "views that the reports of the command line draw": """GraphView view_graph RolloutView view_rollout ClipView view_clip""",
    "torchmetrics has the scores of images": """ssim psnr""",
}


def public_names():
    """Free functions, classes, structs and enumerations of these headers; options are in test_options.py."""
    found = set()
    for path in sorted(path for folder in FOLDERS for path in (ROOT / "include" / "topomask" / folder).glob("*.h")):
        text = without_comments(path.read_text())
        found |= functions(text) - {"visit"}
        found |= set(re.findall(r"^(?:class|struct|enum class) (\w+)", text, re.M))
    return {name for name in found if not name.endswith("Options")}


class ModelNames(Case):
    def test_every_name_is_known(self):
        left_out = [name for names in LEFT_OUT.values() for name in names.split()]
        self.assertEqual(len(left_out), len(set(left_out)))
        self.assertEqual(set(left_out) & set(IN_PYTHON), set())
        self.assertEqual(public_names(), set(left_out) | set(IN_PYTHON))

    def test_what_python_has_is_there(self):
        for name, place in IN_PYTHON.items():
            with self.subTest(name=name):
                self.assertTrue(callable(functools.reduce(getattr, place.split("."), tm)))


if __name__ == "__main__":
    unittest.main()
