"""Is this machine ready? Versions, devices, folders, and what to do about anything that is wrong."""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

NEEDED = {"jax": (0, 10, 2), "jaxlib": (0, 10, 2), "equinox": (0, 13, 8), "numpy": (2, 0), "safetensors": (0, 5)}
OPTIONAL = {"matplotlib": "report", "jinja2": "report", "dm-clrs": "clrs"}


@dataclass(frozen=True)
class Finding:
    """One line of the examination; `advice` is empty where all is well, and `wrong` where it must be acted on."""

    subject: str
    found: str
    advice: str = ""
    wrong: bool = False


def examine() -> list[Finding]:
    """Look at everything that mechgap depends on."""
    findings = [
        Finding("python", platform.python_version()),
        Finding("mechgap", _version("mechgap") or "not installed"),
    ]
    findings += [_needed(name, least) for name, least in NEEDED.items()]
    findings += [_optional(name, extra) for name, extra in OPTIONAL.items()]
    return [*findings, *_devices(), _cache(), _memory()]


def print_findings(findings: list[Finding]) -> bool:
    """Print the examination; True where nothing is wrong."""
    table = Table(title="mechgap doctor", title_justify="left")
    for column in ("", "subject", "found", "what to do"):
        table.add_column(column)
    for finding in findings:
        sign = "[red]✗[/red]" if finding.wrong else "[yellow]![/yellow]" if finding.advice else "[green]✓[/green]"
        table.add_row(sign, finding.subject, escape(finding.found), escape(finding.advice))
    console = Console()
    console.print(table)
    wrong = [f for f in findings if f.wrong]
    console.print(f"[red]{len(wrong)} to fix[/red]" if wrong else "[green]ready[/green]")
    return not wrong


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _needed(name: str, least: tuple[int, ...]) -> Finding:
    found, wanted = _version(name), ".".join(map(str, least))
    if found is None:
        return Finding(name, "missing", f"pip install '{name}>={wanted}'", wrong=True)
    numbers = tuple(int(part) for part in found.split(".")[:3] if part.isdigit())
    if numbers < least:
        return Finding(name, found, f"{wanted} or newer is needed: pip install -U '{name}>={wanted}'", wrong=True)
    return Finding(name, found)


def _optional(name: str, extra: str) -> Finding:
    found = _version(name)
    return Finding(name, found) if found else Finding(name, "missing (optional)", f"pip install 'mechgap[{extra}]'")


def _devices() -> Iterator[Finding]:
    try:
        import jax

        devices = jax.devices()
    except Exception as error:  # whatever a broken driver raises is the finding
        yield Finding("devices", f"jax failed: {error}", "reinstall jax, or set JAX_PLATFORMS=cpu", wrong=True)
        return
    yield Finding("devices", ", ".join(f"{d.platform}:{d.id} {d.device_kind}" for d in devices))
    if devices[0].platform == "cpu" and shutil.which("nvidia-smi"):
        yield Finding("accelerator", "an NVIDIA driver, but jax sees only the CPU", "pip install 'jax[cuda12]'")


def _cache() -> Finding:
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if not folder:
        return Finding("compilation cache", "off", "set JAX_COMPILATION_CACHE_DIR to a folder to compile only once")
    if Path(folder).is_dir() and not os.access(folder, os.W_OK):
        return Finding("compilation cache", folder, "the folder is not writable: fix it or name another", wrong=True)
    return Finding("compilation cache", folder)


def _memory() -> Finding:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    gib = pages * size / 2**30
    advice = "less than 4 GiB: use small batches" if gib < 4 else ""
    return Finding("memory, cores", f"{gib:.1f} GiB, {len(os.sched_getaffinity(0))} cores", advice)
