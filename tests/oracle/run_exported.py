"""Run an exported network in the reference's own model and count what it gets wrong. Used by test_export.py.

run_exported.py NETWORK ANSWER [NODES:GRAPHS[:I,J,...] ...]

NETWORK is as `mechgap export --to clrs` writes it; ANSWER is JSON. Graphs I, J, ... are run, too, but not counted:
those with choices that are closer than the network can tell apart.

The model is the unmodified package. Only a network with edge information gets one more layer, see `GATv2WithInfo`.
Nothing of mechgap is imported: the file is all there is.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import reference  # before anything that imports numpy

# isort: split
import clrs
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from clrs._src import baselines, decoders, processors, samplers, specs

SEED = 2718
SIZES = ("4:128", "16:128", "64:16")
ORIGINAL = processors.GATv2


def main(network: str, answer: str, *sizes: str) -> None:
    header, tree = read(network)
    patched = GATv2WithInfo if header["extra_layers"] else ORIGINAL
    with mock.patch.object(processors, "GATv2", patched):
        counts = [count(header, tree, *asked(size)) for size in sizes or SIZES]
    result = {"package": reference.PACKAGE, "extra_layers": header["extra_layers"], "counts": counts}
    Path(answer).write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def asked(size: str) -> tuple[int, int, list[int]]:
    nodes, graphs, *uncounted = size.split(":")
    return int(nodes), int(graphs), [int(i) for i in ",".join(uncounted).split(",") if i]


def read(path: str) -> tuple[dict, dict]:
    """The header, and the parameters as the reference keeps them."""
    tree: dict = {}
    with np.load(path) as file:
        for name in file.files:
            if name != "header":
                module, parameter = name.split("|")
                tree.setdefault(module, {})[parameter] = file[name]
        return json.loads(str(file["header"])), tree


class GATv2WithInfo(ORIGINAL):
    """The reference's processor with one more layer: the attended edges' features join the sum inside the ReLU.

    Its activation function gets that sum, so the layer is added there; the coefficients are made again from what the
    heads said.
    """

    def __call__(self, node_fts, edge_fts, graph_fts, adj_mat, hidden, **others):
        heads: list = []

        def listen(method: Callable, args: tuple, kwargs: dict, context: hk.MethodContext) -> object:
            result = method(*args, **kwargs)
            called = context.method_name == "__call__" and isinstance(context.module, hk.Linear)
            if called and context.module.output_size == 1:
                heads.append(result[..., 0])
            return result

        def activation(total: jax.Array) -> jax.Array:
            alpha = jax.nn.softmax(jnp.stack(heads, axis=1) + (adj_mat[:, None] - 1.0) * 1e9, axis=-1)
            info = hk.Linear(self.out_size, with_bias=False, name="info")(edge_fts)
            info = info.reshape(*info.shape[:-1], self.nb_heads, self.head_size)
            return jax.nn.relu(total + jnp.einsum("bhij,bijhf->bihf", alpha, info).reshape(total.shape))

        self.activation = activation
        with hk.intercept_methods(listen):
            return super().__call__(node_fts, edge_fts, graph_fts, adj_mat, hidden, **others)


def count(header: dict, tree: dict, nodes: int, graphs: int, uncounted: list[int]) -> dict:
    """Predictions on the benchmark's own samples against the truth: [wrong, all] decisions, largest scalar errors."""
    name = header["algorithm"]
    feedback = reference.sampler(name, num_samples=graphs, length=nodes, seed=SEED + nodes).next()
    spec, processed = samplers.process_permutations(specs.SPECS[name], iter([feedback]), enforce_permutations=True)
    feedback = next(processed)  # as the reference's training script has it
    assert header["spec"] == {k: list(words) for k, words in spec.items()}, "the file is for other variables"
    model = build(header["reference"], spec, feedback)
    model.init(feedback.features, 0)
    assert shapes(model.params) == shapes(tree), "the names or the shapes are not the model's"
    model.params = tree
    outputs, steps = model.predict(jax.random.PRNGKey(0), feedback.features, return_hints=True)
    steps = [hard(spec, step) for step in steps]
    truth, lengths = reference.flat(feedback), feedback.features.lengths
    counted = ~np.isin(np.arange(graphs), uncounted)
    runs = (np.arange(1, len(steps) + 1)[:, None] < lengths) & counted  # [T-1, B]: the frames that each execution has
    pairs = {f"output/{k}": (np.asarray(x.data)[counted], truth[f"output/{k}"][counted]) for k, x in outputs.items()}
    for k in steps[0]:
        shown = np.stack([step[k] for step in steps])
        pairs[f"hint/{k}"] = (shown[runs], truth[f"hint/{k}"][1:][runs])
    return {
        "nodes": nodes,
        "graphs": int(np.sum(counted)),
        "frames": int(np.sum(runs)),
        "wrong": {k: [int(np.sum(a != b)), b.size] for k, (a, b) in pairs.items() if not is_scalar(spec, k)},
        "error": {k: float(np.max(np.abs(a - b), initial=0)) for k, (a, b) in pairs.items() if is_scalar(spec, k)},
    }


def build(settings: dict, spec: specs.Spec, feedback: samplers.Feedback) -> baselines.BaselineModel:
    """The reference's model of those settings."""
    factory = clrs.get_processor_factory(**settings["processor"])
    return baselines.BaselineModel(
        spec=[spec], dummy_trajectory=[feedback], processor_factory=factory, **settings["model"]
    )


def shapes(tree: dict) -> dict:
    return {f"{module} {k}": (np.shape(x), str(x.dtype)) for module, xs in tree.items() for k, x in xs.items()}


def hard(spec: specs.Spec, step: dict) -> dict[str, np.ndarray]:
    """One step's hints as decisions, made by the reference."""
    points = decoders.postprocess(spec, step, sinkhorn_temperature=0.1, sinkhorn_steps=50, hard=True)
    return {k: np.asarray(point.data) for k, point in points.items()}


def is_scalar(spec: specs.Spec, key: str) -> bool:
    return spec[key.split("/")[1]][2] == specs.Type.SCALAR


if __name__ == "__main__":
    main(*sys.argv[1:])
