"""SCAN: a shift-reduce parser and a decoder, which turn a command into its actions."""

from collections.abc import Callable
from typing import Any

from mechgap.programs.alta import AltaProgram, Text
from mechgap.programs.alta_builder import alta_program, categorical, pure, qkv, v_relative
from mechgap.programs.library.scan_grammar import LONGEST_ACTIONS, REDUCTIONS, SYMBOLS, VERBS, WORDS, all_commands

DECIDE, EXECUTE, EMIT, DONE = range(4)  # what is done next, the same at all positions
MEMORY, EOS = WORDS.index("memory"), WORDS.index("eos")
NO_WORD = 13  # of a command: the end, or memory
EMPTY, S = 0, 14  # on the stack; a word w is w + 1
NOTHING, SHIFT, ACCEPT = 0, len(REDUCTIONS) + 1, len(REDUCTIONS) + 2  # actions; 1 .. 20 reduce
DEPTH = 5  # of the stack: "S and S around left"
PLAIN, SIDE, OPPOSITE, AROUND = range(4)  # how a clause turns
CLAUSE = {"verb": 5, "how": 4, "side": 2, "times": 3}  # a clause as registers; verb 0 is none, times 0 is once


def scan_parser(longest: int = 16) -> AltaProgram:
    """Parse a command: position k shows the number of the k-th reduction."""

    def accept(z: Any) -> None:
        z["phase"] = DONE

    def reduced(z: Any) -> None:
        if z["at_out"]:
            z["rule"] = z["action"]
        _advance(z, "at_out")

    return alta_program(
        "scan_parser",
        description="a shift-reduce parser of SCAN commands",
        variables=(
            *_parsing(lambda i: i == 0),
            categorical("at_out", 2, from_position=lambda i: i == 0),
            categorical("rule", len(REDUCTIONS) + 1),
        ),
        heads=(*_reading(), v_relative("at_out_left", "at_out", -1)),
        mlp=lambda z: _parse(z, accept, shifted=lambda z: None, reduced=reduced),
        output="rule",
        input_size=len(WORDS),
        positions=longest,
        halt=("phase", DONE),
        text=Text(
            lambda text: [*_words(text), EOS],
            lambda outputs: " | ".join(REDUCTIONS[rule - 1] for rule in outputs if rule),
        ),
    )


def scan(memory: int = LONGEST_ACTIONS, words: int = 10) -> AltaProgram:
    """Parse a command and emit its actions into `memory` cells in front of it.

    While the parser reduces, what a clause means is collected in registers: its verb, how it turns, and how often it is
    done. There are two clauses at most; "after" exchanges them. Then one action is emitted per layer.
    """

    def accept(z: Any) -> None:
        z["phase"] = EMIT
        _begin_clause(z, 0)

    def shifted(z: Any) -> None:
        if z["next"] <= WORDS.index("after"):
            z["clauses"] = 1

    def step(z: Any) -> None:
        if z["phase"] == EMIT:
            _emit(z)
        else:
            _parse(z, accept, shifted, reduced=_understand)

    return alta_program(
        "scan",
        description="SCAN commands into actions",
        variables=(
            *_parsing(lambda i: i == memory),
            categorical("at_out", 2, from_position=lambda i: i == 0),
            *(categorical(f"{name}_{c}", size) for c in (0, 1) for name, size in CLAUSE.items()),
            categorical("clauses", 2),  # whether a second one has been met, and, when emitting, is left
            categorical("turn", 8),  # how many actions of a clause have been emitted
            categorical("ends", 2),  # whether the next one is its last
            categorical("again", 2),  # whether the clause is done once more
            categorical("third", 2),  # and once more after that
            categorical("out", len(SYMBOLS)),
        ),
        heads=(*_reading(), v_relative("at_out_left", "at_out", -1)),
        mlp=step,
        output="out",
        input_size=len(WORDS),
        positions=memory + words,
        halt=("phase", DONE),
        text=Text(
            lambda text: [MEMORY] * memory + [*_words(text), EOS],
            lambda outputs: " ".join(SYMBOLS[x] for x in outputs if x),
        ),
    )


def _parsing(first: Any) -> tuple:
    """What the parser needs: the word to read next is marked, the stack is in registers, the top first."""
    return (
        categorical("word", NO_WORD + 1, from_input=lambda x: min(x, NO_WORD)),
        categorical("at_next", 2, from_position=first),
        categorical("is_first", 2, from_position=lambda i: i == 0),
        categorical("one", 2, 1),
        categorical("phase", 4),
        categorical("action", ACCEPT + 1),
        *(categorical(f"top_{i}", S + 1) for i in range(DEPTH)),
    )


def _reading() -> tuple:
    return (qkv("next", "one", "at_next", "word"), v_relative("at_next_left", "at_next", -1))


def _parse(z: Any, accept: Callable, shifted: Callable, reduced: Callable) -> None:
    """Decide in one layer, execute in the next; what else an action does is told."""
    if z["phase"] == DECIDE:
        _decide(z)
    elif z["phase"] == EXECUTE:
        z["action"] = NOTHING
        if z["action"] == ACCEPT:
            accept(z)
            return
        z["phase"] = DECIDE
        if z["action"] == SHIFT:
            _shift(z)
            shifted(z)
        else:
            _reduce(z)
            reduced(z)


