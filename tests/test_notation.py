"""docs/notation.md says where symbols are in the code: what it names is there."""

import ast
import re
from pathlib import Path

import pytest

import mechgap

PAGE = (Path(__file__).parents[1] / "docs/notation.md").read_text()
TREES = [ast.parse(path.read_text()) for path in Path(mechgap.__file__).parent.rglob("*.py")]
CLASSES = [node for tree in TREES for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
FUNCTIONS = {node.name for tree in TREES for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


MEMBERS = {
    getattr(part, "name", None) or getattr(getattr(part, "target", None), "id", None)
    for node in CLASSES
    for part in node.body
}


def has(name: str, member: str) -> bool:
    """Whether some class of a name, or one that it is made from, has a field or a method."""
    found = [node for node in CLASSES if node.name == name]
    own = {
        getattr(part, "name", None) or getattr(getattr(part, "target", None), "id", None)
        for node in found
        for part in node.body
    }
    bases = {base.id for node in found for base in node.bases if isinstance(base, ast.Name)}
    return member in own or any(has(base, member) for base in bases)


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(?:[a-z_]+\.)*([A-Z]\w+\.\w+)", PAGE))))
def test_members_of_classes_are_there(named: str) -> None:
    name, member = named.split(".")
    assert has(name, member), f"docs/notation.md names {named}, which is not there"


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(?:mg\.|[a-z_]+\.)?([a-z_]+)\(", PAGE))))
def test_functions_are_there(named: str) -> None:
    assert named in {*FUNCTIONS, *MEMBERS, "len"}, f"docs/notation.md names {named}, which is not there"
