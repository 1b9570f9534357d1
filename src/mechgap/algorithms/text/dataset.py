"""Questions and answers as files: Parquet, as Hugging Face's `datasets` loads it, or JSON lines.

The columns are those of the reference package's generator for Hugging Face: text, question, answer, algo_name, length,
use_hints.
"""

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mechgap.algorithms.distributions import BenchmarkStream
from mechgap.algorithms.text.brackets import check_is_text, shortened
from mechgap.algorithms.text.layout import ALGORITHMS, layout
from mechgap.algorithms.text.sampling import inputs_of, stream
from mechgap.algorithms.text.writing import DECIMALS, Example
from mechgap.storage import check_folder, new_file

COLUMNS = {
    "text": "string",
    "question": "string",
    "answer": "string",
    "algo_name": "string",
    "length": "int32",
    "use_hints": "bool_",
}
SUFFIXES = (".parquet", ".jsonl")
ROWS_AT_ONCE = 1024

Row = dict[str, Any]


@dataclass(frozen=True)
class DatasetConfig:
    """What a data set consists of.

    Attributes:
        algorithms: names.
        sizes: values of n; every algorithm has all of them.
        count: samples per algorithm and size.
        seed: of every sampler, as in the reference generator.
        hints: write the executions, too.
        decimals: of the inputs; None keeps all.
    """

    algorithms: tuple[str, ...] = ALGORITHMS
    sizes: tuple[int, ...] = tuple(range(4, 17))
    count: int = 10
    seed: int = 0
    hints: bool = False
    decimals: int | None = DECIMALS

    def __post_init__(self) -> None:
        for name in self.algorithms:
            layout(name)  # refuses what is none
        for what, given in (("algorithms", self.algorithms), ("sizes", self.sizes)):
            if len(set(given)) < len(given):
                shown = ", ".join(map(str, given))
                raise ValueError(f"The {what} of a data set must be different; got {shown}. Name each once.")
        if not self.algorithms or not self.sizes or self.count < 1:
            raise ValueError(
                f"A data set needs an algorithm, a size and a count of at least 1; got {len(self.algorithms)} "
                f"algorithms, {len(self.sizes)} sizes and count = {self.count}."
            )
        random = BenchmarkStream(self.seed)
        for name in self.algorithms:  # two strings, or four communities, need some nodes: say so before any work
            try:
                inputs_of(name, min(self.sizes), 1, random, self.decimals)
            except ValueError as error:
                raise ValueError(f"No samples of {name} with n = {min(self.sizes)}: {error}") from None

    @property
    def rows(self) -> int:
        """How many samples it has."""
        return len(self.algorithms) * len(self.sizes) * self.count


def examples_of(config: DatasetConfig, finished: Callable[[str], None] = lambda _: None) -> Iterator[Example]:
    """All samples, by algorithm and then by size; `finished` is told after each algorithm."""
    for name in config.algorithms:
        for n in config.sizes:
            yield from stream(name, n, config.count, seed=config.seed, hints=config.hints, decimals=config.decimals)
        finished(name)


def as_row(example: Example) -> Row:
    """A sample under the names of the columns."""
    fields = (example.text, example.question, example.answer, example.algorithm, example.length, example.hints)
    return dict(zip(COLUMNS, fields, strict=True))


def write_dataset(
    path: str | Path,
    config: DatasetConfig,
    *,
    progress: Callable[[Example], None] = lambda _: None,
    finished: Callable[[str], None] = lambda _: None,
) -> None:
    """Write a data set, atomically: the file appears when it is whole.

    Args:
        path: ends in .parquet or .jsonl.
        config: what to write.
        progress: called with every sample.
        finished: called with every algorithm that is done.
    """
    waiting: list[Row] = []
    with _writer(Path(path), config) as put:
        for example in examples_of(config, finished):
            waiting.append(as_row(example))
            progress(example)
            if len(waiting) == ROWS_AT_ONCE:
                put(waiting)
                waiting = []
        if waiting:
            put(waiting)


def read_rows(path: str | Path, columns: Sequence[str] = ()) -> list[Row]:
    """The rows of a .parquet or .jsonl file; those columns must be there, as text."""
    path = Path(path)
    _check_suffix(path)
    if not path.is_file():
        raise FileNotFoundError(f"No file {path}.")
    rows = _parquet_rows(path) if path.suffix == ".parquet" else list(_json_rows(path))
    if not rows:
        raise ValueError(f"{path} has no rows. Write one row per question.")
    for number, row in enumerate(rows, 1):
        for name in columns:
            if row.get(name) is None:
                raise ValueError(f"Row {number} of {path} has no {name!r}; it has {', '.join(map(repr, row))}.")
            check_is_text(f"{name!r} in row {number} of {path}", row[name])
    return rows


def _parquet_rows(path: Path) -> list[Row]:
    parquet = _parquet()
    try:
        return parquet.read_table(path).to_pylist()
    except (ValueError, OSError) as error:  # pyarrow's own errors are these
        raise ValueError(f"{path} cannot be read as Parquet ({error}). Write it anew, or as .jsonl.") from None


def _json_rows(path: Path) -> Iterator[Row]:
    # Bytes are cut at newlines only: a string may hold other characters that end a line, such as U+2028.
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n") if path.stat().st_size else []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line.decode())
        except UnicodeDecodeError as error:
            byte = f"byte {line[error.start]:#04x} at place {error.start}"
            raise ValueError(f"Line {number} of {path} is not UTF-8 ({byte}). Save the file as UTF-8.") from None
        except json.JSONDecodeError as error:
            raise ValueError(f"Line {number} of {path} is not JSON ({error.msg}). Write one object per line.") from None
        if not isinstance(row, dict):
            raise ValueError(f"Line {number} of {path} must be an object of columns; got {shortened(line.decode())}.")
        yield row


def _writer(path: Path, config: DatasetConfig) -> AbstractContextManager[Callable[[list[Row]], None]]:
    _check_suffix(path)
    check_folder(path)
    return _parquet_writer(path, config) if path.suffix == ".parquet" else _json_writer(path)


def _check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise ValueError(f"The file must end in {' or '.join(SUFFIXES)}; got {str(path)!r}.")


@contextmanager
def _json_writer(path: Path) -> Iterator[Callable[[list[Row]], None]]:
    with new_file(path) as file:
        yield lambda rows: file.writelines((json.dumps(row) + "\n").encode() for row in rows)


@contextmanager
def _parquet_writer(path: Path, config: DatasetConfig) -> Iterator[Callable[[list[Row]], None]]:
    parquet, arrow = _parquet(), importlib.import_module("pyarrow")
    types = [(name, getattr(arrow, kind)()) for name, kind in COLUMNS.items()]
    schema = arrow.schema(types, metadata={"mechgap": json.dumps(asdict(config))})
    with new_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        yield lambda rows: writer.write_table(arrow.Table.from_pylist(rows, schema))


def _parquet() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'mechgap[parquet]', or name a .jsonl file.") from None
