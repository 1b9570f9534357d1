"""ClrsNet: encode, process, decode, once per step of an algorithm. Compiled and trained networks are this class."""

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mechgap.networks.config import NetConfig
from mechgap.networks.decoders import Decoders, Readable, decode, fold_decoder, make_decoder
from mechgap.networks.device import CPU, present_platform
from mechgap.networks.encoders import Encoders, Features, adjacency, collect, encoder_of, expand, make_encoder
from mechgap.networks.gat import GAT
from mechgap.networks.gatv2 import GATv2
from mechgap.networks.message_passing import MessagePassing, largest
from mechgap.networks.padding import ABSENT
from mechgap.networks.postprocessing import feedback
from mechgap.networks.processor import Processor
from mechgap.trace import Location, Spec, Stage, Variable

UNROLLED = 16  # steps up to which an accelerator trains on straight-line code: a third faster, as nothing is stacked
Number = Any  # a Python number or a 0-d array, which may be traced
STATES = "states"
Record = bool | str | tuple[tuple[int, int], ...]  # all activations, none, `STATES`, or some (micro-step, head)


class Activations(NamedTuple):
    """What happened inside, for every hint step and each of its k message-passing steps.

    A processor without attention has hidden states only.
    """

    hidden: Float[Array, "steps k n s"]
    logits: Float[Array, "steps k heads n n"] | None  # before the adjacency mask
    coefficients: Float[Array, "steps k heads n n"] | None  # α


class States(NamedTuple):
    """What a network thinks after every hint step, for those who consult it."""

    nodes: Float[Array, "steps n s"]
    edges: Float[Array, "steps n n s"]  # Triplet-GMPNN's messages; of other processors the encoded edge features


class Replacement(NamedTuple):
    """Attention that is put in place of a network's own, at chosen rows of chosen hint steps."""

    coefficients: Float[Array, "steps k heads n n"]
    where: Bool[Array, "steps k heads n"]


class Prediction(NamedTuple):
    """Raw results: logits, from which `postprocess` makes values."""

    hints: dict[str, Array]  # name -> [T-1, ...]: entry t is the prediction of frame t + 1
    outputs: dict[str, Array]  # name -> [...], read at the execution's own last step
    activations: Activations | None
    states: States | None = None


class _Round(NamedTuple):
    """A hint step: the hints it was fed, the hidden state before and after it, and that of edges where there is one."""

    fed: dict[str, Array]
    before: Float[Array, "n s"]
    after: Float[Array, "n s"]
    edge: Float[Array, "n n s"] | None


