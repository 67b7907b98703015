"""Training over ranks: the same steps, to rounding, on any number of them."""

from __future__ import annotations

import math
import zlib

import torch
import torch.distributed as c10d
from torch import Tensor, nn

from .. import dist
from ..dropout import seed_dropout
from .best import SCORE, BestWeights
from .checkpoint import Checkpoint
from .config import RunConfig, TrainOptions
from .data import NodeData
from .model import is_of_mask, make_masks, make_model
from .source import open_source


def learning_rate(options: TrainOptions, step: int, steps: int) -> float:
    """The rate at step 0 … steps − 1: a linear rise for warmup_steps, constant_steps at learning_rate, half a cosine to the last step."""
    if step < options.warmup_steps:
        return options.learning_rate * (step + 1) / options.warmup_steps
    falls_from = options.warmup_steps + options.constant_steps
    if step < falls_from:
        return options.learning_rate
    place = min(1.0, (step - falls_from + 1) / max(steps - falls_from, 1))
    drop = options.learning_rate - options.final_learning_rate
    return options.final_learning_rate + drop * 0.5 * (1 + math.cos(math.pi * place))


def make_optimiser(model: nn.Module, options: TrainOptions) -> torch.optim.Optimizer:
    """Three groups: matrices, which decay, other parameters, and those of masks."""
    groups: list[list[Tensor]] = [[], [], []]
    for name, parameter in model.named_parameters():
        groups[2 if is_of_mask(name) else int(parameter.dim() != 2)].append(parameter)
    made = [
        {"params": found, "weight_decay": options.weight_decay if place == 0 else 0.0, "rate": rate}
        for place, (found, rate) in enumerate(zip(groups, (1.0, 1.0, options.mask_learning_rate)))
        if found
    ]
    kind = torch.optim.AdamW if options.optimiser == "adamw" else torch.optim.Adam
    return kind(made, lr=options.learning_rate, betas=(options.beta1, options.beta2), eps=options.epsilon)


class Diverged(FloatingPointError):
    """A loss, gradients or weights that are not finite, after or in step `step`."""

    def __init__(self, what: str, step: int) -> None:
        super().__init__(
            f"train: {what} at step {step}: the run has diverged. A lower train.learning_rate, more train.warmup_steps or a "
            "train.clip_norm may help"
        )


