"""What an algorithm is here: an interface, a step-by-step tracer in pure JAX, and a distribution of inputs.

A tracer exists once and runs in two ways:

- `Algorithm.trace` is the conformance path. The whole call runs in float64, because the benchmark compares in
  float64, and returns NumPy arrays with the benchmark's dtypes: hints float64, pointers from nodes int64 in outputs.
- `Algorithm.device_trace` is the training path. It may be jitted and mapped, stays on the device and is float32;
  near-ties are decided in float32 there, and pointers are int32.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from mechgap.algorithms.distributions import BenchmarkStream
from mechgap.algorithms.inputs import checked_inputs, completed
from mechgap.trace import Kind, Location, Spec, Trace, Values, Variable, make_trace, trusted_trace

if TYPE_CHECKING:
    from mechgap.algorithms.benchmark import BenchmarkSampler

TRAIN_P = tuple(0.1 + 0.1 * i for i in range(9))  # edge probabilities of the reference training script


class Run(NamedTuple):
    """What a tracer returns: hints [T, B, ...], outputs [B, ...], lengths [B]; reals in the dtype of `pos`."""

    hints: dict[str, Array]
    outputs: dict[str, Array]
    lengths: Int[Array, " batch"]


@runtime_checkable
class Distribution(Protocol):
    """Where inputs come from, drawn on the host as the benchmark draws them or on the device."""

    @property
    def p(self) -> tuple[float, ...]:
        """The benchmark's default edge probabilities; empty where there are no edges to draw."""

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """A batch of samples, in the benchmark's own order of draws."""

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        """A batch from the same distribution."""


