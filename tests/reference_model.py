"""The reference's own model, in an environment of its own, on exported networks."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON, SCRIPT = ROOT / ".oracle" / "bin" / "python", ROOT / "tests" / "oracle" / "run_exported.py"
needs_the_oracle = pytest.mark.skipif(
    not PYTHON.exists(), reason="no oracle environment; `make oracle` installs dm-clrs into it"
)


def ask_the_reference(network: Path, *sizes: str) -> dict:
    """What the reference counts on an exported network; it sees that file and nothing of ours.

    Args:
        network: the file.
        sizes: "NODES:GRAPHS", or "NODES:GRAPHS:I,J" without the samples I and J.
    """
    answer = network.with_suffix(".json")
    command = [str(PYTHON), str(SCRIPT), str(network), str(answer), *sizes]
    environment = {k: x for k, x in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(answer.read_text())
