"""Tasks that exchange what they have read, as one job of Spark's, on classic and Connect.

Readers make blobs, Spark sorts these by their part, and a writer is handed all blobs of a part at a
time. What adelta raises in a task is an outcome like others, and is raised again here.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

from adelta.errors import AdeltaError
from adelta.log.clustered_replay import Blob
from adelta.spark.cluster.task_executor import SparkTaskExecutor, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from adelta.operations.distributed_checkpoint import PartTask, ReadTask, WrittenRows

__all__ = ["SparkClusterExecutor"]

pc: Any = pyarrow.compute  # the stubs refuse most mixtures of arrays and scalars

_MOST_EXCHANGES = 1000  # partitions of an exchange
_ROWS = 256  # of blobs that Spark is handed at once
_BLOBS = "number long, part int, kind string, data binary"
_FAILED = -1  # the part of what is no blob but an error


class SparkClusterExecutor(SparkTaskExecutor):
    """Runs tasks as jobs of Spark's, and such as exchange what they have read."""

    async def run_clustered(
        self, readers: Sequence[ReadTask], writer: PartTask
    ) -> list[WrittenRows]:
        """What `writer` has made of every part of which a reader had actions.

        This process sees none of what is read.

        Raises:
            AdeltaError: as a task did.
            PySparkException: Spark failed, or the job was cancelled.
        """
        read: Any = _Read([pickle.dumps(reader) for reader in readers], *self._address)
        made = _Write(pickle.dumps(writer), *self._address)
        parts = max(1, min(writer.parts, _MOST_EXCHANGES))

        def write(blobs: pa.Table) -> pa.Table:  # Spark looks at the annotations of a function
            return made(blobs)

        def job() -> DataFrame:
            blobs = self.numbers(len(readers)).mapInArrow(read, _BLOBS)
            exchanged = blobs.repartition(parts, "part").groupBy("part")
            return exchanged.applyInArrow(write, "outcome binary")

        found: list[WrittenRows] = []
        for row in await self.collected(job):
            outcome = pickle.loads(row["outcome"])
            if isinstance(outcome, AdeltaError):
                raise outcome
            found.append(outcome)
        return found


class _Read:
    """What Spark's tasks do before the exchange."""

    def __init__(self, readers: list[bytes], uri: str, options: Mapping[str, str]) -> None:
        self._readers = readers
        self._address = uri, options

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in map(int, batch.column("id").to_numpy()):
                yield from self._blobs(number)

    def _blobs(self, number: int) -> Iterator[pa.RecordBatch]:
        found: Any = outcome_of(pickle.loads(self._readers[number]).run, *self._address)
        if isinstance(found, AdeltaError):
            found = [Blob(_FAILED, "", pickle.dumps(found))]
        for start in range(0, len(found), _ROWS):
            some: list[Blob] = found[start : start + _ROWS]
            yield pa.record_batch(
                {
                    "number": pa.array([number] * len(some), pa.int64()),
                    "part": pa.array([blob.part for blob in some], pa.int32()),
                    "kind": pa.array([blob.kind for blob in some], pa.string()),
                    "data": pa.array([blob.data for blob in some], pa.binary()),
                }
            )


class _Write:
    """What Spark's tasks do after the exchange: all of one part at a time."""

    def __init__(self, writer: bytes, uri: str, options: Mapping[str, str]) -> None:
        self._writer = writer
        self._address = uri, options

    def __call__(self, blobs: pa.Table) -> pa.Table:
        blobs = blobs.take(pc.sort_indices(blobs.column("number")))  # the same at every try
        part = blobs.column("part")[0].as_py()
        if part == _FAILED:
            outcome = blobs.column("data")[0].as_py()
        else:
            columns = (blobs.column(name).to_pylist() for name in ("kind", "data"))
            read = [Blob(part, *each) for each in zip(*columns, strict=True)]
            writer: PartTask = pickle.loads(self._writer)
            done = outcome_of(lambda roots: writer.run(roots, part, read), *self._address)
            outcome = pickle.dumps(done)
        return pa.table({"outcome": pa.array([outcome], pa.binary())})
