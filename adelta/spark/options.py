"""The options of ``format("adelta")``, read once into values.

Spark hands options over with their keys in lower case. A key is one of the options below, or a
storage option (``aws_...``, ``timeout`` and the like, with or without the prefix ``option.``).
Anything else is refused: a misspelt ``versionAsOf`` must not read the latest version instead.
"""

from __future__ import annotations

import difflib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.dnf import to_predicate
from adelta.operations.write_kind import WriteKind
from adelta.operations.write_transactions import WriteRequest
from adelta.storage.option_names import is_known
from adelta.storage.providers import OPTION_PREFIXES
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.expressions.nodes import Node
    from adelta.operations.write_kind import PartitionOverwrite, SchemaMode, WriteMode

__all__ = ["ReadOptions", "WriteOptions", "absolute_uri"]

_READ = (
    "path",
    "versionAsOf",
    "timestampAsOf",
    "columns",
    "where",
    "filterPushdown",
    "maxPartitionBytes",
    "minPartitions",
    "timeZone",
)
_WRITE = (
    "path",
    "partitionBy",
    "ifExists",
    "txnAppId",
    "txnVersion",
    "userMetadata",
    "optimizeWrite",
    "targetFileSize",
    "mergeSchema",
    "overwriteSchema",
    "replaceWhere",
    "partitionOverwriteMode",
)
_STORAGE_PREFIXES = (*OPTION_PREFIXES, "adelta_", "delta_dynamo_", "option.")
_NOT_YET = {
    "readchangefeed": "false",
    "datachange": "true",
}
"""delta-spark's options that adelta does not have, with the value that asks for nothing."""

_MAX_PARTITION_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a batch read was asked for.

    `columns` are all that is read of a table, `where` says which rows, and `time_zone` which time
    it means by one that names no zone. Files are packed into tasks of `max_partition_bytes`, but at
    least `min_partitions` of them. `filter_pushdown` lets Spark hand over the filters of a query:
    with PySpark up to 4.3 that is wrong where the DataFrame serves more than one.
    """

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)  # may hold secrets
    version: int | None = None
    timestamp: str | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    time_zone: str = "UTC"
    filter_pushdown: bool = False
    max_partition_bytes: int = _MAX_PARTITION_BYTES
    min_partitions: int = 1

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """The options of a read.

        Raises:
            InvalidOptionError: an option is unknown, missing or has a wrong value.
        """
        given, storage = _sort(options, _READ)
        if "versionasof" in given and "timestampasof" in given:
            raise InvalidOptionError("give versionAsOf or timestampAsOf, not both")
        columns = _names("columns", given.get("columns"))
        if columns == ():
            raise InvalidOptionError("the option columns names no column; leave it out for all")
        most = _integer("maxPartitionBytes", given.get("maxpartitionbytes"), least=1)
        fewest = _integer("minPartitions", given.get("minpartitions"), least=1)
        return cls(
            uri=_uri(given),
            storage_options=storage,
            version=_integer("versionAsOf", given.get("versionasof"), least=0),
            timestamp=given.get("timestampasof"),
            columns=columns,
            where=given.get("where"),
            time_zone=given.get("timezone", "UTC"),
            filter_pushdown=_boolean("filterPushdown", given.get("filterpushdown", "false")),
            max_partition_bytes=most or _MAX_PARTITION_BYTES,
            min_partitions=fewest or os.cpu_count() or 1,
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a batch write was asked for.

    `partition_by` is for a table that the write creates. `if_exists` is ``error`` or ``ignore``
    where an existing table is not to be written to. With `txn`, an application's id and the number
    of this write, work that the table shows as done is skipped. `data_files` says how each task
    writes its files. `schema_mode`, `replace_where` and `partition_overwrite` are as for
    `adelta.write_table`.
    """

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)  # may hold secrets
    partition_by: tuple[str, ...] | None = None
    if_exists: Literal["error", "ignore"] | None = None
    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    data_files: DataFileOptions = AS_THE_TABLE_SAYS
    schema_mode: SchemaMode | None = None
    replace_where: Node | None = None
    partition_overwrite: PartitionOverwrite = "static"

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """The options of a write.

        Raises:
            InvalidOptionError: an option is unknown, missing or has a wrong value.
            InvalidExpressionError: `replaceWhere` cannot be parsed.
        """
        given, storage = _sort(options, _WRITE)
        app_id, version = given.get("txnappid"), given.get("txnversion")
        if (app_id is None) != (version is None):
            raise InvalidOptionError("txnAppId and txnVersion belong together: give both or none")
        number = _integer("txnVersion", version, least=0)
        return cls(
            uri=_uri(given),
            storage_options=storage,
            partition_by=_names("partitionBy", given.get("partitionby")),
            if_exists=_if_exists(given.get("ifexists")),
            txn=None if app_id is None or number is None else (app_id, number),
            user_metadata=given.get("usermetadata"),
            data_files=DataFileOptions(
                target_file_size=_integer("targetFileSize", given.get("targetfilesize"), least=1),
                optimize_write=_optional_boolean("optimizeWrite", given.get("optimizewrite")),
            ),
            schema_mode=_schema_mode(given),
            replace_where=to_predicate(given.get("replacewhere")),
            partition_overwrite=_partition_overwrite(given.get("partitionoverwritemode", "static")),
        )

    def request(self, *, overwrite: bool) -> WriteRequest:
        """What the write does to a table that is there, or makes.

        Raises:
            InvalidOptionError: an option makes no sense beside another one, or in this mode.
        """
        mode: WriteMode = self.if_exists or ("overwrite" if overwrite else "append")
        # Sessions set this one for all of their writes.
        partitions = self.partition_overwrite if mode == "overwrite" else "static"
        return WriteRequest(
            WriteKind(mode, self.schema_mode, self.replace_where, partitions),
            self.partition_by,
            None,
            {},
            self.txn,
            self.user_metadata,
            self.data_files,
        )


