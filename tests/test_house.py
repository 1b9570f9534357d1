"""The house rules: stages in order, a light front door, nothing shadowed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mechgap

SOURCE = Path(mechgap.__file__).parent
# A module imports only from stages to its left. What everything exchanges stands first, the commands last.
ORDER = (
    "storage",
    "trace",
    "algorithms",
    "programs",
    "networks",
    "compiler",
    "training",
    "faithfulness",
    "experiments",
    "report",
    "interop",
    "doctor",
    "demo",
    "cli",
    "__main__",
)
SIDE_BY_SIDE = ({"compiler", "training"},)  # 4a and 4b do not know each other
PACKAGE_ROOT = "__init__"
FILES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The stages that a file imports, wherever in the file the import stands (TYPE_CHECKING blocks included)."""
    stages = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names = [node.module or ""]
            if node.module == "mechgap":
                names = [f"mechgap.{alias.name}" for alias in node.names if alias.name != "__version__"]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        stages |= {name.split(".")[1] for name in names if name.startswith("mechgap.")}
    return stages


def stage_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@pytest.mark.parametrize(
    "path", [f for f in FILES if stage_of(f) != PACKAGE_ROOT], ids=lambda p: str(p.relative_to(SOURCE))
)
def test_stages_are_in_order(path: Path) -> None:
    mine = stage_of(path)
    assert mine in ORDER, f"{mine} has no place in the order of stages"
    for other in imported(path):
        assert ORDER.index(other) <= ORDER.index(mine), f"{mine} imports {other}, which comes later"
        assert not any({mine, other} == pair for pair in SIDE_BY_SIDE), f"{mine} imports {other}"
        assert other != "interop" or mine in ("interop", "cli"), "nothing inside imports interop"


def test_only_interop_imports_the_reference_package() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] in ("clrs", "tensorflow", "torch", "transformer_lens") for name in names):
                assert path.relative_to(SOURCE).parts[0] == "interop", path


HEAVY = ("jax", "jaxlib", "numpy", "equinox", "matplotlib", "safetensors", "scipy", "networkx")


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "statement",
    [
        "import mechgap",
        "import mechgap.cli",
        "from typer.testing import CliRunner\nimport mechgap.cli\n"
        "assert CliRunner().invoke(mechgap.cli.app, ['--help']).exit_code == 0",
        "from typer.testing import CliRunner\nimport mechgap.cli\n"
        "assert CliRunner().invoke(mechgap.cli.app, ['trace', '--help']).exit_code == 0",
    ],
)
def test_the_door_is_light(statement: str) -> None:
    assert not loaded_after(statement) & set(HEAVY)


def test_no_name_is_shadowed_by_a_module() -> None:
    code = "\n".join(
        [
            "import importlib, mechgap as mg, types",
            *(f"importlib.import_module({name!r})" for name in module_names()),
            "names = [n for n in mg.__all__ if n != '__version__']",
            "first = [getattr(mg, n) for n in names]",
            "assert first == [getattr(mg, n) for n in names]",
            "functions = [n for n in names if n[0].islower() and n not in mg.MODULES]",
            "bad = [n for n in functions if isinstance(getattr(mg, n), types.ModuleType)]",
            "assert not bad, bad",
            "assert mg.algorithm('bfs') is mg.algorithm('bfs')",
        ]
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def module_names() -> list[str]:
    relative = [f.relative_to(SOURCE.parent).with_suffix("") for f in FILES]
    return [".".join(r.parts).removesuffix(".__init__") for r in relative]


def test_unknown_name_at_the_front_door_lists_what_there_is() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'algoritm'; it has .*algorithm"):
        _ = mechgap.algoritm