class ClrsNet(eqx.Module):
    """A network over the variables of a `Spec`, step by step as in the reference.

    At every step the inputs and the hints (given at first, then its own predictions) are encoded, the processor runs k
    times, and the next hints are decoded from [node features | hidden before | hidden after]. The hidden state starts
    at 0. There is no batch axis: map over it; a set of seeds is a map over keys.
    """

    encoders: Encoders
    processor: Processor
    decoders: Decoders
    spec: Spec = eqx.field(static=True)
    config: NetConfig = eqx.field(static=True)

    @classmethod
    def init(cls, spec: Spec, config: NetConfig, *, key: PRNGKeyArray) -> "ClrsNet":
        """A network with random weights, distributed as in the reference."""
        of_encoders, of_processor, of_decoders = jax.random.split(key, 3)
        encoded, decoded = encoded_variables(spec, config), decoded_variables(spec, config)
        makers: dict[str, Any] = {"gatv2": GATv2, "gat": GAT}
        processor = makers.get(config.processor, MessagePassing).of(config, key=of_processor)
        return cls(
            {v.name: make_encoder(v, config, key=k) for v, k in _with_keys(encoded, of_encoders)},
            processor,
            {v.name: make_decoder(v, config, key=k) for v, k in _with_keys(decoded, of_decoders)},
            spec,
            config,
        )

    def __call__(
        self,
        inputs: Mapping[str, Any],
        hints: Mapping[str, Any],
        length: Number,
        *,
        steps: int,
        key: PRNGKeyArray | None = None,
        teacher_forcing: Number | None = None,
        dropout: Number | None = None,
        replacement: Replacement | None = None,
        record: Record = True,
        present: Bool[Array, " n"] | None = None,
        asked: Mapping[str, Number] | None = None,
        recompute: bool = False,
        hidden: Float[Array, "n s"] | None = None,
    ) -> Prediction:
        """Run one execution of T frames.

        Args:
            inputs: name -> [...], one sample.
            hints: name -> [frames, ...]. Frame 0 is the given state; later frames are read only under teacher forcing.
                Hints that are not encoded may be left out.
            length: the number of frames of this execution; the output is read at step length - 2 (at least 0).
            steps: T, the number of frames (static); T - 1 steps are run, and one where T is 1.
            key: given in training, where it feeds teacher forcing, dropout and the noise on permutations.
            teacher_forcing: the probability of a true hint instead of the predicted one, drawn per step; None for 0.
            dropout: the probability that a number of a new hidden state is dropped; None for 0.
            replacement: attention to use instead of the network's own, for causal checks.
            record: return the activations (static): all, none, or those of some pairs (micro-step, head), which then
                look like the heads of a single micro-step; or `STATES`, which has any processor.
            present: which nodes there are, where the graph is padded (see `mechgap.networks.padding`); None for all.
            asked: variable -> 1, or 0 for one that does not exist in this execution (see `mechgap.networks.slots`): it
                is fed as zeros and joins no nodes. None where all exist.
            recompute: for a gradient, run every step again instead of keeping what happened in it (static). Memory is
                then that of one step, plus what a step hands to the next.
            hidden: the state to start from, such as the last `states.nodes` of an earlier call; None for zeros.
        """
        if replacement is not None:
            self.config.check_attention("A replacement of attention")
        if not isinstance(record, bool | str):
            self.config.check_attention("A record of single heads")
        self._check(inputs, hints, steps, key, teacher_forcing, dropout)
        precision = self.config.precision
        with nullcontext() if precision is None else jax.default_matmul_precision(precision):
            run = _Run(self, inputs, hints, steps, key is None, asked, present)
            return run.run(length, key, teacher_forcing, dropout, replacement, record, recompute, hidden)

    @property
    def gatv2(self) -> GATv2:
        """The processor where it is a GATv2, whose parts have names; another kind is an error."""
        if not isinstance(self.processor, GATv2):
            raise ValueError(f"This is for networks whose processor is 'gatv2'; got {self.config.processor!r}.")
        return self.processor

    @property
    def dtype(self) -> Any:
        """Of the weights, and of what is computed with them."""
        return next(iter(self.encoders.values()))[0].weight.dtype

    def _check(self, inputs: Mapping, hints: Mapping, steps: int, key: Any, forcing: Any, dropout: Any) -> None:
        fed = self.spec.names(Stage.HINT) if self.config.encode_hints else ()
        for stage, names, given in (("inputs", self.spec.names(Stage.INPUT), inputs), ("hints", fed, hints)):
            missing = [name for name in names if name not in given]
            if missing:
                raise ValueError(f"The network needs the {stage} {', '.join(names)}; missing: {', '.join(missing)}.")
        if steps < 1:
            raise ValueError(f"steps must be at least 1, the number of frames; got {steps}.")
        if key is None and (forcing is not None or dropout is not None):
            raise ValueError("teacher_forcing and dropout draw at random: give a key, or leave both None.")
        for name in fed if forcing is not None else ():
            if len(hints[name]) < steps - 1:
                raise ValueError(
                    f"Teacher forcing over {steps} frames reads {steps - 1} frames of every hint; "
                    f"{name!r} has {len(hints[name])}. Give the whole trace."
                )
        n, built_for = jnp.shape(inputs["pos"])[-1], self.config.pre_attention_bias
        if built_for not in (None, n):
            raise ValueError(
                f"This network's pre-attention bias is for graphs of {built_for} nodes; got {n}. "
                f"Use a network without it for other sizes."
            )


