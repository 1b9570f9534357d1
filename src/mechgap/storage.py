"""One file format for everything that is kept: safetensors with a JSON header. Self-describing, and no pickle."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save


def write_tensors(path: str | Path, tensors: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Write arrays and a JSON header as one safetensors file, atomically: a reader sees the old file or the new one."""
    check_folder(path)
    # safetensors writes a non-contiguous array's memory in the wrong order, silently: hand it contiguous ones.
    # ascontiguousarray would lift a 0-d array to 1-d, hence the order="C" copy.
    arrays = {name: np.array(x, order="C", copy=None) for name, x in tensors.items()}
    unsaved = [name for name, x in arrays.items() if x.dtype.kind not in "biuf"]
    if unsaved:
        raise ValueError(f"Only arrays of numbers can be saved; {unsaved[0]!r} has dtype {arrays[unsaved[0]].dtype}.")
    # One metadata key: with several, the writer's order is random and equal contents would differ in bytes.
    blob = save(arrays, metadata={"mechgap": json.dumps(header, sort_keys=True)})
    write_bytes(path, blob)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, blob: bytes) -> None:
    """Write a file, atomically: a reader, or a run after a crash, sees the old file or the new one, whole."""
    with new_file(path) as file:
        file.write(blob)


@contextmanager
def new_file(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to piece by piece, which takes its place when the block ends; a failure leaves nothing behind."""
    path = Path(path)
    check_folder(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def writable_folder(folder: str | Path) -> Path:
    """A folder, made where it is missing; an error where nothing can be written into it, before any work is done."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(
            f"Cannot write into {folder}: {error.strerror}. Give another folder, or make it writable."
        ) from error
    return folder


def check_folder(path: str | Path) -> None:
    """Refuse a path whose folder does not exist, before any work is done for it."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"Cannot write {path}: the folder {folder} does not exist. Create it first.")


def read_tensors(path: str | Path, expected_format: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the arrays and the header of a file that `write_tensors` wrote."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"No file {path}.")
    try:
        with safe_open(str(path), framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("mechgap", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is not a readable safetensors file ({error}); it may be truncated.") from error
    if not isinstance(header, dict) or header.get("format") != expected_format:
        given = header.get("format") if isinstance(header, dict) else None
        raise ValueError(f"{path} is not a {expected_format} file; its header says {given!r}.")
    return tensors, header