def _decide(z: Any) -> None:
    """Reduce where the right side of a rule is on the stack; shift otherwise; accept at the end.

    What follows is read only where it matters: a decision that the stack alone determines is then the same for every
    word that follows, also for one that no command of a training set has there.
    """
    z["phase"] = EXECUTE
    for number, source in enumerate(REDUCTIONS, 1):
        symbols = [_on_stack(word) for word in reversed(source.split())]
        if all(z[f"top_{i}"] == symbol for i, symbol in enumerate(symbols)):
            if source in ("S and S", "S after S") and z["next"] != NO_WORD:
                break
            z["action"] = number
            return
    z["action"] = pure(lambda following: ACCEPT if following == NO_WORD else SHIFT)(z["next"])


def _on_stack(word: str) -> int:
    return S if word == "S" else WORDS.index(word) + 1


def _shift(z: Any) -> None:
    for i in range(1, DEPTH):
        z[f"top_{i}"] = z[f"top_{i - 1}"]
    z["top_0"] = z["next"] + 1
    _advance(z, "at_next")


def _reduce(z: Any) -> None:
    size = pure(lambda action: len(REDUCTIONS[action - 1].split()) if 0 < action < SHIFT else 1)(z["action"])
    for popped in (2, 3):
        if size == popped:
            for i in range(1, DEPTH):
                z[f"top_{i}"] = z[f"top_{i + popped - 1}"] if i + popped - 1 < DEPTH else EMPTY
    z["top_0"] = S


def _advance(z: Any, mark: str) -> None:
    """A mark moves one position to the right."""
    z[mark] = 0 if z["is_first"] else z[f"{mark}_left"]


def _understand(z: Any) -> None:
    """What a reduction says about the clause at hand, in its registers."""
    source = pure(lambda action: REDUCTIONS[action - 1] if 0 < action < SHIFT else "")(z["action"])
    for clause in (0, 1):
        if z["clauses"] == clause:
            for register in CLAUSE:
                value = pure(lambda s, register=register: _meaning(s).get(register, -1))(source)
                if value >= 0:
                    z[f"{register}_{clause}"] = value
    if z["action"] == REDUCTIONS.index("S after S") + 1:
        for register in CLAUSE:
            z[f"{register}_0"], z[f"{register}_1"] = z[f"{register}_1"], z[f"{register}_0"]


def _meaning(source: str) -> dict[str, int]:
    found: dict[str, int] = {}
    words = source.split()
    if source in VERBS:
        found["verb"] = VERBS.index(source) + 1
    if words and words[-1] in ("left", "right"):
        found["side"] = int(words[-1] == "right")
        found["how"] = {"opposite": OPPOSITE, "around": AROUND}.get(words[1], SIDE)
    if words and words[-1] in ("twice", "thrice"):
        found["times"] = 1 if words[-1] == "twice" else 2
    return found


@pure
def _action_at(how: int, verb: int, turn: int, side: int) -> int:
    """The action at hand of a clause: a turn, or the verb."""
    turns = (not verb or turn % 2 == 0) if how == AROUND else turn < {PLAIN: 0, SIDE: 1, OPPOSITE: 2}[how]
    return SYMBOLS.index("LTURN") + side if turns else SYMBOLS.index("WALK") + max(verb, 1) - 1


@pure
def _is_last(how: int, verb: int, turn: int) -> bool:
    """Whether it is the last action of the clause."""
    count = {PLAIN: 0, SIDE: 1, OPPOSITE: 2, AROUND: 4}[how]
    return turn + 1 >= (count * (2 if verb else 1) if how == AROUND else count + bool(verb))


def _emit(z: Any) -> None:
    """One action. Each decision is of few registers, so that short commands show all that long ones need."""
    if z["at_out"] and not z["out"]:  # it never is: to say so saves the units that would clear it
        z["out"] = _action_at(z["how_0"], z["verb_0"], z["turn"], z["side_0"])
    _advance(z, "at_out")
    if not z["ends"]:
        z["turn"] = pure(lambda turn: min(turn + 1, 7))(z["turn"])
        z["ends"] = _is_last(z["how_0"], z["verb_0"], z["turn"] + 1)
        return
    z["turn"] = 0
    if z["again"]:
        z["again"], z["third"] = z["third"], 0
        z["ends"] = _is_last(z["how_0"], z["verb_0"], 0)
    elif z["clauses"]:
        z["clauses"] = 0
        for register in CLAUSE:
            z[f"{register}_0"] = z[f"{register}_1"]
        _begin_clause(z, 1)
    else:
        z["phase"] = DONE


def _begin_clause(z: Any, clause: int) -> None:
    z["again"], z["third"] = z[f"times_{clause}"] > 0, z[f"times_{clause}"] > 1
    z["ends"] = _is_last(z[f"how_{clause}"], z[f"verb_{clause}"], 0)


def _words(text: str) -> list[int]:
    given = text.split()
    unknown = [word for word in given if word not in WORDS[:NO_WORD]]
    if unknown or not given:
        raise ValueError(f"A SCAN command is of the words {', '.join(WORDS[:NO_WORD])}; got {text!r}.")
    if " ".join(given) not in all_commands():
        raise ValueError(f"{text!r} is not a SCAN command; one is e.g. 'jump around left twice and walk'.")
    return [WORDS.index(word) for word in given]
