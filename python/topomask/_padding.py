"""Attention that hides padded tokens: those of a batch, in addition to the mask, which is the same for the whole batch."""

from __future__ import annotations

import torch
from torch import Tensor

from ._attention import Features, attention, softmax_attention
from .features import feature_map
from .mask import Mask

# One more entry of q and k, whose product is −2²² for a hidden key and 0 for every other. Both are exact in float16 and bfloat16.
_QUERY, _HIDDEN_KEY = 2.0**7, -(2.0**15)


def padded_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    hidden: Tensor,
    *,
    kind: str,
    features: Features = "relu",
    scale: float | None = None,
) -> Tensor:
    """Attention of each batch entry over its tokens that are not hidden, as if the others were not there: q, k, v [B, H, N, C],
    hidden bool [B or 1, N]; kind and features as in `attend`, scale that of softmax. Rows of hidden tokens are 0.

    What hidden tokens hold reaches no other token, neither forward nor backward: a hidden key has features φ(k) = 0, or the score
    −scale·2²², whose exponential is negligible compared with the others. A row of which all keys are hidden is 0.

    Cost: that of attention, for softmax with one more column of q and k, and copies of q, k and v.
    """
    rows = hidden[:, None, :, None]
    q, k, v = (x.masked_fill(rows, 0.0) for x in (q, k, v))
    if kind == "kernel":
        phi = feature_map(features)
        visible = (~hidden).to(torch.uint8).argmax(-1)[:, None, None, None].expand(len(q), q.shape[1], 1, k.shape[-1])
        # What features subtract, the largest exponent, is then of visible keys, and φ is as finite as of visible tokens.
        q, k = (torch.where(rows, x.gather(-2, visible), x) for x in (q, k))
        out = attention(phi.queries(q), phi.keys(k).masked_fill(rows, 0.0), v, mask, features=None)
    else:
        q = torch.cat([q, torch.full_like(q[..., :1], _QUERY)], -1)
        last = torch.zeros_like(k[..., :1]).masked_fill(rows, _HIDDEN_KEY)
        k = torch.cat([k, last], -1)
        scale = (q.shape[-1] - 1) ** -0.5 if scale is None else scale
        out = softmax_attention(q, k, v, mask, mode="additive" if kind == "additive" else "multiplicative", scale=scale)
    return out.masked_fill(rows, 0.0)
