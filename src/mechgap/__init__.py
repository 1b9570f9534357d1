"""mechgap: compile algorithms into neural networks, train networks on the same algorithms, measure the gap.

This is the front door. Its names load on first use, so that `import mechgap` costs nothing and loads no jax.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mechgap.algorithms import algorithm as algorithm
    from mechgap.algorithms import algorithm_names as algorithm_names
    from mechgap.algorithms import text as text
    from mechgap.algorithms.definition import Algorithm as Algorithm
    from mechgap.compiler import compile as compile
    from mechgap.compiler.to_gatv2 import Compiled as Compiled
    from mechgap.faithfulness import Gap as Gap
    from mechgap.faithfulness import gap as gap
    from mechgap.networks.clrs_net import ClrsNet as ClrsNet
    from mechgap.networks.config import NetConfig as NetConfig
    from mechgap.programs import program as program
    from mechgap.programs import program_names as program_names
    from mechgap.programs.graph import GraphProgram as GraphProgram
    from mechgap.programs.minimal import minimal as minimal
    from mechgap.trace import Kind as Kind
    from mechgap.trace import Location as Location
    from mechgap.trace import Spec as Spec
    from mechgap.trace import Stage as Stage
    from mechgap.trace import Trace as Trace
    from mechgap.trace import Variable as Variable
    from mechgap.training import Ensemble as Ensemble
    from mechgap.training import TrainConfig as TrainConfig
    from mechgap.training import train as train

_HOME = {
    "algorithm": "mechgap.algorithms",
    "algorithm_names": "mechgap.algorithms",
    "text": "mechgap.algorithms",
    "compile": "mechgap.compiler",
    "program": "mechgap.programs",
    "gap": "mechgap.faithfulness",
    "Gap": "mechgap.faithfulness",
    "train": "mechgap.training",
    "Ensemble": "mechgap.training",
    "TrainConfig": "mechgap.training",
    "program_names": "mechgap.programs",
    "Compiled": "mechgap.compiler.to_gatv2",
    "ClrsNet": "mechgap.networks.clrs_net",
    "GraphProgram": "mechgap.programs.graph",
    "minimal": "mechgap.programs.minimal",
    "NetConfig": "mechgap.networks.config",
    "Algorithm": "mechgap.algorithms.definition",
    "Kind": "mechgap.trace",
    "Location": "mechgap.trace",
    "Spec": "mechgap.trace",
    "Stage": "mechgap.trace",
    "Trace": "mechgap.trace",
    "Variable": "mechgap.trace",
}

MODULES = ("text",)  # names that are modules: mg.text.parse

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mechgap' has no attribute {name!r}; it has {', '.join(sorted(_HOME))}")
    if name in MODULES:
        return importlib.import_module(f"{_HOME[name]}.{name}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
