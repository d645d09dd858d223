"""Where the JVM sees a table's folder, which Spark's own code reads and writes, or why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._secrets import without_secrets
from adelta.spark.classic import jvm
from adelta.spark.options.hadoop_conf import TABLE_SETTINGS
from adelta.storage.addresses import Place
from adelta.storage.allowed_roots import allowed_roots
from adelta.storage.providers import LOCAL, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adelta.spark.options.read_write import ReadOptions, WriteOptions

__all__ = ["NotNativeError", "hadoop_root", "shown_address"]


class NotNativeError(Exception):
    """Why adelta reads or writes a table's files itself."""


def shown_address(options: ReadOptions | WriteOptions) -> str:
    """The table's address for people, the same for all spellings."""
    return without_secrets(Place.of(options.uri).address)


def hadoop_root(spark: SparkSession, options: ReadOptions | WriteOptions) -> str:
    """What the JVM calls the table's folder.

    Raises:
        NotNativeError: it may see another folder there, or none.
    """
    of_tables = TABLE_SETTINGS.values()  # which are about the log, and no matter of the JVM's
    if options.storage_options.keys() - of_tables and not options.session_storage:
        raise NotNativeError("storage options are adelta's, and Spark has its own")
    place, scheme = Place.of(options.uri), scheme_of(options.uri)
    for other in allowed_roots(options.storage_options):
        if other.options is not None or other.place.provider not in (LOCAL, place.provider):
            raise NotNativeError(f"{other.place.address} is opened in another way than the table")
    if place.provider is LOCAL or scheme is None:
        return f"file:{place.address}"
    root = options.uri.rstrip("/")
    if (reason := jvm.why_not_listed(spark, f"{root}/_delta_log")) is not None:
        raise NotNativeError(f"the JVM cannot read there: {without_secrets(reason)}")
    return root