@dataclass(frozen=True, eq=False)
class Algorithm:
    """A source algorithm, equal to itself alone: jit asks whether it is the same one in every call.

    Attributes:
        name: as in the benchmark.
        spec: its variables.
        tracer: (inputs [B, ...], T) -> `Run`, pure JAX.
        distribution: how its inputs are drawn.
        max_steps: number of nodes -> the largest number of frames an execution can have.
        counts_first: executions are usually far shorter than the longest: count frames before making room for them.
        samples_multiplier: how many times 32 samples the benchmark validates and tests on.
        is_sparse: the reference training script draws its graphs with half the edge probabilities of the others.
        order_is_constant: `pred_h` never changes, and the reference training script makes it an input.
        nodes: how many nodes its inputs have, where that is always the same.
        variant_of: the benchmark's algorithm that this is a variant of, if it is not the benchmark's own.
    """

    name: str
    spec: Spec
    tracer: Callable[[dict[str, Array], int], Run]
    distribution: Distribution
    max_steps: Callable[[int], int]
    counts_first: bool = False
    samples_multiplier: int = 1
    is_sparse: bool = False
    order_is_constant: bool = False
    nodes: int | None = None
    variant_of: str | None = None

    def trace(self, **inputs: Any) -> Trace:
        """Execute the algorithm on a batch of inputs, value for value as the benchmark does.

        Args:
            inputs: batched [B, ...], named and encoded as in the spec (`s` one-hot); `pos` and `adj` may be left out.

        Returns:
            A trace of NumPy arrays whose T is the longest execution of the batch.
        """
        return self.trace_checked(self.checked(inputs))

    def checked(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The inputs, complete; or a ValueError that says what is wrong with them and how to fix it."""
        return checked_inputs(self.name, self.spec, inputs, nodes=self.nodes)

    def trace_checked(self, inputs: dict[str, np.ndarray]) -> Trace:
        """`trace` for complete inputs that need no checking, such as the ones a sampler drew."""
        batch = len(inputs["pos"])
        # One compilation serves many batch sizes: round up to a power of two and cut the surplus off.
        room = 1 << (batch - 1).bit_length()
        used = {k: x for k, x in inputs.items() if k != "adj"}  # it follows from A; a copy to the device saved
        padded = used if room == batch else {k: x[np.arange(room) % batch] for k, x in used.items()}
        with jax.enable_x64(True):
            run = _run_in_float64(self, padded, self._room_for_frames(padded))
        lengths = np.asarray(run.lengths)[:batch]
        steps = int(lengths.max())
        hints = {name: np.asarray(x)[:steps, :batch] for name, x in run.hints.items()}
        outputs = {name: np.asarray(x)[:batch] for name, x in run.outputs.items()}
        return trusted_trace(self.spec, inputs, hints, outputs, lengths)

    def _room_for_frames(self, inputs: dict[str, np.ndarray]) -> int:
        """A number of frames that no execution exceeds: every number is compiled anew, so there are few of them."""
        most = self.max_steps(inputs["pos"].shape[-1])
        if not self.counts_first:
            return most
        longest = int(_count_in_float64(self, inputs, most).max())
        unit = 1 << max(0, longest.bit_length() - 3)  # three binary digits: at most a quarter too much
        return min(most, -(-longest // unit) * unit)

    def device_trace(self, inputs: Values, steps: int | None = None) -> Trace:
        """Execute the algorithm inside a JAX program: float32, jittable, nothing checked.

        To map it over seeds, fold the seed axis into the batch: the whole batch is then one loop.

        Args:
            inputs: as for `trace`; `sample` makes them.
            steps: T (static); by default large enough for every input of that size. Longer executions are cut, and have
                the outputs of where they are cut.
        """
        inputs = completed(self.spec, {name: jnp.asarray(x) for name, x in inputs.items()}, jnp)
        run = self.tracer(inputs, steps or self.max_steps(inputs["pos"].shape[-1]))
        return make_trace(self.spec, inputs, run.hints, run.outputs, run.lengths)

    def sample(
        self,
        key: PRNGKeyArray,
        n: int,
        batch: int,
        p: float | Sequence[float] | None = None,
        random_pos: bool = False,
    ) -> dict[str, Array]:
        """Draw a batch of inputs on the device, distributed as the benchmark's.

        Args:
            key: a JAX key.
            n: the number of nodes.
            batch: the number of samples.
            p: edge probability, or several of which each sample draws one (`TRAIN_P` in training); an undirected edge
                exists with probability p², as in the benchmark. By default the benchmark's.
            random_pos: replace the positions i/n by sorted uniform ones.

        Returns:
            The inputs, complete: `alg.trace(**inputs)` and `alg.device_trace(inputs)` take them.
        """
        _check_size(n, batch)
        return _sample(self, key, n, batch, jnp.asarray(self.probabilities(p)), random_pos)

    def probabilities(self, p: float | Sequence[float] | None) -> tuple[float, ...]:
        """The edge probabilities to draw from: the given ones, checked, or the benchmark's."""
        if not self.distribution.p:
            if p is not None:
                raise ValueError(f"{self.name!r} draws no graph, so p = {p!r} means nothing; leave p out.")
            return ()
        if p is None:
            return self.distribution.p
        values = (p,) if isinstance(p, int | float) else tuple(p)
        if not values or not all(0 <= value <= 1 for value in values):
            raise ValueError(f"p must be a probability or a non-empty sequence of them, each in [0, 1]; got {p!r}.")
        return values

    def split(self, name: str, *, pred_as_input: bool = False, permutations: bool = False) -> Trace:
        """One of the benchmark's own splits, rebuilt from its seed: "train", "val" or "test".

        A variant has the split of the algorithm it varies: the same inputs, its own hints.
        """
        from mechgap.algorithms.benchmark import split

        return split(self, name, pred_as_input=pred_as_input, permutations=permutations)

    def benchmark_sampler(self, seed: int, n: int, num_samples: int, **options: Any) -> "BenchmarkSampler":
        """The benchmark's sampler: the same seed gives the same samples. See `BenchmarkSampler` for the options."""
        from mechgap.algorithms.benchmark import BenchmarkSampler

        return BenchmarkSampler(self, seed, n, num_samples, **options)

    def __repr__(self) -> str:
        return f"<Algorithm {self.name}>"


def dtype_of_output(variable: Variable) -> type[np.int64 | np.float64]:
    """The benchmark keeps what a node points to, and what is said of the whole graph, as integers.

    Tables of pointers (of pairs of nodes) it keeps as reals.
    """
    is_whole = variable.location == Location.GRAPH or (
        variable.location == Location.NODE and variable.kind == Kind.POINTER
    )
    return np.int64 if is_whole else np.float64


# Most of the work is writing: with the widest vectors a processor has, a tenth faster than with XLA's usual ones.
@partial(jax.jit, static_argnums=(0, 2), compiler_options={"xla_cpu_prefer_vector_width": 512})
def _run_in_float64(algorithm: Algorithm, inputs: dict[str, Array], steps: int) -> Run:
    run = algorithm.tracer(inputs, steps)
    outputs = {name: x.astype(dtype_of_output(algorithm.spec[name])) for name, x in run.outputs.items()}
    return Run(run.hints, outputs, run.lengths.astype(jnp.float64))


@partial(jax.jit, static_argnums=(0, 2))
def _count_in_float64(algorithm: Algorithm, inputs: dict[str, Array], most: int) -> Array:
    """The lengths alone: the compiler drops the record of hints, since nothing reads it."""
    return algorithm.tracer(inputs, most).lengths


@partial(jax.jit, static_argnums=(0, 2, 3, 5))
def _sample(
    algorithm: Algorithm, key: PRNGKeyArray, n: int, batch: int, p: Array, random_pos: bool
) -> dict[str, Array]:
    of_graph, of_pos = jax.random.split(key)
    inputs = completed(algorithm.spec, algorithm.distribution.sample(of_graph, n, batch, p), jnp)
    if random_pos:  # sorted apart in every string, which starts where pos is 0
        string = jnp.cumsum(inputs["pos"] == 0, axis=-1)
        inputs["pos"] = jax.lax.sort((string, jax.random.uniform(of_pos, string.shape)), num_keys=2)[1]
    return inputs


def _check_size(n: int, batch: int) -> None:
    if n < 1 or batch < 1:
        raise ValueError(f"n and batch must be at least 1; got n = {n}, batch = {batch}.")
