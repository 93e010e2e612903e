"""Read the columns and the vectors of a Parquet file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trainables.datasets.vector_files import FeatureError

Array = NDArray[Any]


class ParquetFeatures:
    """Hold an open Parquet file whose column `features` has a list of numbers in every row."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = pq.ParquetFile(path)
        self._schema = self._file.schema_arrow
        self.rows: int = self._file.metadata.num_rows
        self.names: set[str] = set(self._schema.names)

    def size(self) -> int:
        """Return how many numbers the first vector has."""
        first = next(self._file.iter_batches(1, columns=["features"]), None)
        length = pc.list_value_length(first.column(0))[0].as_py() if first else None
        return length or 0

    def check_kind(self) -> None:
        """Raise ValueError unless the column features has lists of real numbers."""
        kind = self._schema.field("features").type
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        numbers = (pa.types.is_integer, pa.types.is_floating)
        if not any(is_it(kind) for is_it in lists) or not any(
            is_it(kind.value_type) for is_it in numbers
        ):
            raise ValueError(
                f"The column features of {self.path} must have lists of numbers, but has {kind}; "
                f"convert it to list<float>."
            )

    def column(self, name: str) -> Array | None:
        """Return a column of integers or strings; None if there is no such column."""
        if name not in self.names:
            return None
        column = self._file.read(columns=[name]).column(0)
        if column.null_count:
            raise ValueError(
                f"The column {name} of {self.path} must have a value in every row, but "
                f"{column.null_count:,} of {self.rows:,} are null; fill them, or leave them out."
            )
        return np.array(column.to_pylist())

    def blocks(self, size: int, rows: int) -> Iterator[Array]:
        """Yield all vectors in order, so many rows at a time. Raise FeatureError if one has another
        size.
        """
        start = 0
        for batch in self._file.iter_batches(rows, columns=["features"]):
            column = batch.column(0)
            lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
            if (wrong := np.flatnonzero(lengths != size)).size:
                raise FeatureError(
                    f"All vectors of {self.path} must have the same size, but row 0 has {size} "
                    f"numbers and row {start + wrong[0]} has {lengths[wrong[0]]}; make them with "
                    f"one model."
                )
            values = column.flatten()  # a null among them becomes NaN
            yield values.to_numpy(zero_copy_only=False).reshape(-1, size)
            start += len(column)
