"""Feature maps φ of kernel attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from . import _errors, _ops
from ._structure import device_and_dtype

SCALINGS = ("none", "inverse_sqrt", "inverse_fourth_root")
_ROWS = 64  # of a block of a product
NAMES = ("identity", "relu", "elu", "exp", "squared_relu")


@dataclass(frozen=True, eq=False, repr=False)
class FeatureMap:
    """φ: R^{d_k} → R^m, applied to queries and keys before kernel attention. A value; differentiable in x. Use the static
    methods, or a name where attention takes features: "relu", "elu", "exp", "squared_relu", "identity".

    Cost: O(d_k) per row x [..., d_k] and as much memory; `favor` m·d_k multiply-adds. Gradient: in x, any number of times, and in omega
    where it requires grad.

    The layers of topomask hold the directions of FAVOR+ as a buffer, `directions.omega`, which moves with the layer and is
    in its state_dict; `topomask.nn.KeptFeatures` does so for a layer of your own.
    """

    name: str
    function: Callable[[Tensor], Tensor] | None = None
    scaling: str = "none"
    offset: float = 0.0
    omega: Tensor | None = None
    stabilised: bool = False
    drawn: tuple[int, int, bool] | None = None

    def __post_init__(self) -> None:
        if self.function is None and self.omega is None and self.name not in NAMES:
            raise ValueError(f"FeatureMap: name must be one of {', '.join(NAMES)}, got {self.name}")
        if self.function is not None and not callable(self.function):
            raise TypeError(f"FeatureMap.custom: function must be a function, got {_errors.shown(self.function)}")
        if self.omega is not None:
            _check_omega(self.omega)
        if not 0 <= self.offset < math.inf:
            raise ValueError(f"FeatureMap.relu: offset must be finite and >= 0, got {self.offset}")

    @staticmethod
    def identity() -> FeatureMap:
        """φ(x) = x."""
        return FeatureMap("identity")

    @staticmethod
    def relu(offset: float = 0.0) -> FeatureMap:
        """max(x, 0) + offset."""
        return FeatureMap("relu", offset=float(offset))

    @staticmethod
    def elu() -> FeatureMap:
        """ELU(x) + 1."""
        return FeatureMap("elu")

    @staticmethod
    def exp() -> FeatureMap:
        """exp(x)."""
        return FeatureMap("exp")

    @staticmethod
    def squared_relu() -> FeatureMap:
        """max(x, 0)²."""
        return FeatureMap("squared_relu")

    @staticmethod
    def favor(
        head_dim: int | None = None,
        features: int | None = None,
        *,
        omega: Tensor | None = None,
        seed: int = 0,
        orthogonal: bool = True,
        stabilised: bool = False,
    ) -> FeatureMap:
        """FAVOR+: φ(x) = exp(ωᵀx' − ‖x'‖²/2)/√m, x' = x/d_k^{1/4}, so that E[φ(q)·φ(k)] = exp(qᵀk/√d_k).

        Directions from a seed for heads of `head_dim` dimensions, or given: omega [m, d_k]. stabilised: the largest exponent is
        subtracted, per query row and per key matrix; it cancels in attention and keeps float32 from overflow.
        """
        if omega is not None:
            return FeatureMap("favor", omega=omega, stabilised=stabilised)
        if head_dim is None or features is None:
            raise ValueError("FeatureMap.favor: head_dim and features, or omega, must be given")
        drawn = favor_directions(features, head_dim, seed, orthogonal)
        return FeatureMap("favor", omega=drawn, stabilised=stabilised, drawn=(features, head_dim, orthogonal))

    @staticmethod
    def custom(name: str, function: Callable[[Tensor], Tensor]) -> FeatureMap:
        """A function of your own, [..., d_k] → [..., m]."""
        return FeatureMap(name, function=function)

    @property
    def relu_offset(self) -> float | None:
        """The offset where the map is max(x, 0) + offset and nothing else, which kernels may compute themselves; otherwise None."""
        return self.offset if self.name == "relu" and self.function is None and self.scaling == "none" else None

    def scaled(self, scaling: str) -> FeatureMap:
        """The map after a scaling of its input: "none", "inverse_sqrt" (x/√d_k) or "inverse_fourth_root" (x/d_k^{1/4})."""
        if scaling not in SCALINGS:
            raise ValueError(f"FeatureMap.scaled: scaling must be one of {', '.join(SCALINGS)}, got {scaling}")
        if self.omega is not None:
            raise ValueError("FeatureMap.scaled: favor carries its own scaling")
        return replace(self, scaling=scaling)

    def redrawn(self, seed: int) -> FeatureMap:
        """FAVOR+ with new directions from another seed."""
        if self.drawn is None:
            raise ValueError(f"FeatureMap.redrawn: the map must be favor with directions from a seed, got {self.name}")
        features, head_dim, orthogonal = self.drawn
        return replace(self, omega=favor_directions(features, head_dim, seed, orthogonal))

    def to(self, *args: Any, **kwargs: Any) -> FeatureMap:
        """The directions of FAVOR+ on another device or in another dtype, as Tensor.to; other maps as they are."""
        if self.omega is None:
            return self
        device, dtype = device_and_dtype(args, kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise ValueError(f"FeatureMap.to: dtype must be one of floating point, got {dtype}")
        return _with_omega(self, self.omega.to(device=device, dtype=dtype))

    def __call__(self, x: Tensor) -> Tensor:
        """[..., d_k] → [..., m], not stabilised."""
        return self._apply(x, None)

    def queries(self, q: Tensor) -> Tensor:
        """φ of queries, [..., N, d_k] → [..., N, m]; stabilised, the largest exponent of each row is subtracted."""
        return self._apply(q, (-1,) if self.stabilised else None)

    def keys(self, k: Tensor) -> Tensor:
        """φ of keys, [..., N, d_k] → [..., N, m]; stabilised, the largest exponent of each matrix is subtracted."""
        return self._apply(k, (-2, -1) if self.stabilised else None)

    def _apply(self, x: Tensor, over: tuple[int, ...] | None) -> Tensor:
        if self.omega is not None:
            return _favor(x, self.omega, over)
        if self.scaling != "none":
            x = x * x.shape[-1] ** (-0.5 if self.scaling == "inverse_sqrt" else -0.25)
        if self.function is not None:
            made = self.function(x)
            if not isinstance(made, Tensor):
                raise TypeError(f"FeatureMap.custom: function must return a tensor, got {_errors.shown(made)}")
            return made
        if self.name == "relu":
            return torch.relu(x) + self.offset if self.offset else torch.relu(x)
        if self.name == "elu":
            # Not torch's elu, which rounds the last elements of each thread's share in another way than the rest.
            return torch.relu(x) + x.clamp_max(0).exp()
        if self.name == "exp":
            return torch.exp(x)
        return torch.relu(x).square() if self.name == "squared_relu" else x

    def __repr__(self) -> str:
        inside = f"{list(self.omega.shape)}" if self.omega is not None else f"{self.offset}" if self.offset else ""
        return f"FeatureMap.{self.name}({inside})"


def _with_omega(features: FeatureMap, omega: Tensor) -> FeatureMap:
    """The map with directions that follow from checked ones, also of 16 bits."""
    if features.omega is omega:
        return features
    made = object.__new__(FeatureMap)
    made.__dict__.update({**features.__dict__, "omega": omega})
    return made


def _check_omega(omega: Any) -> None:
    """Refuses given directions of FAVOR+ that are not a finite matrix."""
    if not isinstance(omega, Tensor):
        raise TypeError(f"FeatureMap.favor: omega must be a tensor, got {_errors.shown(omega)}")
    if omega.dim() != 2 or omega.dtype not in (torch.float32, torch.float64) or 0 in omega.shape:
        got = f"{omega.dtype} {list(omega.shape)}"
        raise ValueError(f"FeatureMap.favor: omega must be torch.float32 or torch.float64 [m, d_k], m, d_k >= 1, got {got}")
    if omega.device.type == "cpu" and not torch.compiler.is_compiling():  # on a GPU that would wait, as in C++
        wrong = (~omega.isfinite()).nonzero()
        if len(wrong):
            row, column = wrong[0].tolist()
            raise ValueError(f"FeatureMap.favor: omega must be finite, got {omega[row, column].item()} at [{row}, {column}]")


def _times(x: Tensor, matrix: Tensor) -> Tensor:
    """x @ matrix, on the CPU bit-identical for any number of threads: torch divides one long product by their number, but not the
    products of a batch."""
    if not x.is_cpu or x.numel() == 0 or torch.compiler.is_compiling():
        return x @ matrix
    rows = x.reshape(-1, x.shape[-1])
    blocks = torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % _ROWS)).view(-1, _ROWS, x.shape[-1])
    made = torch.bmm(blocks, matrix.expand(len(blocks), -1, -1)).flatten(0, 1)
    return made[: len(rows)].view(*x.shape[:-1], matrix.shape[1])


def _favor(x: Tensor, omega: Tensor, over: tuple[int, ...] | None) -> Tensor:
    if x.shape[-1] != omega.shape[1]:
        raise ValueError(f"FeatureMap.favor: x must have {omega.shape[1]} dimensions, as omega has, got {x.shape[-1]}")
    scaled = x * x.shape[-1] ** -0.25
    exponent = _times(scaled, omega.to(device=x.device, dtype=x.dtype).T) - scaled.square().sum(-1, keepdim=True) / 2
    if over is not None:
        exponent = exponent - exponent.detach().amax(over, keepdim=True)
    return torch.exp(exponent) * float(omega.shape[0] ** -0.5)


def favor_directions(features: int, head_dim: int, seed: int = 0, orthogonal: bool = True) -> Tensor:
    """Gaussian directions, float64 [features, head_dim], orthogonal inside blocks of head_dim rows where asked.

    Cost: O(features·head_dim), where orthogonal O(features·head_dim²). Gradient: none.
    """
    directions: Tensor = _ops.static("Functions", "favor_directions", features, head_dim, _ops.signed(seed), orthogonal)
    return directions


class Directions(nn.Module):
    """The random directions of a FAVOR+ map as the buffer `omega` of a layer."""

    _version = 1

    omega: Tensor

    def __init__(self, features: FeatureMap) -> None:
        super().__init__()
        assert features.omega is not None
        self.register_buffer("omega", features.omega.detach().clone())  # a copy, since loading writes into it
        self._made = _with_omega(features, self.omega)

    def features(self) -> FeatureMap:
        """The map with the directions that the buffer holds now."""
        return _with_omega(self._made, self.omega)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Directions:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._made = self.features()
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
    ) -> None:
        """A state that was saved before directions were a buffer leaves those that the layer was made with."""
        name = f"{prefix}omega"
        if name not in state_dict and metadata.get("version") is None:
            return
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)
        self._made = self.features()

    def extra_repr(self) -> str:
        return str(list(self.omega.shape))


def has_directions(features: Any) -> TypeGuard[FeatureMap]:
    """Whether features are FAVOR+ with directions that a layer can hold. Those that require grad belong to whoever learns them."""
    return isinstance(features, FeatureMap) and features.omega is not None and not features.omega.requires_grad


class KeptFeatures(nn.Module):
    """A base of layers with an attribute `features`, which takes what attention takes. The random directions of FAVOR+ become
    a buffer of the layer, `directions.omega`: they move with the layer, and a layer that is loaded computes what the saved
    one did. A state_dict of before, without them, leaves the directions that the layer was made with. Directions that require
    grad stay the tensor that was given.

    Cost: the buffer, [m, d_k]. Gradient: none in the buffer; in directions that were given and require it.
    """

    @property
    def features(self) -> Any:
        if "features" in self._modules:
            return self._modules["features"]
        directions = self._modules.get("directions")
        if isinstance(directions, Directions):
            return directions.features()
        if "features" not in self.__dict__:
            raise AttributeError("features")  # which torch words for the layer
        return self.__dict__["features"]

    @features.setter
    def features(self, features: Any) -> None:
        if has_directions(features):
            before = self._modules.get("directions")
            self.directions = Directions(features if before is None else features.to(before.omega))
            self.__dict__.pop("features", None)
        else:
            self._modules.pop("directions", None)
            self.__dict__["features"] = features

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "features":  # a module becomes a submodule without the setter, and torch lets modules alone follow it
            self._modules.pop("features", None)
            if isinstance(value, nn.Module):
                self._modules.pop("directions", None)
        super().__setattr__(name, value)


_NAMED = {
    "identity": FeatureMap.identity(),
    "relu": FeatureMap.relu(),
    "elu": FeatureMap.elu(),
    "exp": FeatureMap.exp(),
    "squared_relu": FeatureMap.squared_relu(),
}


def feature_map(features: Any) -> FeatureMap:
    """What attention takes as features: a FeatureMap, a name, a function, or None for the identity."""
    if isinstance(features, FeatureMap):
        return features
    if isinstance(features, Directions):
        return features.features()
    if features is None:
        return _NAMED["identity"]
    if isinstance(features, str):
        if features not in _NAMED:
            raise ValueError(f"attention: features must be one of {', '.join(_NAMED)}, a FeatureMap or a function, got {features}")
        return _NAMED[features]
    if callable(features):
        return FeatureMap.custom(getattr(features, "__name__", "custom"), features)
    raise TypeError(f"attention: features must be a name, a FeatureMap, a function or None, got {type(features).__name__}")


_errors.explain_arguments(__name__)