class Trainer:
    """The model, its data and the optimiser on this rank. Making one, and every method, is a collective call.

    ranks.data replicas of the graph divide the ranks: each holds the whole graph over its own ranks, and counts its share of the
    nodes of a split. Gradients and losses are summed over all ranks.
    """

    def __init__(self, config: RunConfig, world: dist.Group) -> None:
        self.config, self.world = config, world
        agree_on_config(config, world)
        if config.train.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("train: train.device must be cpu where there is no GPU, got cuda")
        replicas, size = config.ranks.data, world.size
        if size % replicas:
            raise ValueError(f"train: ranks.data must divide the {size} ranks, got {replicas}")
        group, share = world, 0
        if replicas > 1:
            kind = config.train.device
            mesh = c10d.device_mesh.init_device_mesh(kind, (replicas, size // replicas), mesh_dim_names=("data", "graph"))
            group, share = dist.Group(mesh.get_group("graph")), mesh.get_local_rank("data")
        dtype = getattr(torch, config.train.precision)
        source = open_source(config, world, group)
        self.layout = source.layout
        device = torch.device("cuda", torch.cuda.current_device()) if config.train.device == "cuda" else torch.device("cpu")
        self.data = NodeData.of(source, config.data, dtype, share, replicas).to(device)
        masks = make_masks(source, config.model, dtype, config.train.seed)
        self.model = make_model(config, self.data.features.shape[1], self.data.classes, masks).to(device)
        self.nodes = self.layout.nodes.to(device)
        self.optimiser = make_optimiser(self.model, config.train)
        self.best = BestWeights(self.model) if config.train.select == "best" else None
        if self.best is not None and self.data.rows["validation"].total == 0:
            raise ValueError("train: select = best needs validation data, got a configuration that holds none out")
        self.steps = config.train.steps or config.train.epochs
        self.step = 0

    def _loss(self, split: str, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """Σ of the losses of the nodes that this rank counts, over the number on all ranks; and the logits."""
        rows = self.data.rows[split]
        logits = self.model(self.data.features, rows.places, self.nodes if self.config.model.dropout else None)
        total = nn.functional.cross_entropy(logits, rows.labels, reduction="sum", label_smoothing=smoothing)
        return total / max(rows.total, 1), logits

    def advance(self) -> float:
        """One step; the loss before it. Where it or the gradients are not finite, no weight changes."""
        options = self.config.train
        self.model.train()
        seed_dropout(self.model, options.seed, self.step)
        loss, _ = self._loss("train", options.label_smoothing)
        loss.backward()
        parameters = list(self.model.parameters())
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        # The loss travels with the gradients.
        flat = self.world.all_reduce(torch.cat([loss.detach().view(1), *(g.reshape(-1) for g in gradients)]))
        # The same on every rank, so that all stop where one would.
        value, norm = float(flat[0]), float(torch.linalg.vector_norm(flat[1:]))
        for name, number in (("loss", value), ("norm of the gradients", norm)):
            if not math.isfinite(number):
                raise Diverged(f"the {name} is {number}", self.step + 1)
        for parameter, part in zip(parameters, flat[1:].split([g.numel() for g in gradients])):
            parameter.grad = part.view(parameter.shape)
        if options.clip_norm > 0:
            nn.utils.clip_grad_norm_(parameters, options.clip_norm)
        rate = learning_rate(options, self.step, self.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["rate"]
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.step += 1
        return value

    def evaluate(self, split: str) -> dict[str, float]:
        """loss and accuracy. Where train.select is best, weights that are better on validation data than those before are kept."""
        found = self._evaluated(split)
        if self.best is not None and split == "validation":
            self.best.offer(found)
        return found

    def evaluate_at_end(self, split: str) -> dict[str, float]:
        """The same for the weights that a run is judged by."""
        if self.best is None:
            return self._evaluated(split)
        with self.best.in_place():
            return self._evaluated(split)

    @torch.no_grad()
    def _evaluated(self, split: str) -> dict[str, float]:
        self.model.eval()
        loss, logits = self._loss(split)
        rows = self.data.rows[split]
        right = (logits.argmax(-1) == rows.labels).sum().to(loss.dtype)
        loss, right = self.world.all_reduce(torch.stack([loss, right])).unbind()
        return {"loss": float(loss), "accuracy": float(right) / max(rows.total, 1)}

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: the same on every rank, whatever their number."""
        made = {name: parameter.detach() for name, parameter in self.model.named_parameters()}
        moments = {"first": "exp_avg", "second": "exp_avg_sq"}
        for name, parameter in self.model.named_parameters():
            own = self.optimiser.state[parameter]
            if not own:  # torch makes them in the first step
                own["step"] = torch.zeros(())
                own.update({moment: torch.zeros_like(parameter) for moment in moments.values()})
            made |= {f"optimiser/{label}.{name}": own[moment] for label, moment in moments.items()}
        made["optimiser/steps"] = torch.tensor(float(self.step))
        return made if self.best is None else {**made, **self.best.state()}

    def check_finite(self) -> None:
        """Refuses a state that could not be trained further."""
        for name, tensor in self.state().items():
            if not bool(tensor.isfinite().all()):
                raise Diverged(f"{name} is not finite", self.step)

    def restore(self, checkpoint: Checkpoint | None) -> None:
        """Restores the checkpoint of the first rank, which alone has read it; the other ranks receive its state."""
        known = checkpoint is not None
        given = checkpoint.tensors if checkpoint is not None else {}
        numbers = [0 if checkpoint is None else checkpoint.step, int(SCORE in given)]
        self.step, has_best = self.world.broadcast(torch.tensor(numbers, device=self.world.device)).tolist()
        if self.step == 0:
            return
        if self.best is not None and has_best:
            self.best.copy()

        def checked() -> None:
            for name, tensor in self.state().items():
                if known and (name not in given or given[name].shape != tensor.shape):
                    got = list(given[name].shape) if name in given else "none"
                    raise ValueError(f"the checkpoint must have {name} {list(tensor.shape)}, got {got}")

        self.world.together("train", checked)
        for name, tensor in self.state().items():
            source = given[name].to(tensor) if known else torch.empty_like(tensor)
            sent = source.reshape(-1).to(self.world.device).contiguous()
            tensor.copy_(self.world.broadcast(sent).view(tensor.shape))
        for own in self.optimiser.state.values():
            own["step"] = torch.tensor(float(self.step))


def agree_on_config(config: RunConfig, world: dist.Group) -> None:
    """Refuses ranks of another version of the library, or that were started with other settings, but for where they find the data and
    what they call it."""
    dist.layout.agree_on_version("train", world)
    for key, value in config.values().items():
        if key not in ("name", "data.path"):
            number = value if isinstance(value, int) else zlib.crc32(repr(value).encode())
            world.agree("train", **{key: number})