def absolute_uri(uri: str) -> str:
    """The address with a relative path made one of this process's directory."""
    return uri if ":/" in uri else os.path.abspath(uri)


def _names(name: str, text: str | None) -> tuple[str, ...] | None:
    """Names in an option: separated by commas, or a JSON list where a name holds a comma."""
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except ValueError as error:
            raise InvalidOptionError(f"the option {name} is not a JSON list: {text!r}") from error
        if not all(isinstance(n, str) for n in names):
            raise InvalidOptionError(f"the option {name} is not a list of names: {text!r}")
        return tuple(names)
    return tuple(n.strip().strip("`") for n in text.split(",") if n.strip())


def _sort(
    options: Mapping[str, str], known: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    """Options of adelta, by lower-case key, and options of the store."""
    lowered = {name.lower() for name in known}
    given: dict[str, str] = {}
    storage: dict[str, str] = {}
    for key, value in options.items():
        folded = key.lower()
        if folded in lowered:
            given[folded] = value
        elif folded.startswith(_STORAGE_PREFIXES) or is_known(folded):
            storage[folded.removeprefix("option.")] = value
        elif folded not in _NOT_YET:
            close = difflib.get_close_matches(folded, sorted(lowered), n=1)
            hint = f"; did you mean {_spelt(close[0], known)}?" if close else ""
            raise InvalidOptionError(
                f"adelta has no option {key!r} here{hint} Options are {', '.join(known)}; those "
                "of the store may be prefixed with 'option.'"
            )
        elif value.lower() != _NOT_YET[folded]:
            raise InvalidOptionError(
                f"the option {key}={value} is not supported by this version of adelta"
            )
    return given, storage


def _spelt(folded: str, known: tuple[str, ...]) -> str:
    return next(name for name in known if name.lower() == folded)


def _uri(given: Mapping[str, str]) -> str:
    path = given.get("path")
    if not path:
        raise InvalidOptionError(
            "no table is named: give its address, as in spark.read.format('adelta').load(path)"
        )
    return absolute_uri(path)


def _integer(name: str, text: str | None, *, least: int) -> int | None:
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise InvalidOptionError(
            f"the option {name} is {text!r}; it must be an integer of {least} or more"
        )
    return number


def _schema_mode(given: Mapping[str, str]) -> SchemaMode | None:
    if _boolean("overwriteSchema", given.get("overwriteschema", "false")):
        return "overwrite"
    return "merge" if _boolean("mergeSchema", given.get("mergeschema", "false")) else None


def _partition_overwrite(text: str) -> PartitionOverwrite:
    match text.lower():
        case "static":
            return "static"
        case "dynamic":
            return "dynamic"
    raise InvalidOptionError(
        f"the option partitionOverwriteMode is {text!r}; it can be 'static' or 'dynamic'"
    )


def _if_exists(text: str | None) -> Literal["error", "ignore"] | None:
    match text:
        case None | "error" | "ignore":
            return text
    raise InvalidOptionError(f"the option ifExists is {text!r}; it can be 'error' or 'ignore'")


def _optional_boolean(name: str, text: str | None) -> bool | None:
    return None if text is None else _boolean(name, text)


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidOptionError(f"the option {name} is {text!r}; it can be 'true' or 'false'")
    return text.lower() == "true"
