"""A run's table while it grows: parts on disk, written as the run's table and read back by column."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.core.files import replacing, writing
from engine.core.schema import Table
from engine.runs.folder import RunFolder, schema_of


class TableParts:
    """Rows of a table in the order they came, checked part by part and kept in an unnamed file of the run's folder.

    The file is gone with the process. In memory stay eight bytes a row, a digest of its key.
    """

    def __init__(self, run: RunFolder, name: str) -> None:
        self._run, self._name, self._table = run, name, schema_of(name)
        self._file: Any = None
        self._places: list[tuple[int, int]] = []
        self._keys: list[np.ndarray[Any, Any]] = []
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, frame: pd.DataFrame) -> None:
        """Check rows and keep them behind those before.

        Raises:
            InputError: they do not fit the table.
            WriteError: the folder cannot be written.
        """
        import pyarrow.parquet as pq

        checked = self._table.conform(frame)
        if checked.empty:
            return
        if self._table.key:
            self._keys.append(pd.util.hash_array(checked[self._table.key].to_numpy(dtype=object), categorize=False))
        with writing(self._run.path):
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._run.path)  # noqa: SIM115 - closed with this object
                weakref.finalize(self, self._file.close)
            start = self._file.seek(0, 2)
            pq.write_table(_arrow(self._table, checked), self._file)
            self._places.append((start, self._file.tell() - start))
        self._rows += len(checked)

    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """All rows so far.

        Args:
            columns: those that are read; None for all.
        """
        import pyarrow as pa

        table = self._table.only(columns) if columns is not None else self._table
        if not self._places:
            return table.empty()
        return table.conform(pa.concat_tables(self._parts(table.names)).to_pandas())

    def publish(self, more: pd.DataFrame | None = None) -> None:
        """Replace the run's table by the rows so far, a part at a time.

        Args:
            more: rows that stand behind them in the table this time.

        Raises:
            InputError: the key repeats.
            WriteError: the folder cannot be written.
        """
        import pyarrow.parquet as pq

        self._check_keys()
        place, columns = self._run.path / f"{self._name}.parquet", _arrow_schema(self._table)
        with replacing(place) as out, pq.ParquetWriter(out, columns) as writer:
            for part in self._parts():
                writer.write_table(part)
            if more is not None and len(more):
                writer.write_table(_arrow(self._table, self._table.conform(more)))

    def _parts(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for start, size in self._places:
            self._file.seek(start)
            yield pq.read_table(pa.BufferReader(self._file.read(size)), columns=columns)

    def _check_keys(self) -> None:
        if not self._keys:
            return
        self._keys = [np.concatenate(self._keys)]
        if len(np.unique(self._keys[0])) < self._rows:
            self.frame([self._table.key])  # which names the key, unless two digests merely agree


def _arrow(table: Table, frame: pd.DataFrame) -> Any:
    import pyarrow as pa

    return pa.Table.from_pandas(frame, schema=_arrow_schema(table), preserve_index=False)


def _arrow_schema(table: Table) -> Any:
    """The table's columns for parquet, the same whatever rows a part holds; pandas finds its own types in it again."""
    import pyarrow as pa

    kinds = {"str": pa.large_string(), "float": pa.float64(), "int": pa.int64(), "list": pa.list_(pa.float64())}
    by_pandas = pa.Schema.from_pandas(table.empty(), preserve_index=False)
    return pa.schema([(c.name, kinds[c.kind]) for c in table.columns], metadata=by_pandas.metadata)
