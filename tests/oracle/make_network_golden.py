"""Write tests/golden/network_*.npz from the real package's network. Run it in the oracle environment.

Each file holds one network: its parameters (random everywhere, biases too), a batch, and what the reference makes of
them: the logits of outputs and hints and GATv2's attention coefficients in float32 (the package as it is); the same in
float64, with attention logits, hidden states, the training loss and its gradients. The header says how the network was
made and lists the variables. With names on the command line, only files whose names contain one of them are written.

The network runs eagerly, without a compiler: values can then be read off where they are made.
"""

import argparse
import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import reference  # before anything that imports numpy

# isort: split
import clrs
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from clrs._src import baselines, decoders, encoders, probing, processors, samplers, specs

NODES, BATCH, HIDDEN, SEED = 5, 3, 8, 4711
LONGER = {"lcs_length": 8}  # two strings share the nodes, and five leave it a single step
SPREAD = 0.1  # of the noise on every parameter: no bias is zero, and rounding does not grow from step to step
HINT_MODES = {"encoded_decoded": (True, True), "decoded_only": (False, True), "none": (False, False)}
DEFAULT = {
    "hidden": HIDDEN,
    "heads": 1,
    "message_passing_steps": 1,
    "use_layer_norm": True,
    "full_adjacency": False,
    "hint_mode": "encoded_decoded",
    "hint_repred": "soft",
}
GRID = [
    (name, {"hint_mode": mode, "use_layer_norm": norm})
    for name, mode, norm in itertools.product(("bfs", "dfs", "bellman_ford"), HINT_MODES, (True, False))
]
SINGLE = [
    ("bfs", {"full_adjacency": True}),
    ("bfs", {"hint_repred": "hard"}),
    ("bfs", {"message_passing_steps": 2}),
    ("bellman_ford", {"heads": 2}),
    ("dfs", {"heads": 2, "hint_repred": "hard"}),
    # Between them these have every kind of variable at every location.
    ("floyd_warshall", {}),
    ("graham_scan", {}),
    ("insertion_sort", {}),
    ("lcs_length", {"hint_repred": "hard"}),
    ("segments_intersect", {}),
    *(
        (name, {"processor": kind})
        for kind in ("gat", "mpnn", "pgn")
        for name in ("bfs", "floyd_warshall", "graham_scan")
    ),
    *(("bfs", {"processor": kind, "hint_repred": "hard"}) for kind in ("gat", "mpnn", "pgn", "triplet_gmpnn")),
    ("bfs", {"processor": "mpnn", "use_layer_norm": False, "hint_mode": "decoded_only"}),
    ("bfs", {"processor": "triplet_gmpnn"}),
    ("bfs", {"processor": "triplet_gmpnn", "use_layer_norm": False, "hint_mode": "decoded_only"}),
    ("bfs", {"processor": "gat", "full_adjacency": True, "heads": 2, "use_layer_norm": False}),
    ("bfs", {"processor": "pgn", "use_layer_norm": False, "hint_mode": "none"}),
    ("bfs", {"processor": "triplet_gmpnn", "triplet_features": 3, "message_passing_steps": 2}),
    *(
        (name, {"processor": "triplet_gmpnn"})
        for name in ("floyd_warshall", "insertion_sort", "lcs_length", "segments_intersect")
    ),
]

log_sinkhorn = decoders.log_sinkhorn

Arrays = dict[str, np.ndarray]


def main() -> None:
    """Write every file into the folder given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1] / "golden")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the names of the files to write")
    given = parser.parse_args()
    folder = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, changes in GRID + SINGLE:
        path = folder / f"network_{name}_{'_'.join(_word(k, v) for k, v in changes.items()) or 'default'}.npz"
        if not any(part in path.name for part in given.only):
            continue
        header, arrays = make(name, DEFAULT | changes)
        np.savez_compressed(path, header=np.array(json.dumps(header, sort_keys=True)), **arrays)
        print(path.name, path.stat().st_size, flush=True)


def _word(key: str, value: object) -> str:
    if key in ("hint_mode", "hint_repred", "processor"):
        return str(value)
    return ("norm" if value else "plain") if key == "use_layer_norm" else f"{key}_{value}".removesuffix("_True")


def make(name: str, config: dict) -> tuple[dict, Arrays]:
    """One network's header and arrays."""
    spec, feedback = batch(name)
    model = build(spec, feedback, config)
    model.init(feedback.features, SEED)
    rng = np.random.RandomState(SEED)
    parameters = jax.tree.map(lambda x: (x + SPREAD * rng.randn(*x.shape)).astype(np.float32), model.params)
    arrays = reference.flat(feedback)
    arrays |= {f"parameter/{module} {k}": x for module, xs in parameters.items() for k, x in xs.items()}
    narrow = predict(model, parameters, feedback)
    arrays |= {f"float32/{k}": x for k, x in narrow.items() if k not in ("hidden", "logits")}
    with float64():
        wide = jax.tree.map(lambda x: x.astype(np.float64), parameters)
        arrays |= {f"float64/{k}": x for k, x in predict(model, wide, feedback).items()}
        arrays |= {f"float64/{k}": x for k, x in gradients(model, wide, feedback).items()}
    header = {"package": reference.PACKAGE, "algorithm": name, "config": config, "spec": variables(spec, feedback)}
    return header, arrays


def batch(name: str) -> tuple[specs.Spec, samplers.Feedback]:
    """A batch of the reference's own sampler; sorts point by permutations, as in its training script."""
    sampler, spec = samplers.build_sampler(name, num_samples=BATCH, length=LONGER.get(name, NODES), seed=SEED)
    feedback = sampler.next()
    spec, batches = samplers.process_permutations(spec, iter([feedback]), enforce_permutations=True)
    return spec, next(batches)


