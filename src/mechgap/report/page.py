"""Pages: one HTML file that works offline, made from a template, styles, scripts and data; all share page_base/."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from mechgap import __version__

BASE = "page_base"
TYPES = {"uint8": np.uint8, "int16": np.int16, "float32": np.float32}


@dataclass
class PageData:
    """Values for the scripts, and the arrays they refer to by name."""

    values: dict[str, Any] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)

    def keep(self, name: str, x: np.ndarray) -> dict[str, Any]:
        """Store an array, gzipped and in base64; the answer is what a script needs to find it."""
        kind = next((k for k, t in TYPES.items() if x.dtype == t), None)
        if kind is None:
            raise TypeError(f"The page reads {', '.join(TYPES)}; {name} is {x.dtype}.")
        packed = gzip.compress(np.ascontiguousarray(x).tobytes(), compresslevel=9, mtime=0)
        self.blobs[name] = base64.b64encode(packed).decode()
        return {"blob": name, "type": kind, "shape": list(x.shape)}


def render_page(folder: str, scripts: Sequence[str], values: Mapping[str, Any]) -> str:
    """A page as text.

    Args:
        folder: beside this file, with page.html.j2 (which extends the base's), page.css and the scripts.
        scripts: their names, in order; they are joined into one, after the base's. Those of other folders have theirs
            in front: "page_base/graph".
        values: of the template: `title`, `contents` (pairs of id and name), `data` (`script_json`), its own, and
            `blobs`, where arrays are kept (`PageData`).
    """
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError as error:
        raise ImportError("Writing a page needs jinja2: pip install 'mechgap[report]'.") from error
    css = [_text(BASE, "base.css"), _text(folder, "page.css")]
    js = [_text(BASE, "base.js"), *(_text("" if "/" in name else folder, f"{name}.js") for name in scripts)]
    joined = {
        "css": "\n".join(css),
        "js": '(() => {\n"use strict";\n' + "\n".join(js) + "})();",
        "version": __version__,
    }
    loader = PackageLoader("mechgap", "report")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(f"{folder}/page.html.j2").render(joined | dict(values))


def script_json(values: Any) -> str:
    """Values as JSON that can stand inside a script element."""
    return json.dumps(values, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _text(folder: str, name: str) -> str:
    return files("mechgap.report").joinpath(folder, name).read_text("utf-8")
