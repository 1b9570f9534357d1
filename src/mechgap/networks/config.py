"""What decides the shapes and the wiring of a network."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

PROCESSORS = ("gatv2", "gat", "mpnn", "pgn", "triplet_gmpnn")
WITH_ATTENTION = ("gatv2", "gat")
HINT_MODES = ("encoded_decoded", "decoded_only", "none")
HINT_REPREDS = ("soft", "hard", "hard_on_eval")
ENCODER_INITS = ("default", "xavier_on_scalars")
PRECISIONS = (None, "default", "high", "highest")


@dataclass(frozen=True)
class NetConfig:
    """The static settings of a `ClrsNet`; numeric ones (dropout, teacher forcing) are arguments of its call.

    Attributes:
        hidden: s, the width of features and hidden states.
        heads: d, the number of attention heads; divides `hidden`. For gatv2 and gat.
        message_passing_steps: k, how often the processor runs per hint step.
        use_layer_norm: normalise every new hidden state.
        edge_info: the processor adds attended edge features (Eq. 11-13). For gatv2.
        pre_attention_bias: n, for a learned n x n bias before attention (Eq. 14), or None for none; such a network
            serves graphs of n nodes only. For gatv2.
        full_adjacency: every node may attend every node. For gatv2 and gat.
        hint_mode: "encoded_decoded": hints are predicted and fed back; "decoded_only": predicted, not fed back;
            "none": neither.
        hint_repred: how a predicted hint is fed back: "soft" as probabilities, "hard" as a decision, "hard_on_eval"
            softly in training (where a key is given) and hard otherwise.
        encoder_init: "xavier_on_scalars" starts the encoders of scalar hints at 1/sqrt(hidden) instead of 1.
        simplify_decoders: pointers are decoded by position, edges from their two ends; no decoder sees edge features.
        precision: of matrix products on accelerators: "highest" is full float32, which compiled networks need; None
            leaves JAX's setting as it is.
        processor: how nodes exchange messages: "gatv2", which programs are compiled into, "gat", "mpnn", "pgn" or
            "triplet_gmpnn"; see `mechgap.networks.processor`.
        triplet_features: how many numbers a triple of nodes has. For triplet_gmpnn.
    """

    hidden: int = 128
    heads: int = 1
    message_passing_steps: int = 1
    use_layer_norm: bool = True
    edge_info: bool = False
    pre_attention_bias: int | None = None
    full_adjacency: bool = False
    hint_mode: str = "encoded_decoded"
    hint_repred: str = "soft"
    encoder_init: str = "xavier_on_scalars"
    simplify_decoders: bool = False
    precision: str | None = None
    processor: str = "gatv2"
    triplet_features: int = 8

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be a whole number of at least 1; got {getattr(self, name)!r}."
            for name in ("hidden", "heads", "message_passing_steps", "pre_attention_bias", "triplet_features")
            if not _counts(getattr(self, name), optional=name == "pre_attention_bias")
        ]
        if not problems and self.hidden % self.heads:
            fits = [d for d in range(1, self.hidden + 1) if self.hidden % d == 0]
            problems.append(
                f"heads must divide hidden; got heads = {self.heads}, hidden = {self.hidden}. "
                f"Set heads to one of {', '.join(map(str, fits))}."
            )
        for name, valid in _CHOICES.items():
            if getattr(self, name) not in valid:
                expected = ", ".join(repr(v) for v in valid)
                problems.append(f"{name} must be one of {expected}; got {getattr(self, name)!r}.")
        problems += [
            f"{name} must be True or False; got {getattr(self, name)!r}."
            for name in _FLAGS
            if not isinstance(getattr(self, name), bool)
        ]
        problems = problems or list(_meaningless(self))
        if problems:
            raise ValueError("Bad NetConfig:\n  " + "\n  ".join(problems))

    @property
    def encode_hints(self) -> bool:
        """Whether hints are fed to the network."""
        return self.hint_mode == "encoded_decoded"

    @property
    def decode_hints(self) -> bool:
        """Whether the network predicts hints."""
        return self.hint_mode != "none"

    @property
    def has_attention(self) -> bool:
        """Whether the processor attends, so that there is attention to look at and to replace."""
        return self.processor in WITH_ATTENTION

    @property
    def has_triplets(self) -> bool:
        """Whether the processor makes hidden states of edges, which decoders read beside the edges' features."""
        return self.processor == "triplet_gmpnn"

    def check_attention(self, what: str) -> None:
        """Refuse to do `what` with a processor that has no attention."""
        if not self.has_attention:
            raise ValueError(
                f"{what} needs attention, and the processor {self.processor!r} has none. "
                f"Use a network whose processor is {' or '.join(WITH_ATTENTION)}."
            )


_CHOICES = {
    "processor": PROCESSORS,
    "hint_mode": HINT_MODES,
    "hint_repred": HINT_REPREDS,
    "encoder_init": ENCODER_INITS,
    "precision": PRECISIONS,
}
_FLAGS = ("use_layer_norm", "edge_info", "full_adjacency", "simplify_decoders")


def _counts(value: object, optional: bool) -> bool:
    return (optional and value is None) or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)


def _meaningless(config: NetConfig) -> Iterator[str]:
    """Settings that change nothing with this processor: whoever sets them means something else."""
    asked = {f.name for f in fields(NetConfig) if getattr(config, f.name) != f.default}
    for name in _ONLY_FOR:
        if name in asked and config.processor not in _ONLY_FOR[name]:
            yield (
                f"{name} means nothing for the processor {config.processor!r}, only for {' and '.join(_ONLY_FOR[name])}"
                f"; got {getattr(config, name)!r}. Leave it out." + _INSTEAD.get((name, config.processor), "")
            )
    if config.has_triplets and config.simplify_decoders:
        yield (
            "simplify_decoders leaves no decoder that reads edges, so that the triplets of 'triplet_gmpnn' would do "
            "nothing. Leave it out, or use the processor 'mpnn'."
        )


_ONLY_FOR: dict[str, tuple[str, ...]] = {
    "heads": WITH_ATTENTION,
    "edge_info": ("gatv2",),
    "pre_attention_bias": ("gatv2",),
    "full_adjacency": WITH_ATTENTION,
    "triplet_features": ("triplet_gmpnn",),
}
_INSTEAD = {("full_adjacency", "pgn"): " With all pairs of nodes, 'pgn' is 'mpnn'."}
