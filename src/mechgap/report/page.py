"""One self-contained HTML page: no script or font is loaded from anywhere."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from mechgap import __version__
from mechgap.storage import check_folder, write_text

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
    check_folder(path)
    template = Environment(autoescape=True).from_string(files("mechgap.report").joinpath("page.html.j2").read_text())
    pictures = [_svg(section.figure) if section.figure is not None else "" for section in sections]
    html = template.render(title=title, version=__version__, sections=list(zip(sections, pictures, strict=True)))
    write_text(path, html)


def _svg(figure: "Figure") -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
