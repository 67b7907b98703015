"""The configuration of a run: the JSON of `topomask train`, with the keys that mean the same here, and those of ranks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from .nearest import nearest_key

T = TypeVar("T")


def option(
    default: T,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    former: tuple[tuple[str, str], ...] = (),
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> T:
    """A field with its explanation and the values it may have, least and most among them, above and below not; `former`: names of
    choices that files may still have, with those of today."""
    rule = {"help": help, "choices": choices, "former": dict(former), "least": least, "most": most, "above": above, "below": below}
    made: T = field(default=default, metadata=rule)
    return made


@dataclass
class DataOptions:
    kind: str = option(
        "graph", "one file that read_graph reads, or shards, of which a rank loads its own alone", choices=("graph", "shards")
    )
    path: str = option("", "the file, or the folder of write_shards or shard_edge_list")
    labels: str = option("regions", "of nodes: the region of the nearest of some seed nodes, in hops", choices=("regions",))
    regions: int = option(16, "seed nodes, drawn by seed; nodes that none of them reaches have no label", least=1, most=65536)
    features: str = option(
        "one_hot_degree", "of nodes, before the labels that are given", choices=("degree", "one_hot_degree", "constant")
    )
    degree_limit: int = option(8, "largest degree of one_hot_degree; larger ones share the last column", least=1, most=65536)
    given_labels: float = option(
        0.1, "fraction of the nodes whose label is an input feature; no part of the split contains them", least=0, most=1
    )
    split_seed: int = option(0, "draws the split and the nodes of given_labels", least=0)
    validation_fraction: float = option(0.1, "fraction of the other nodes held out for validation", least=0, most=1)
    test_fraction: float = option(0.1, "fraction of the other nodes held out for testing", least=0, most=1)
    seed: int = option(0, "draws the seed nodes of the regions", least=0)


@dataclass
class ModelOptions:
    kind: str = option("transformer", "pre-norm blocks of attention under the mask and a perceptron", choices=("transformer",))
    layers: int = option(2, "transformer blocks", least=1)
    width: int = option(64, "features of a node; a multiple of heads", least=1)
    heads: int = option(4, "attention heads", least=1)
    mlp_ratio: float = option(2.0, "hidden features of the perceptron, in widths", least=0)
    dropout: float = option(0.0, "after attention and in the perceptron; the same for any number of ranks", least=0, below=1)
    attention: str = option(
        "relu",
        "softmax, or the feature map of kernel attention",
        choices=("relu", "elu", "softmax"),
        former=(("elu1", "elu"),),
    )
    feature_offset: float = option(1e-3, "added to relu features, so that no row of attention is zero", least=0)
    mask: str = option("grf", "random features, a power series, or the neighbours", choices=("grf", "series", "neighbours"))
    learn_mask: bool = option(True, "learn the mask's function, one for each layer and head")
    walkers: int = option(4, "random walks from each node (grf)", least=1)
    hops: int = option(8, "longest walk, highest power of the series", least=0)
    halting_probability: float = option(0.5, "a walk of grf halts before each hop with this probability", above=0, below=1)
    sampler: str = option("independent", "walkers", choices=("independent", "antithetic", "repelling", "antithetic_repelling"))
    per_layer_walks: bool = option(False, "every layer has walks of its own; otherwise all share one set")
    edge_scale: float = option(1.0, "s of the edge weights s/sqrt(d_i d_j)", least=0)
    decay: float = option(0.5, "functions of hops start at exp(-decay k)")


@dataclass
class TrainOptions:
    seed: int = option(0, "of the first weights and the walks", least=0)
    device: str = option("cpu", "cpu, or cuda: the GPU of the local rank", choices=("cpu", "cuda"))
    precision: str = option("float32", "of everything that is computed", choices=("float32", "float64"))
    epochs: int = option(30, "passes over the training data, which one step is", least=0)
    steps: int = option(0, "steps of the optimiser; 0: as many as the epochs take", least=0)
    optimiser: str = option("adamw", "adamw, or adam (weight decay as part of the gradient)", choices=("adamw", "adam"))
    learning_rate: float = option(1e-3, "after warm-up", least=0, most=1e30)
    final_learning_rate: float = option(1e-5, "at the last step", least=0, most=1e30)
    warmup_steps: int = option(0, "the learning rate rises linearly for this many steps", least=0)
    constant_steps: int = option(0, "then it stays constant for this many, and falls as a cosine to the last step", least=0)
    mask_learning_rate: float = option(1.0, "multiplies the learning rate of a mask's parameters", least=0)
    beta1: float = option(0.9, "decay of the optimiser's first moment", least=0, below=1)
    beta2: float = option(0.999, "decay of the optimiser's second moment", least=0, below=1)
    epsilon: float = option(1e-8, "keeps the optimiser from dividing by zero", least=1e-30)
    weight_decay: float = option(0.05, "of matrices; not of biases, norms or masks", least=0)
    clip_norm: float = option(1.0, "gradients longer than this are shortened to it; 0: never", least=0)
    label_smoothing: float = option(0.1, "part of a label that is spread over all classes", least=0, most=1)
    chunk: int = option(8192, "rows that linear layers and perceptrons compute at once, and again backward; 0: all", least=0)
    log_every: int = option(50, "steps between lines of metrics; 0: only at the end", least=0)
    evaluate_every: int = option(0, "steps between evaluations; 0: only at the end", least=0)
    select: str = option(
        "last",
        "the weights to judge at the end: last, or best (highest accuracy on validation data)",
        choices=("last", "best"),
    )
    checkpoint_every: int = option(500, "steps between checkpoints; 0: only at the end", least=0)


@dataclass
class RankOptions:
    partition: str = option("automatic", "which rank owns which nodes", choices=("automatic", "metis", "cuthill_mckee", "ranges"))
    data: int = option(1, "replicas of the graph, which share the training nodes of a step; they divide the ranks", least=1)
    timeout: float = option(
        600.0, "seconds after which the others stop waiting for a rank that does not come to a collective call", least=1
    )


@dataclass
class RunConfig:
    """A run: name, task, and the options of data, model, training and ranks. Its fields are the keys of a configuration file,
    dotted (`train.steps`), with their defaults."""

    name: str = option("run", "what the run is called in tables")
    task: str = option("graphs", "classification of nodes", choices=("graphs",))
    data: DataOptions = field(default_factory=DataOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    train: TrainOptions = field(default_factory=TrainOptions)
    ranks: RankOptions = field(default_factory=RankOptions)

    def set(self, key: str, value: Any, origin: str = "train: ") -> None:
        """One key, dotted, from a value of JSON; refused by its name where it is unknown or out of its range."""
        known = dict(_places(self))
        if key not in known:
            nearest = nearest_key(key, list(known))
            raise ValueError(f"{origin}unknown key '{key}'" + (f"; did you mean '{nearest}'?" if nearest else ""))
        owner, place = known[key]
        setattr(owner, place.name, _checked(f"{origin}{key}", getattr(owner, place.name), value, place.metadata))

    def override(self, key: str, text: str) -> None:
        """Sets one key from a string, as a command line has it."""
        known = dict(_places(self))
        value: Any = text
        if key in known and not isinstance(getattr(known[key][0], known[key][1].name), str):
            try:
                value = json.loads(text)
            except json.JSONDecodeError:
                pass
        self.set(key, value)

    def values(self) -> dict[str, Any]:
        """Every key, dotted, and its value."""
        return {key: getattr(owner, place.name) for key, (owner, place) in _places(self)}

    def check(self, origin: str = "train: ") -> None:
        """What depends on several keys."""
        model, data = self.model, self.data
        if model.width % model.heads:
            raise ValueError(f"{origin}model.width must be a multiple of model.heads = {model.heads}, got {model.width}")
        if data.validation_fraction + data.test_fraction >= 1:
            held = data.validation_fraction + data.test_fraction
            raise ValueError(f"{origin}data.test_fraction must leave something to train on, got {held:g} with validation_fraction")
        if not data.path:
            raise ValueError(f"{origin}data.path must name a file or a folder of shards, got none")

    def json(self) -> str:
        made: dict[str, Any] = {}
        for key, value in self.values().items():
            section, _, name = key.rpartition(".")
            (made.setdefault(section, {}) if section else made)[name] = value
        return json.dumps(made, indent=2)


def _places(owner: Any, prefix: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    for place in fields(owner):
        value = getattr(owner, place.name)
        if is_dataclass(value):
            yield from _places(value, f"{prefix}{place.name}.")
        else:
            yield prefix + place.name, (owner, place)


_TYPES = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}


def _checked(key: str, old: Any, value: Any, rule: Any) -> Any:
    kind = type(old)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float and number:
        value = float(value)
    elif kind is int and number and math.isfinite(value) and value == int(value):
        value = int(value)
    elif type(value) is not kind:
        raise ValueError(f"{key} must be {_TYPES[kind]}, got {json.dumps(value)}")
    if kind is str:
        value = rule["former"].get(value, value)
    if rule["choices"] and value not in rule["choices"]:
        raise ValueError(f"{key} must be one of {', '.join(rule['choices'])}, got {value}")
    if number and not math.isfinite(value):
        raise ValueError(f"{key} must be finite, got {json.dumps(value)}")
    if number and not rule["least"] <= value <= rule["most"]:
        bound = f"at least {rule['least']:g}" if value < rule["least"] else f"at most {rule['most']:g}"
        raise ValueError(f"{key} must be {bound}, got {value}")
    if number and not rule["above"] < value < rule["below"]:
        bound = f"above {rule['above']:g}" if value <= rule["above"] else f"below {rule['below']:g}"
        raise ValueError(f"{key} must be {bound}, got {value}")
    return value


_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def parse_config(text: str, origin: str = "train: ") -> RunConfig:
    """Parses JSON, in which comments are allowed; keys that it does not name keep their defaults."""
    try:
        given = json.loads(_COMMENT.sub(lambda found: found[1] or " ", text))
    except json.JSONDecodeError as error:
        raise ValueError(f"{origin}not JSON: {error}") from None
    config = RunConfig()
    sections = {place.name for place in fields(config) if is_dataclass(getattr(config, place.name))}

    def read(given: Any, prefix: str) -> None:
        if not isinstance(given, dict):
            raise ValueError(f"{origin}{prefix[:-1] or 'a configuration'} must be an object in braces, got {json.dumps(given)}")
        for name, value in given.items():
            if not prefix and name in sections:
                read(value, f"{name}.")
            elif isinstance(value, dict):
                nearest = nearest_key(prefix + name, sorted(sections))
                raise ValueError(f"{origin}unknown key '{prefix}{name}'" + (f"; did you mean '{nearest}'?" if nearest else ""))
            else:
                config.set(prefix + name, value, origin)

    read(given, "")
    return config


def read_config(path: str) -> RunConfig:
    """`parse_config` of the content of a file, whose name begins the errors."""
    with open(path, encoding="utf-8") as file:
        return parse_config(file.read(), f"train: {path}: ")