def build(spec: specs.Spec, feedback: samplers.Feedback, config: dict) -> baselines.BaselineModel:
    """The reference model of that configuration."""
    encode, decode = HINT_MODES[config["hint_mode"]]
    factory = clrs.get_processor_factory(
        config.get("processor", "gatv2") + ("_full" if config["full_adjacency"] else ""),
        use_ln=config["use_layer_norm"],
        nb_triplet_fts=config.get("triplet_features", 8),
        nb_heads=config["heads"],
    )
    return baselines.BaselineModel(
        spec=[spec],
        dummy_trajectory=[feedback],
        processor_factory=factory,
        hidden_dim=config["hidden"],
        encode_hints=encode,
        decode_hints=decode,
        hint_repred_mode=config["hint_repred"],
        nb_msg_passing_steps=config["message_passing_steps"],
        encoder_init="xavier_on_scalars",
        use_lstm=False,
        dropout_prob=0.0,
        hint_teacher_forcing=0.0,
    )


def predict(model: baselines.BaselineModel, parameters: dict, feedback: samplers.Feedback) -> Arrays:
    """Logits, attention and hidden states, evaluated without true hints after frame 0."""
    key, recorder = jax.random.PRNGKey(0), Recorder()
    with jax.disable_jit(), hk.intercept_methods(recorder):
        outputs, hints = model.net_fn.apply(
            parameters, key, [feedback.features], True, algorithm_index=0, return_hints=True, return_all_outputs=False
        )
    arrays = {f"output/{k}": x for k, x in outputs.items()}
    arrays |= {f"hint/{k}": np.stack([step[k] for step in hints]) for k in (hints[0] if hints else ())}
    arrays |= recorder.arrays(model.nb_msg_passing_steps)
    return {k: np.asarray(x) for k, x in arrays.items()}


class Recorder:
    """Reads the hidden state after every call of the processor, and GATv2's attention: its heads, where they look."""

    def __init__(self) -> None:
        self.heads: list = []
        self.calls: list[tuple] = []
        self.last: object = None

    def __call__(self, method: Callable, args: tuple, kwargs: dict, context: hk.MethodContext) -> object:
        module, called = context.module, context.method_name == "__call__"
        result = method(*args, **kwargs)
        if called and isinstance(module, hk.Linear) and "clrs_processor" in module.module_name:
            if result.shape[-1] == 1:
                self.heads.append(result[..., 0])
        elif called and isinstance(module, processors.GATv2) and self.heads:
            # The full processor calls its base class with an adjacency of ones: the inner call comes first and is it.
            adjacency, logits = args[3], jnp.stack(self.heads, axis=1)
            coefficients = jax.nn.softmax(logits + (adjacency[:, None] - 1.0) * 1e9, axis=-1)
            self.calls.append((result[0], logits, coefficients))
            self.heads = []
        elif called and isinstance(module, processors.Processor) and not isinstance(module, processors.GATv2):
            if result is not self.last:  # else it is the same call, seen again from a class around its base
                self.calls.append((result[0],))
            self.last = result
        return result

    def arrays(self, per_step: int) -> Arrays:
        """Steps in front, then the k processor calls of each step, then the batch."""
        named = zip(("hidden", "logits", "coefficients"), zip(*self.calls, strict=True), strict=False)
        stacked = {name: np.stack(xs) for name, xs in named}
        return {name: x.reshape(-1, per_step, *x.shape[1:]) for name, x in stacked.items()}


def gradients(model: baselines.BaselineModel, parameters: dict, feedback: samplers.Feedback) -> Arrays:
    """The training loss and its gradients, without the noise that permutations draw there."""
    with jax.disable_jit(), mock.patch.object(decoders, "log_sinkhorn", without_noise):
        loss, grads = jax.value_and_grad(model._loss)(parameters, jax.random.PRNGKey(0), feedback, 0)
    named = {f"gradient/{module} {k}": np.asarray(x) for module, xs in grads.items() for k, x in xs.items()}
    return {"loss": np.asarray(loss), **named}


def without_noise(*args: object, noise_rng_key: object, **kwargs: object) -> object:
    """The reference's operator as it is when testing."""
    return log_sinkhorn(*args, noise_rng_key=None, **kwargs)


@contextlib.contextmanager
def float64() -> Iterator[None]:
    """Everything in float64. The reference casts what it encodes to float32, fed-back hints too; not in here."""
    as_it_is = encoders.preprocess

    def preprocess(point: probing.DataPoint, nodes: int) -> probing.DataPoint:
        cast = as_it_is(point, nodes)
        if point.type_ == specs.Type.POINTER:
            return cast
        return probing.DataPoint(cast.name, cast.location, cast.type_, jnp.asarray(point.data, jnp.float64))

    with jax.enable_x64(True), mock.patch.object(encoders, "preprocess", preprocess):
        yield


def variables(spec: specs.Spec, feedback: samplers.Feedback) -> list[dict]:
    """The spec in words; the number of classes is read off the data."""
    features = feedback.features
    shapes = {x.name: np.shape(x.data) for x in (*features.inputs, *features.hints, *feedback.outputs)}
    return [
        {
            "name": name,
            "stage": stage,
            "location": location,
            "kind": kind,
            "classes": shapes[name][-1] if kind == specs.Type.CATEGORICAL else None,
        }
        for name, (stage, location, kind) in spec.items()
    ]


if __name__ == "__main__":
    main()
