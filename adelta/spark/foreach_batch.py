"""Work on each micro-batch of a stream that is done at most once, as far as its tables show.

`foreachBatch` runs a function again for a micro-batch whose end nobody noted. What the function
commits with the `txn` of its `MicroBatch` is then in the table already, and is not done again.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from adelta._dataclasses import dataclass
from adelta.errors import InvalidUseError, TableNotFoundError
from adelta.log.load import load_state
from adelta.spark.options.commits import TXN_SETTINGS
from adelta.spark.session.registration import choose_side
from adelta.sync._portal import call
from adelta.table import open_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

__all__ = ["MicroBatch", "foreach_batch"]


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Which micro-batch of which stream is worked on.

    Attributes:
        app_id: what the stream is called in the tables that it writes to.
        batch_id: the number of the micro-batch.
    """

    app_id: str
    batch_id: int

    @property
    def txn(self) -> tuple[str, int]:
        """The argument `txn` of `adelta.spark.write`, and of all that takes one."""
        return self.app_id, self.batch_id

    @property
    def options(self) -> dict[str, str]:
        """The options of a writer that say the same: ``df.write.options(**batch.options)``."""
        return {"txnAppId": self.app_id, "txnVersion": str(self.batch_id)}

    @contextmanager
    def recorded(self, spark: SparkSession) -> Iterator[None]:
        """Let what deletes, updates, merges and writes in the block be done once in each table.

        That is by the settings of the session `spark`, that of the micro-batch's rows. A table
        takes one change of a micro-batch: the next one is skipped as done.
        """
        names = {setting: self.options[option] for option, setting in TXN_SETTINGS.items()}
        before = {name: spark.conf.get(name, None) for name in names}
        for name, mine in names.items():
            spark.conf.set(name, mine)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, value)

    def is_done(self, uri: str, storage_options: Mapping[str, str] | None = None) -> bool:
        """Whether a table shows that something was committed to it with this `txn`, or a later one.

        Raises:
            InvalidTableError: the log is damaged.
        """

        async def ask() -> bool:
            async with open_table(uri, storage_options) as table:
                try:
                    state = await load_state(table.store)
                except TableNotFoundError:
                    return False
                done = (await state.set_transactions()).get(self.app_id)
                return done is not None and done.version >= self.batch_id

        return call(ask)


def foreach_batch(
    function: Callable[[DataFrame, MicroBatch], object], *, app_id: str | None = None
) -> Callable[[DataFrame, int], None]:
    """What ``writeStream.foreachBatch`` takes: it gives `function` the rows, and whose they are.

    A stream is called by the id of its query, which its checkpoint keeps; on Spark Connect, where a
    function cannot learn that, by `app_id`, which has to be another one for every checkpoint.

    Example::

        def add(df, batch):
            adelta.spark.write(df, "s3://lake/bronze", mode="append", txn=batch.txn)

        def upsert(df, batch):
            silver = DeltaTable.forPath(df.sparkSession, "s3://lake/silver")
            merge = silver.alias("t").merge(df.alias("s"), "t.id = s.id")
            merge = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()
            with batch.recorded(df.sparkSession):
                merge.execute()

        stream.writeStream.foreachBatch(adelta.spark.foreach_batch(upsert)).start()

    Raises:
        InvalidUseError: Spark Connect is used, and there is no `app_id`.
    """
    spark = SparkSession.getActiveSession()
    if app_id is None and spark is not None and not choose_side(spark).knows_query_ids:
        raise InvalidUseError(_NO_ID)

    @wraps(function)
    def work(df: DataFrame, batch_id: int) -> None:
        name = app_id if app_id is not None else _query_id(df)
        function(df, MicroBatch(name, int(batch_id)))

    return work


_NO_ID = (
    "which query runs is not known here: name it, as in foreach_batch(function, app_id='orders-1'),"
    " by another name for every checkpoint"
)


def _query_id(df: DataFrame) -> str:
    found = choose_side(df.sparkSession).query_id(df)
    if found is None:
        raise InvalidUseError(_NO_ID)
    return found
