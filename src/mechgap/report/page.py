"""Pages: one HTML file that works offline, made from a template, styles, scripts and data; all share page_base/."""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from mechgap import __version__

BASE = "page_base"


def render_page(folder: str, scripts: Sequence[str], values: Mapping[str, Any]) -> str:
    """A page as text.

    Args:
        folder: beside this file, with page.html.j2 (which extends the base's), page.css and the scripts.
        scripts: their names, in order; they are joined into one, after the base's.
        values: of the template: `title`, `contents` (pairs of id and name), `data` (`script_json`), and its own.
    """
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError as error:
        raise ImportError("Writing a page needs jinja2: pip install 'mechgap[report]'.") from error
    css = [_text(BASE, "base.css"), _text(folder, "page.css")]
    js = [_text(BASE, "base.js"), *(_text(folder, f"{name}.js") for name in scripts)]
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
