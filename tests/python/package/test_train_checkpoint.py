"""Checkpoint files whose length and checksum are right and whose header is not that of a checkpoint: an error names the file."""

import json
import os
import pathlib
import struct
import tempfile
import unittest
import zlib

import torch
from support import Case, tm  # noqa: F401  (finds the package)
from topomask.train import checkpoint

METADATA = {"step": "7", "seconds": "1.5", "config": "{}"}


def entry(dtype="F32", shape=(2, 1), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def sealed(metadata, tensors, data=b"\0" * 8, *, header=None, length=None):
    """A file with this header and data, whose length and checksum are right."""
    frame = '{"__metadata__":{"topomask":"checkpoint 2","bytes":"'
    rest = "".join(f",{json.dumps(name)}:{json.dumps(value)}" for name, value in metadata.items())
    text = f'{frame}{"0" * 20}"{rest}}}' + "".join(f",{json.dumps(n)}:{json.dumps(e)}" for n, e in tensors.items()) + "}"
    text = text if header is None else frame + "0" * 20 + header
    size = 8 + len(text.encode()) + len(data) + 4
    text = text[: len(frame)] + f"{size:020}" + text[len(frame) + 20 :]
    whole = struct.pack("<Q", len(text.encode()) if length is None else length) + text.encode() + data
    return whole + struct.pack("<I", zlib.crc32(whole))


class Forged(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "c.safetensors")

    def load(self, content):
        pathlib.Path(self.path).write_bytes(content)
        return checkpoint.load_checkpoint(self.path)

    def test_a_right_header_is_taken(self):
        data = struct.pack("<2f", 1.0, 2.0)
        found = self.load(sealed(METADATA, {"a": entry(), "none": entry("I64", (0, 3), (8, 8))}, data))
        self.assertEqual((found.step, found.seconds, found.config), (7, 1.5, "{}"))
        self.assertTrue(torch.equal(found.tensors["a"], torch.tensor([[1.0], [2.0]])))
        self.assertEqual((found.tensors["none"].shape, found.tensors["none"].dtype), ((0, 3), torch.int64))

    def test_a_wrong_one_is_refused_with_the_name_of_the_file(self):
        wrong = {
            "at most": sealed(METADATA, {"a": entry()}, length=2**40),
            "": sealed(METADATA, {"a": entry()}, length=30),  # cuts the JSON
            "Expecting": sealed(METADATA, {}, header='"},]'),
            "nested too deeply": sealed(METADATA, {}, header='"},"a":' + "[" * 200000 + "]" * 200000 + "}"),
            "codec": sealed(METADATA, {"a": entry()}, data=b"\xff" * 200, length=300),
            "step must be a string, got None": sealed({"seconds": "1", "config": "{}"}, {"a": entry()}),
            "config must be a string, got 3": sealed({**METADATA, "config": 3}, {"a": entry()}),
            "invalid literal": sealed({**METADATA, "step": "many"}, {"a": entry()}),
            "could not convert": sealed({**METADATA, "seconds": "long"}, {"a": entry()}),
            "tensor a must be a JSON object, got 3": sealed(METADATA, {"a": 3}),
            "dtype must be one of F64, F32, I64, U8, got 'F8'": sealed(METADATA, {"a": entry("F8")}),
            r"dtype must be one of F64, F32, I64, U8, got \['F32'\]": sealed(METADATA, {"a": {**entry(), "dtype": ["F32"]}}),
            "dtype must be one of F64, F32, I64, U8, got None": sealed(METADATA, {"a": {}}),
            "shape must be a list": sealed(METADATA, {"a": {**entry(), "shape": 2}}),
            "shape must be a list of integers >= 0": sealed(METADATA, {"a": entry(shape=(-2, -1))}),
            "data_offsets must be a list": sealed(METADATA, {"a": {**entry(), "data_offsets": None}}),
            "data_offsets must be a list of integers": sealed(METADATA, {"a": entry(offsets=(-8, 0))}),
            "data_offsets must be two": sealed(METADATA, {"a": entry(offsets=(0, 8, 16))}),
            "data_offsets must be two, rising, within 12": sealed(METADATA, {"a": entry(offsets=(800, 808))}),
            "disagree": sealed(METADATA, {"a": entry(shape=(2**40, 2**40))}),
            "shape .* and data_offsets": sealed(METADATA, {"a": entry(offsets=(0, 4))}),
        }
        for text, content in wrong.items():
            with self.subTest(text=text):
                self.refuses(ValueError, f"^load_checkpoint: {self.path}: malformed: .*{text}", self.load, content)


if __name__ == "__main__":
    unittest.main()
