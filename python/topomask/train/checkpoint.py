"""Checkpoints in the format of `topomask train`: a safetensors file with a length and a checksum, which docs/training.md
describes."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

_FRAME = '{"__metadata__":{"topomask":"checkpoint 2","bytes":"'
_DIGITS = 20
_TYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "U8": torch.uint8}


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """tensors: weights by their names, optimiser/first.NAME, optimiser/second.NAME, optimiser/steps, train/losses. Nothing in it
    depends on the number of ranks."""

    step: int
    seconds: float
    config: str
    tensors: Mapping[str, Tensor]


def write_whole(path: str, content: bytes) -> None:
    """The file as it was, or with this content and on the disk: never a part of it. An OSError names the file."""
    temporary = f"{path}.tmp.{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise OSError(error.errno, error.strerror, path) from error
    try:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise OSError(error.errno, f"written, but its folder cannot be flushed to the disk: {error.strerror}", path) from error


def save_checkpoint(path: str, checkpoint: Checkpoint) -> None:
    names = {dtype: name for name, dtype in _TYPES.items()}
    metadata = {"topomask": "checkpoint 2", "bytes": "0" * _DIGITS, "format": "pt", "step": str(checkpoint.step)}
    header: dict[str, object] = {"__metadata__": {**metadata, "seconds": repr(checkpoint.seconds), "config": checkpoint.config}}
    content, end = [], 0
    # Large elements first, so that every tensor is aligned.
    for name, tensor in sorted(checkpoint.tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        plain = tensor.detach().cpu().contiguous()
        size = plain.numel() * plain.element_size()
        header[name] = {"dtype": names[plain.dtype], "shape": list(plain.shape), "data_offsets": [end, end + size]}
        content.append(ctypes.string_at(plain.data_ptr(), size) if size else b"")
        end += size
    header["checksum"] = {"dtype": "U8", "shape": [4], "data_offsets": [end, end + 4]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digits = f"{8 + len(text) + end + 4:0{_DIGITS}}".encode()
    at = len(_FRAME)
    text = text[:at] + digits + text[at + _DIGITS :]
    whole = b"".join([struct.pack("<Q", len(text)), text, *content])
    write_whole(path, whole + struct.pack("<I", zlib.crc32(whole)))


def load_checkpoint(path: str) -> Checkpoint:
    """Refuses, with the name of the file, one that is truncated or damaged in any byte."""
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + len(_FRAME)
    if data[8:start] != _FRAME.encode()[: len(data) - 8] or len(data) < start + _DIGITS + 4:
        raise ValueError(f"load_checkpoint: {path}: not a topomask checkpoint 2, or truncated to {len(data)} bytes")
    promised = data[start : start + _DIGITS].decode(errors="replace")
    if promised != f"{len(data):0{_DIGITS}}":
        raise ValueError(f"load_checkpoint: {path}: truncated or damaged: header says {promised} bytes, file has {len(data)}")
    if struct.unpack("<I", data[-4:])[0] != zlib.crc32(memoryview(data)[:-4]):
        raise ValueError(f"load_checkpoint: {path}: checksum mismatch")
    try:
        return _parsed(data)
    except (ValueError, RuntimeError) as error:  # of torch, for a shape that has no strides
        raise ValueError(f"load_checkpoint: {path}: malformed: {error}") from error


def _parsed(data: bytes) -> Checkpoint:
    """The content of a file whose length and checksum are right. Its header may still be anything: a ValueError says what is wrong."""
    (length,) = struct.unpack_from("<Q", data)
    room = len(data) - 8 - 4
    if length > room:
        raise ValueError(f"the header must have at most {room} bytes, got {length}")
    try:
        header = json.loads(data[8 : 8 + length])
    except RecursionError as error:
        raise ValueError("the header is nested too deeply") from error
    metadata = header.pop("__metadata__", None) if isinstance(header, dict) else None
    if not isinstance(metadata, dict):
        raise ValueError("the header must be a JSON object with __metadata__")
    for name in ("step", "seconds", "config"):
        if not isinstance(metadata.get(name), str):
            raise ValueError(f"__metadata__ {name} must be a string, got {metadata.get(name)!r}")
    body = memoryview(data)[8 + length :]
    tensors = {name: _tensor(name, entry, body) for name, entry in header.items() if name != "checksum"}
    return Checkpoint(int(metadata["step"]), float(metadata["seconds"]), metadata["config"], tensors)


def _tensor(name: str, entry: object, body: memoryview) -> Tensor:
    """The tensor that an entry of the header describes, among the bytes after the header."""
    if not isinstance(entry, dict):
        raise ValueError(f"tensor {name} must be a JSON object, got {entry!r}")
    kind = entry.get("dtype")
    dtype = _TYPES.get(kind) if isinstance(kind, str) else None
    if dtype is None:
        raise ValueError(f"tensor {name}: dtype must be one of {', '.join(_TYPES)}, got {kind!r}")
    shape, place = (_numbers(f"tensor {name}: {key}", entry.get(key)) for key in ("shape", "data_offsets"))
    if len(place) != 2 or not place[0] <= place[1] <= len(body):
        raise ValueError(f"tensor {name}: data_offsets must be two, rising, within {len(body)} bytes, got {place}")
    if dtype.itemsize * math.prod(shape) != place[1] - place[0]:
        raise ValueError(f"tensor {name}: shape {shape} and data_offsets {place} disagree")
    raw = bytearray(body[place[0] : place[1]])
    return torch.frombuffer(raw, dtype=dtype).view(shape) if raw else torch.empty(shape, dtype=dtype)


def _numbers(what: str, given: object) -> list[int]:
    if not isinstance(given, list) or not all(type(number) is int and 0 <= number < 2**62 for number in given):
        raise ValueError(f"{what} must be a list of integers >= 0, got {given!r}")
    return given
