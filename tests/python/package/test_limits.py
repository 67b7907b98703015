"""What the package has twice, in C++ and in Python: rules of kernels and numbers of enumerations for torch.compile, which cannot ask
C++ while it traces, and the format of episodes, which the library of Python does not read."""

import ast
import itertools
import re
import unittest

import torch
from support import ROOT, Case, tm
from topomask import _forms, _layer_norm, block_rows, episodes

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
CUDA = torch.device("cuda")


def enumerators(path, name):
    """Those of an enumeration of C++, in their order."""
    text = re.sub(r"//.*", "", (ROOT / path).read_text())
    return tuple(re.findall(r"\w+", re.search(rf"enum class {name}[^{{]*\{{(.*?)\}};", text, re.S)[1]))


def constant(path, name):
    """The value of a whole number or a text that C++ has under that name."""
    text = re.search(rf"constexpr [^;]*?\b{name}(?:\[\])? = ([^;,]+)[;,]", (ROOT / path).read_text())[1]
    power = re.fullmatch(r"int64_t\{1\} << (\d+)", text)
    return 2 ** int(power[1]) if power else ast.literal_eval(text)


def asked(name, *arguments):
    return tm._ops.static("Functions", name, *arguments)


class Limits(Case):
    def test_fused_attention(self):
        most = _forms.MOST_FUSED_WIDTH
        widths = (0, 1, 63, 64, most, most + 1)
        for dtype, features, value_dim in itertools.product(DTYPES, widths, widths):
            for kind, weighting in itertools.product(range(len(_forms.TILES)), range(3)):
                with self.subTest(dtype=dtype, features=features, value_dim=value_dim):
                    want = asked("fused_attention_supports", dtype, features, value_dim, kind, weighting, CUDA)
                    self.assertEqual(_forms.fused_kernel(dtype, features, value_dim, "cuda"), want)
        self.assertTrue(_forms.fused_kernel(torch.float32, most, most, "cuda"))
        for dtype in DTYPES[:3]:  # the operator refuses float16 on the CPU, by name
            self.assertTrue(asked("fused_attention_supports", dtype, 300, 300, 0, 0, torch.device("cpu")))
            self.assertTrue(_forms.fused_kernel(dtype, 300, 300, "cpu"))

    def test_layer_norm(self):
        most = _layer_norm.WIDEST
        for width in (0, 1, 2, 3, 4, 5, 64, 66, most - 4, most, most + 4):
            for x, dtype in itertools.product(DTYPES, DTYPES):
                with self.subTest(width=width, x=x, dtype=dtype):
                    want = asked("layer_norm_rows_supports", width, x, dtype)
                    self.assertEqual(_layer_norm.has_kernel(width, x, dtype), want)
        self.assertTrue(_layer_norm.has_kernel(most, torch.float32, torch.float32))

    def test_blocks_of_rows(self):
        self.assertEqual(block_rows.UNIT, constant("src/core/simd.h", "kWidthUnit"))

    def test_files_of_episodes(self):
        shard = "src/data/episodes/shard.h"
        self.assertEqual((episodes._MAGIC.decode(), episodes._VERSION), (constant(shard, "kMagic"), constant(shard, "kVersion")))
        self.assertEqual(episodes._HEADER.size, constant(shard, "kHeaderBytes"))
        self.assertEqual(episodes._LARGEST_DIRECTORY, constant(shard, "kLargestDirectory"))
        self.assertEqual(episodes._LARGEST_DEFLATE_RATIO, constant("src/io/input_file.h", "kLargestDeflateRatio"))

    def test_numbers_of_enumerations(self):
        self.assertEqual(_forms.TILES, enumerators("include/topomask/tile_kind.h", "TileKind"))
        weightings = enumerators("src/ops/fused_attention/tile_mask.h", "Weighting")
        self.assertEqual(_forms._WEIGHTINGS, tuple("attention" if name == "kernel" else name for name in weightings))


if __name__ == "__main__":
    unittest.main()
