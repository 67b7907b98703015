"""Checkpoints that do not depend on the ranks: parameters that belong to the rows of a rank, of all rows together."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .layout import Layout, entries_of, offsets_of
from .mask import DistributedMask


def gather_entries(layout: Layout, offsets: Tensor, values: Tensor) -> Tensor:
    """Values [..., entries of this rank's rows] of every rank as [..., entries], in the order of the rows of the whole graph, on every
    rank. offsets int64 [n + 1]: of the rows of this rank. A collective call; no gradient."""
    group = layout.group
    rows = values.detach().movedim(-1, 0).contiguous()
    counts = [count for (count,) in group.all_gather([rows.shape[0]])]
    sent = rows.repeat((group.size,) + (1,) * (rows.dim() - 1))
    parts = group.all_to_all(sent, [rows.shape[0]] * group.size, counts, max(counts)).wait()
    order = torch.argsort(layout.partition.owners, stable=True)  # rows as they come, rank by rank
    place = entries_of(_whole_offsets(layout, offsets), order).to(values.device)
    whole = parts.new_empty(parts.shape)
    whole[place] = parts
    return whole.movedim(0, -1)


def own_entries(layout: Layout, offsets: Tensor, whole: Tensor) -> Tensor:
    """Back: those of this rank's rows among values [..., entries] of the whole graph. A collective call."""
    place = entries_of(_whole_offsets(layout, offsets), layout.nodes)
    return whole.index_select(-1, place.to(whole.device))


def _whole_offsets(layout: Layout, offsets: Tensor) -> Tensor:
    return offsets_of(layout.gather(offsets.diff().unsqueeze(1)).squeeze(1))


def _in_rows(module: nn.Module) -> dict[str, tuple[DistributedMask, str]]:
    """The parameters of a module, by their names in its state_dict, that belong to the rows of a rank. A mask that several layers
    share has a name in each."""
    found: dict[str, tuple[DistributedMask, str]] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        if isinstance(part, DistributedMask):
            names = (name for name in part.row_parameters if name in part._parameters)
            found |= {f"{prefix}.{name}" if prefix else name: (part, name) for name in names}
    return found


def gather_state(module: nn.Module) -> dict[str, Tensor]:
    """The state_dict of a module with the masks of this rank, in which values of rows (`sparse_mask`, `free_features_mask`) are those
    of all rows, in the order of the whole graph: the same on every rank, and for any number of ranks. A collective call."""
    state = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    for name, (mask, own) in _in_rows(module).items():
        state[name] = mask.gathered(own, state[name])
    return state


def load_state(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Loads what `gather_state` gave on any number of ranks: each takes the values of its own rows. A collective call."""
    own = dict(state)
    for name, (mask, local) in _in_rows(module).items():
        if name in own:
            own[name] = mask.scattered(local, own[name])
    module.load_state_dict(own)
