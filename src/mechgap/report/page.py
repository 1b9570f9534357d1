"""One self-contained HTML page: no script or font is loaded from anywhere."""

import io
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from mechgap import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Section:
    """A heading, a paragraph, facts as rows of a table, and a picture."""

    heading: str
    text: str = ""
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    figure: "Figure | None" = None


def write_page(path: str | Path, title: str, sections: Sequence[Section]) -> None:
    """Render the sections into one HTML file, atomically."""
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise ImportError("Writing a page needs jinja2: pip install 'mechgap[report]'.") from error
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Cannot write {path}: the folder {path.parent} does not exist. Create it first.")
    template = Environment(autoescape=True).from_string(files("mechgap.report").joinpath("page.html.j2").read_text())
    pictures = [_svg(section.figure) if section.figure is not None else "" for section in sections]
    html = template.render(title=title, version=__version__, sections=list(zip(sections, pictures, strict=True)))
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(html)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def _svg(figure: "Figure") -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
