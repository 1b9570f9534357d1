"""An answer of TransNAR as one HTML page: what was said, and where cross-attention looked token by token."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mechgap.algorithms import text
from mechgap.algorithms.text import Example, Question
from mechgap.faithfulness.looking import Looked, cut, hits, look, right_tokens, with_mean
from mechgap.report.page import PageData, render_page, script_json
from mechgap.storage import check_folder, writable_folder, write_text
from mechgap.trace import Kind, Location, Variable
from mechgap.training.transnar import TextModels

SCRIPTS = ("page_base/arrays", "page_base/graph", "view", "tokens", "places", "start")
CONTENTS = {"answers": "Answers", "looking": "Where it looks", "aims": "At whom it aims", "gates": "Gates"}
ROOM = 240_000  # characters of attention; with styles and scripts a page has less than 300 kB
KEPT = ("every head", "mean over heads", "mean over heads and layers")
AIMS = {
    "named": "The most attended node is the one that the token names",
    "about": "The most attended node is the one that the token is about",
}
DEFAULT = "transnar"


def write_page(
    done: Mapping[str, TextModels], said: Mapping[str, str], example: Example, out: str | Path, model: str | None = None
) -> None:
    """Write a page about one question.

    Args:
        done: the models of a study by name.
        said: what each of them answered, and others that are to be shown beside them.
        example: the question, and its right answer.
        out: the HTML file.
        model: whose attention is shown; by default `looking_model`.
    """
    write_text(out, render(done, said, example, model))


def render(done: Mapping[str, TextModels], said: Mapping[str, str], example: Example, model: str | None = None) -> str:
    """The page as text."""
    name = looking_model(done, model)
    looked = look(done[name], example)
    page = page_data(looked)
    values = {
        "title": f"Where {name} looks: {example.algorithm}, n = {looked.question.nodes}",
        "name": name,
        "asked": example.question.rstrip(),
        "right": example.answer.strip(),
        "answers": [_answer(who, answer, example) for who, answer in said.items()],
        "aims": [aim for aim in (_aim(looked, aim, words) for aim, words in AIMS.items()) if aim],
        "gates": list(zip(_from_one(looked.layers), looked.gates.tolist(), strict=True)),
        "config": done[name].config,
        "has_edges": bool(page.values["adjacency"]),
        "contents": list(CONTENTS.items()),
        "data": script_json(page.values),
        "blobs": page.blobs,
    }
    return render_page("looking_page", SCRIPTS, values)


def looking_model(done: Mapping[str, TextModels], model: str | None = None) -> str:
    """The name of the model to show: the one that is asked for, "transnar", or the first that looks at a reasoner."""
    looking = [name for name, result in done.items() if result.config.looks]
    if not looking:
        raise ValueError(
            f"No model here looks at a reasoner; got {', '.join(done)}. "
            "Train one: mechgap transnar train --models transnar"
        )
    if model is None:
        return DEFAULT if DEFAULT in looking else looking[0]
    if model not in looking:
        why = "looks at no reasoner" if model in done else "is not here"
        raise ValueError(f"The model {model!r} {why}. Those that look: {', '.join(looking)}.")
    return model


def check_page(out: str | Path) -> None:
    """Refuse a path that no page can be written to, before any work is done for it."""
    check_folder(out)
    if Path(out).is_dir():
        raise IsADirectoryError(f"Cannot write {out}: it is a folder. Give the name of a file, such as page.html.")
    writable_folder(Path(out).parent)


def page_data(looked: Looked) -> PageData:
    """What the page's scripts are given.

    Returns:
        n: how many nodes; notes: what the question says about each; adjacency: its edges, a string of 0 and 1 per node.
        tokens: of the answer, as they are; right, named, about: of each, see `Looked`; meant: what should stand there.
        layers: those that look, counted from 1; heads: how many.
        nodes, edges: attention [layers, 1 + heads, tokens, places], the mean over heads first: square roots, so that
            small weights keep two digits in a byte. Axes that the page has no room for have one entry, the mean.
        kept: in words, what is left of nodes and of edges.
    """
    page, question = PageData(), looked.question
    nodes, kept_nodes = _fitted(page, "nodes", looked.nodes, ROOM // 2)
    pairs = looked.edges.reshape(*looked.edges.shape[:3], -1)
    edges, kept_edges = _fitted(page, "edges", pairs, ROOM - len(page.blobs["nodes"]))
    page.values |= {
        "n": question.nodes,
        "notes": [_note(question, node) for node in range(question.nodes)],
        "adjacency": _adjacency(question),
        "tokens": [text.VOCABULARY[i] for i in looked.ids],
        "right": right_tokens(looked.ids, looked.right).tolist(),
        "meant": _meant(looked.ids, looked.right),
        "named": looked.named.tolist(),
        "about": looked.about.tolist(),
        "layers": _from_one(looked.layers),
        "heads": looked.nodes.shape[1],
        "nodes": nodes,
        "edges": edges,
        "kept": {"nodes": kept_nodes, "edges": kept_edges},
    }
    return page


def _fitted(
    page: PageData, name: str, weights: Float[np.ndarray, "layers heads tokens places"], room: int
) -> tuple[dict[str, Any], str]:
    """Keep as much as there is room for, and say what."""
    mean = weights.mean(1, keepdims=True)
    for kept, x in zip(KEPT, (with_mean(weights), mean, mean.mean(0, keepdims=True)), strict=True):
        found = page.keep(name, np.round(255 * np.sqrt(x)).astype(np.uint8)), kept
        if len(page.blobs[name]) <= room:
            break
    return found


def _answer(name: str, answer: str, example: Example) -> dict[str, Any]:
    """Tokens, with and without the spaces before them and whether they are right; and the three scores."""
    ids = text.encode(answer.rstrip("\n"))
    words = [text.VOCABULARY[i] for i in ids]
    right = right_tokens(ids, example.answer).tolist()
    tokens = [(word, word.lstrip(" "), ok) for word, ok in zip(words, right, strict=True)]
    return {"name": name, "tokens": tokens, "scores": text.score(answer, example)}


def _aim(looked: Looked, aim: str, words: str) -> dict[str, Any] | None:
    """A table of shares; None where no token aims at anybody."""
    found = hits(looked, aim)
    if not found.tokens:
        return None
    rows = zip(_from_one(looked.layers), found.share.tolist(), found.dealt.tolist(), strict=True)
    return {
        "words": words,
        "count": found.tokens,
        "random": found.random,
        "rows": [(layer, list(zip(share, dealt, strict=True))) for layer, share, dealt in rows],
    }


def _meant(ids: Int[np.ndarray, " tokens"], right: str) -> list[str]:
    """What the right answer has in the place of every token; nothing where it has ended."""
    pieces, where = cut(ids)
    truth, _ = cut(text.encode(right))
    truth += [""] * (len(pieces) - len(truth))
    return [truth[place].strip() for place in where]


def _note(question: Question, node: int) -> str:
    inputs = [v for v in question.layout.inputs if v.location == Location.NODE]
    said = (_value(variable, question.inputs[variable.name][0][node]) for variable in inputs)
    return ", ".join(word for word in said if word)


def _value(variable: Variable, x: Any) -> str:
    if variable.kind in (Kind.MASK, Kind.MASK_ONE):
        return variable.name if x == 1 else ""
    return f"{variable.name} {np.argmax(x) if variable.kind == Kind.CATEGORICAL else x:g}"


def _adjacency(question: Question) -> list[str]:
    """Who has an edge to whom; nothing where the question is about no graph."""
    if "A" not in question.inputs:
        return []
    return ["".join(str(int(x != 0)) for x in row) for row in question.inputs["A"][0]]


def _from_one(layers: Sequence[int]) -> list[int]:
    return [layer + 1 for layer in layers]
