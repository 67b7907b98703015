"""Episodes of a robot that moves things, as topomask-robot-data and the C++ class EpisodeWriter write them.

    episodes = topomask.episodes.EpisodeSet("build/robot")
    episode = episodes[0]
    episode.rgb  # uint8 [frames, cameras, height, width, 3]

docs/robot-data.md describes the format. Needs nothing but torch.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import torch

_HEADER = struct.Struct("<8sIIQQ")
_MAGIC = b"tmepisod"
_VERSION = 1
_LARGEST_DIRECTORY = 1 << 26
_LARGEST_DEFLATE_RATIO = 1032
_DTYPES = {"u1": torch.uint8, "u2": torch.uint16, "f4": torch.float32, "f8": torch.float64}


@dataclasses.dataclass
class Episode:
    """Row t of every tensor that has a row for each frame belongs to the same instant. T frames, C cameras, J joints, B objects."""

    kind: str
    seed: int
    interval: float  # seconds between frames
    names: list[str]  # of the objects
    rgb: torch.Tensor  # uint8 [T, C, H, W, 3]
    depth: torch.Tensor  # float32 [T, C, H, W], metres along the optical axis; 0: nothing
    ids: torch.Tensor  # uint8 [T, C, H, W]: 0 background, 1 table, 2 robot, 3 + b object b
    intrinsics: torch.Tensor  # float64 [C, 3, 3]
    poses: torch.Tensor  # float64 [C, 4, 4], world from camera; x right, y down, z forward
    joints: torch.Tensor  # float32 [T, J]
    actions: torch.Tensor  # float32 [T, J], joint targets
    action_points: torch.Tensor  # float32 [T, P, 3], points of arm and tool where `actions` put them
    bodies: torch.Tensor  # float64 [T, B, 7], position and quaternion (w, x, y, z)


def _unpack(entry: dict[str, Any], packed: bytes, where: str) -> torch.Tensor:
    """A tensor from its bytes: zlib, then byte planes, then differences between frames."""
    if zlib.crc32(packed) != entry["crc"]:
        raise ValueError(f"{where}: checksum mismatch: array {entry['name']}")
    dtype, shape = _DTYPES[entry["type"]], entry["shape"]
    width, count = dtype.itemsize, math.prod(shape)
    if count * width // _LARGEST_DEFLATE_RATIO > len(packed):
        raise ValueError(f"{where}: array {entry['name']} is larger than its packed bytes can hold")
    try:
        bytes_ = bytearray(zlib.decompress(packed))
    except zlib.error as error:
        raise ValueError(f"{where}: array {entry['name']} is damaged: {error}") from error
    if len(bytes_) != count * width:
        raise ValueError(f"{where}: array {entry['name']} has {len(bytes_)} bytes, its shape needs {count * width}")
    if count == 0:
        return torch.empty(shape, dtype=dtype, device="cpu")
    planes = torch.frombuffer(bytes_, dtype=torch.uint8).view(width, count)
    values = planes.t().contiguous().view(-1).view(dtype).view(shape)
    if entry["packing"] == "frames":
        bits = (1 << 8 * width) - 1
        values = (values.to(torch.int64).cumsum(0) & bits).to(dtype)
    return values


class EpisodeSet:
    """The episodes of a shard (*.episodes), or of all shards of a folder in the order of their names.

    `summaries[i]` is what is known of episode i without reading it: a dict with kind, seed, interval, names and arrays.
    `episodes[i]` is an Episode, read when it is asked for.

    Cost: O(number of episodes) to open, O(size of the episode) for each that is read. Gradient: none.
    """

    def __init__(self, path: str | os.PathLike[str]):
        where = os.fspath(path)
        files = [where]
        if os.path.isdir(where):
            files = sorted(os.path.join(where, name) for name in os.listdir(where) if name.endswith(".episodes"))
            if not files:
                raise FileNotFoundError(f"{where}: the folder has no file *.episodes")
        self.summaries: list[dict[str, Any]] = []
        self.dropped: dict[str, int] = {}
        self._places: list[tuple[str, int, float]] = []
        for file in files:
            self._open(file)

    def _open(self, file: str) -> None:
        size = os.path.getsize(file)
        with open(file, "rb") as stream:
            head = stream.read(_HEADER.size)
            if len(head) < _HEADER.size:
                raise ValueError(f"{file}: truncated: {size} bytes")
            magic, version, crc, directory_bytes, file_bytes = _HEADER.unpack(head)
            if magic != _MAGIC:
                raise ValueError(f"{file}: not a shard of episodes")
            if version != _VERSION:
                raise ValueError(f"{file}: version must be {_VERSION}, got {version}")
            if file_bytes != size:
                raise ValueError(f"{file}: truncated or damaged: header says {file_bytes} bytes, file has {size}")
            if directory_bytes > min(_LARGEST_DIRECTORY, size - _HEADER.size):
                raise ValueError(f"{file}: damaged: a directory of {directory_bytes} bytes")
            text = stream.read(directory_bytes)
        if zlib.crc32(text) != crc:
            raise ValueError(f"{file}: checksum mismatch: directory")
        directory = json.loads(text)
        at = _HEADER.size + directory_bytes
        for episode in directory["episodes"]:
            self.summaries.append(episode)
            self._places.append((file, at, directory["depth_unit"]))
            at += sum(array["bytes"] for array in episode["arrays"])
        if at != size:
            raise ValueError(f"{file}: the directory describes {at} bytes, file has {size}")
        for reason, count in directory["dropped"].items():
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    def __len__(self) -> int:
        return len(self.summaries)

    def __iter__(self) -> Iterator[Episode]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Episode:
        index = range(len(self))[index]  # negative ones too; IndexError beyond the end
        file, at, unit = self._places[index]
        summary = self.summaries[index]
        fields: dict[str, Any] = {key: summary[key] for key in ("kind", "seed", "interval", "names")}
        with open(file, "rb") as stream:
            stream.seek(at)
            for array in summary["arrays"]:
                fields[array["name"]] = _unpack(array, stream.read(array["bytes"]), file)
        fields["depth"] = (fields["depth"].to(torch.float64) * unit).to(torch.float32)
        return Episode(**fields)