class _Run:
    """One execution: the folded network and the constant inputs, shared by all steps."""

    def __init__(
        self,
        net: ClrsNet,
        inputs: Mapping,
        hints: Mapping,
        steps: int,
        evaluating: bool,
        asked: Mapping | None,
        present: Array | None,
    ):
        spec, config = net.spec, net.config
        self.config, self.rounds, self.asked = config, max(1, steps - 1), asked
        self.nodes, self.dtype, self.present = jnp.shape(inputs["pos"])[-1], net.dtype, present
        self.fed_variables = spec.at(Stage.HINT) if config.encode_hints else ()
        self.hint_variables = spec.at(Stage.HINT) if config.decode_hints else ()
        self.output_variables = spec.at(Stage.OUTPUT)
        self.hard = config.hint_repred == "hard" or (config.hint_repred == "hard_on_eval" and evaluating)
        self._fold(net)
        given = {v.name: self._expand(v, inputs[v.name]) for v in spec.at(Stage.INPUT)}
        self.given = collect(spec.at(Stage.INPUT), given, self.nodes, self.dtype, present)
        self.adjacency = adjacency(spec.at(Stage.INPUT), given, self.nodes)
        self.pos = given["pos"]
        self.hints = {v.name: hints[v.name] for v in self.fed_variables}

    def _fold(self, net: ClrsNet) -> None:
        encoded = encoded_variables(net.spec, net.config)
        layer = partial(encoder_of, net.encoders, encoded, config=net.config)
        self.encoders = (layer(where=Location.NODE), layer(where=Location.EDGE), layer(where=Location.GRAPH))
        self.processor = net.processor.folded(*self.encoders)
        self.decoders = {
            v.name: fold_decoder(v, net.decoders[v.name], net.config, *self.encoders)
            for v in decoded_variables(net.spec, net.config)
        }

    def run(
        self,
        length: Number,
        key: PRNGKeyArray | None,
        forcing: Number | None,
        dropout: Number | None,
        replacement: Replacement | None,
        record: Record,
        recompute: bool,
        begun: Array | None,
    ) -> Prediction:
        kept = partial(self._step, length=length, forcing=forcing, dropout=dropout, record=record)
        step = jax.checkpoint(kept) if recompute else kept
        keys = None if key is None else jax.random.split(key, self.rounds + 1)
        truth = self._truth(forcing is not None)
        first = {v.name: self._expand(v, self.hints[v.name][0]) for v in self.fed_variables}
        begun = jnp.zeros((self.nodes, self.config.hidden), self.dtype) if begun is None else begun
        start = (first, begun, first)
        each = (jnp.arange(self.rounds), None if keys is None else keys[1:], truth, replacement)
        straight = key is not None and self.rounds <= UNROLLED and present_platform() != CPU
        (_, _, fed), (hidden, hints, activations) = jax.lax.scan(step, start, each, unroll=straight)
        at = jnp.clip(jnp.asarray(length).astype(jnp.int32) - 2, 0, self.rounds - 1)
        before = jnp.where(at > 0, hidden[jnp.maximum(at - 1, 0)], begun)
        last = _Round(fed, before, hidden[at], self._edge(fed, before))
        outputs = self._decode(self.output_variables, last, None if keys is None else keys[0])
        if record == STATES:
            return Prediction(hints, outputs, None, activations)
        return Prediction(hints, outputs, activations)

    def _step(
        self,
        carry: tuple,
        each: tuple,
        *,
        length: Number,
        forcing: Number | None,
        dropout: Number | None,
        record: Record,
    ) -> tuple[tuple, tuple]:
        (fed, hidden, last), (index, key, truth, replacement) = carry, each
        to_force, to_drop, to_decode = _three(key)
        features, joined = self._features(fed)
        after, edge, activations = self._process(features, joined, hidden, replacement, record)
        after = after if dropout is None else _drop(after, dropout, to_drop)
        now = _Round(fed, hidden, after, edge)
        hints = self._decode(self.hint_variables, now, to_decode)
        following = {v.name: self._if_asked(v, feedback(v, hints[v.name], self.hard)) for v in self.fed_variables}
        if forcing is not None:
            forced = jax.random.bernoulli(to_force, forcing)
            following = {name: jnp.where(forced, truth[name], x) for name, x in following.items()}
        runs = (index == 0) | (length > index + 1)
        last = jax.tree.map(lambda new, old: jnp.where(runs, new, old), fed, last)
        return (following, after, last), (after, hints, activations)

    def _edge(self, fed: dict[str, Array], before: Array) -> Array | None:
        """The hidden state of edges at a step, made again: a scan that kept it would do so at every step."""
        if not self.config.has_triplets:
            return None
        return self._process(*self._features(fed), before, None, False)[1]

    def _process(
        self, features: Features, joined: Array, hidden: Array, replacement: Replacement | None, record: Record
    ) -> tuple[Array, Array | None, Any]:
        seen, edge = [], None
        for k in range(self.config.message_passing_steps):
            given = None if replacement is None else (replacement.coefficients[k], replacement.where[k])
            hidden, edge, attention = self.processor(*features, joined, hidden, self.present, given)
            seen.append(Activations(hidden, *(attention or (None, None))))
        if isinstance(record, bool):
            return hidden, edge, jax.tree.map(lambda *x: jnp.stack(x), *seen) if record else None
        if isinstance(record, str):
            return hidden, edge, States(hidden, self.encoders[1](features.edge) if edge is None else edge)
        logits, coefficients = (
            jnp.stack([getattr(seen[k], name)[head] for k, head in record])[None] for name in ("logits", "coefficients")
        )
        return hidden, edge, Activations(hidden[None], logits, coefficients)

    def _features(self, fed: dict[str, Array]) -> tuple[Features, Array]:
        features = self.given.join(collect(self.fed_variables, fed, self.nodes, self.dtype, self.present))
        return features, self.adjacency | adjacency(self.fed_variables, fed, self.nodes)

    def _decode(self, variables: tuple[Variable, ...], at: _Round, key: PRNGKeyArray | None) -> dict[str, Array]:
        features, _ = self._features(at.fed)
        hiddens = [at.before, at.after]
        dense = jnp.concatenate([self.encoders[0](features.node), *hiddens], axis=-1)
        if self.present is not None:
            dense = jnp.where(self.present[:, None], dense, -ABSENT)
        x = Readable(
            node=jnp.concatenate([features.node, *hiddens], axis=-1),
            edge=features.edge if at.edge is None else jnp.concatenate([features.edge, at.edge], axis=-1),
            graph=features.graph,
            pooled=largest(dense),
            pos=self.pos,
            present=self.present,
        )
        keys = [None if key is None else jax.random.fold_in(key, i) for i in range(len(variables))]
        plan = zip(variables, keys, strict=True)
        return {v.name: decode(v, self.decoders[v.name], x, self.config, k) for v, k in plan}

    def _truth(self, needed: bool) -> dict[str, Array] | None:
        """Frames 1 .. T-1 of the true hints, expanded; the last is never fed, so that its value does not matter."""
        if not needed:
            return None
        at = jnp.minimum(jnp.arange(1, self.rounds + 1), max(self.rounds - 1, 0))
        return {v.name: self._expand(v, jnp.asarray(self.hints[v.name])[at]) for v in self.fed_variables}

    def _expand(self, variable: Variable, value: Any) -> Array:
        return self._if_asked(variable, expand(variable, value, self.nodes, self.dtype))

    def _if_asked(self, variable: Variable, x: Array) -> Array:
        return x if self.asked is None else x * self.asked[variable.name]


def encoded_variables(spec: Spec, config: NetConfig) -> tuple[Variable, ...]:
    """The variables that are encoded, in order: inputs, then hints where they are fed."""
    return spec.at(Stage.INPUT) + (spec.at(Stage.HINT) if config.encode_hints else ())


def decoded_variables(spec: Spec, config: NetConfig) -> tuple[Variable, ...]:
    """The variables that are decoded, in spec order."""
    return tuple(v for v in spec if v.stage == Stage.OUTPUT or (v.stage == Stage.HINT and config.decode_hints))


def _with_keys(variables: tuple[Variable, ...], key: PRNGKeyArray) -> Any:
    return zip(variables, jax.random.split(key, max(len(variables), 1))[: len(variables)], strict=True)


def _three(key: PRNGKeyArray | None) -> Any:
    return (None, None, None) if key is None else jax.random.split(key, 3)


def _drop(x: Array, rate: Number, key: PRNGKeyArray) -> Array:
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0).astype(x.dtype)
