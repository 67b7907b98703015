"""Checkpoints as Python reads them: by the standard library and torch alone, and by the safetensors package where it is installed.

TOPOMASK_TOOL names the command line tool.
"""

import json
import math
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest
import zlib

import torch

TOOL = os.environ.get("TOPOMASK_TOOL", "")
SETTINGS = """--data.image_size 16 --data.synthetic_train 32 --data.synthetic_test 16 --model.width 8 --model.depth 1 --model.heads 2
--model.hops 4 --model.walkers 4 --train.steps 3 --train.batch_size 8 --train.ema_decay 0.5""".split()
DTYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "U8": torch.uint8}


def parse(data):
    """Header and tensors of a safetensors file, by its specification: offsets without holes, to the end of the file."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    start, end, tensors = 8 + length, 0, {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end_of_this = entry["data_offsets"]
        assert begin == end, name
        end = end_of_this
        dtype = DTYPES[entry["dtype"]]
        assert end - begin == dtype.itemsize * math.prod(entry["shape"]), name
        raw = bytearray(data[start + begin : start + end])
        tensors[name] = torch.frombuffer(raw, dtype=dtype).view(entry["shape"]) if raw else torch.empty(entry["shape"], dtype=dtype)
    assert start + end == len(data)
    return metadata, tensors


@unittest.skipUnless(TOOL, "needs TOPOMASK_TOOL, the path of the command line tool")
class Checkpoint(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.run_dir = pathlib.Path(cls.folder.name) / "run"
        subprocess.run([TOOL, "train", "--quiet", "--out", cls.run_dir, *SETTINGS], check=True, stdout=subprocess.DEVNULL)
        cls.path = cls.run_dir / "checkpoint.safetensors"
        cls.data = cls.path.read_bytes()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_standard_library_reads_it(self):
        metadata, tensors = parse(self.data)
        self.assertEqual(metadata["step"], "3")
        self.assertEqual(int(metadata["bytes"]), len(self.data))
        self.assertEqual(json.loads(metadata["config"]), json.loads((self.run_dir / "config.json").read_text()))
        self.assertEqual(int(struct.unpack("<I", self.data[-4:])[0]), zlib.crc32(self.data[:-4]))
        self.assertEqual(bytes(tensors["checksum"].tolist()), self.data[-4:])
        weights = {name: t for name, t in tensors.items() if "/" not in name and name != "checksum"}
        self.assertEqual(tuple(weights["head.weight"].shape), (4, 8))
        self.assertEqual(tensors["optimiser/steps"].item(), 3)
        for name, weight in weights.items():
            self.assertTrue(weight.isfinite().all(), name)
            for other in ("average/", "optimiser/first.", "optimiser/second."):
                self.assertEqual(tensors[other + name].shape, weight.shape)
        self.assertTrue(any(t.abs().sum() > 0 for t in weights.values()))

    def test_weights_written_by_python_are_what_the_tool_uses(self):
        """With a head of zeros and a bias for class 2 every image is of class 2: accuracy there 1, elsewhere 0."""
        (length,) = struct.unpack_from("<Q", self.data)
        header, data = json.loads(self.data[8 : 8 + length]), bytearray(self.data)
        for name, values in {"average/head.weight": [0.0] * 32, "average/head.bias": [0.0, 0.0, 1.0, 0.0]}.items():
            begin, end = header[name]["data_offsets"]
            data[8 + length + begin : 8 + length + end] = struct.pack(f"<{len(values)}f", *values)
        data[-4:] = struct.pack("<I", zlib.crc32(bytes(data[:-4])))
        changed = pathlib.Path(self.folder.name) / "changed.safetensors"
        changed.write_bytes(data)
        shown = subprocess.run([TOOL, "eval", changed, "--per-class", "--json"], check=True, capture_output=True)
        self.assertEqual([c["accuracy"] for c in json.loads(shown.stdout)["classes"]], [0, 0, 1, 0])

    def test_the_safetensors_package_reads_it(self):
        try:
            from safetensors import safe_open
            from safetensors.torch import load_file
        except ImportError:
            self.skipTest("safetensors is not installed")
        metadata, tensors = parse(self.data)
        loaded = load_file(self.path)
        self.assertEqual(loaded.keys(), tensors.keys())
        for name, tensor in tensors.items():
            self.assertTrue(torch.equal(loaded[name], tensor), name)
        with safe_open(self.path, framework="pt") as file:
            self.assertEqual(file.metadata(), metadata)


if __name__ == "__main__":
    unittest.main()
