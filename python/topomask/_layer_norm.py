"""LayerNorm in front of linear layers, over rows as narrow as those of a graph transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from . import _ops

_LOW = (torch.bfloat16, torch.float16)
WIDEST = int(_ops.static("Functions", "most_norm_width"))  # of the rows that the kernel takes
UNIT = int(_ops.static("Functions", "norm_width_unit"))  # of which their widths are multiples


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """LayerNorm over the last dimension of x, for a linear layer that follows. Narrow rows on a GPU go through an operator whose
    result has, under autocast, the dtype that autocast would convert it to; elsewhere it is torch's."""
    kind = x.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
    if supports(x, weight, bias, dtype) and not _ops.is_transformed():
        return _ops.layer_norm_rows(x, weight, bias, eps, dtype)
    return nn.functional.layer_norm(x, weight.shape, weight, bias, eps)


def supports(x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> bool:
    """Whether the operator has a kernel on the GPU, as in C++."""
    width = x.shape[-1]
    affine = weight.dtype == bias.dtype and weight.dtype in (x.dtype, torch.float32) and weight.device == bias.device == x.device
    return x.is_cuda and affine and weight.shape == (width,) and has_kernel(width, x.dtype, dtype)


def has_kernel(width: int, x: torch.dtype, dtype: torch.dtype) -> bool:
    """Whether there is one for rows of x. C++ has the same rule, which torch.compile cannot ask while it traces."""
    types = dtype == torch.float32 or dtype in _LOW if x == torch.float32 else dtype == x and dtype in _LOW
    return types and 0 < width <= WIDEST and width % UNIT == 0


class NormBeforeLinear(nn.LayerNorm):
    """nn.LayerNorm whose result a linear layer takes."""

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.weight, self.bias, self.eps)
