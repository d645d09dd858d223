"""The options of ``format("adelta")``, read once into values.

Spark hands options over with their keys in lower case. A key is one of the options below, or a
storage option (``aws_...``, ``timeout`` and the like, with or without the prefix ``option.``).
Anything else is refused: a misspelt ``versionAsOf`` must not read the latest version instead.
"""

from __future__ import annotations

import difflib
import json
import os
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.expressions.nodes import Column, children_of, with_children
from adelta.kernel.table_features import validate_properties
from adelta.operations.write_kind import WriteKind
from adelta.operations.write_transactions import DEFINITIONS, WriteRequest
from adelta.spark.options.changes import CHANGE_OPTIONS, ChangeRange
from adelta.spark.options.hadoop_conf import (
    TABLE_SETTINGS,
    prefixed,
    storage_of,
    storage_of_tables,
    storage_options_of,
)
from adelta.spark.options.replacing import REPLACE_OPTIONS, ReplaceOptions
from adelta.spark.options.unity import CATALOG_OPTIONS, catalog_client
from adelta.storage.option_names import is_known
from adelta.storage.providers import OPTION_PREFIXES
from adelta.table import open_table
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.commit.unity_catalog import UnityCatalogClient
    from adelta.kernel.expressions.nodes import Node
    from adelta.operations.write_kind import PartitionOverwrite, SchemaMode, WriteMode
    from adelta.operations.write_transactions import DefinedBy
    from adelta.table import Table

__all__ = [
    "READ_OPTIONS",
    "ReadOptions",
    "WriteOptions",
    "absolute_uri",
    "column_names",
    "options_among",
    "parse_properties",
    "table_address",
    "with_session_storage",
]

_SESSION_STORAGE = "sessionStorage"
_OF_TABLES = frozenset(TABLE_SETTINGS.values())

READ_OPTIONS = (
    _SESSION_STORAGE,
    *CATALOG_OPTIONS,
    "path",
    "versionAsOf",
    "timestampAsOf",
    "isLatest",
    "columns",
    "where",
    "filterPushdown",
    "maxPartitionBytes",
    "minPartitions",
    "distributedPlanningFiles",
    "nativeScan",
    "timeZone",
    *CHANGE_OPTIONS,
)
_WRITE = (
    _SESSION_STORAGE,
    *CATALOG_OPTIONS,
    "path",
    "partitionBy",
    "clusterBy",
    "tableProperties",
    "ifExists",
    "txnAppId",
    "txnVersion",
    "userMetadata",
    "dataChange",
    "optimizeWrite",
    "targetFileSize",
    "maxRecordsPerFile",
    "compression",
    "nativeWrite",
    "mergeSchema",
    "overwriteSchema",
    "replaceWhere",
    "checkReplaceWhere",
    "partitionOverwriteMode",
    "timeZone",
    "madeOf",
    "definedBy",
    "description",
    *REPLACE_OPTIONS,
)
_STORAGE_PREFIXES = (*OPTION_PREFIXES, "adelta_", "delta_dynamo_", "option.")
_OF_HADOOP = ("fs.s3a.", "fs.s3.")
_BY_NAME = (
    "a session's catalog does not tell this data source where its tables are; run the statement by "
    "adelta.spark.sql(spark, text), or by spark.sql after adelta.spark.register(spark, sql=True)"
)
_PROPERTY_PREFIX = "delta."

_OF_VERSIONS = {"versionasof", "timestampasof", "where", "onlydeletionvectors"}

_HOW_TO_READ = (
    "nativescan",
    "filterpushdown",
    "maxpartitionbytes",
    "minpartitions",
    "distributedplanningfiles",
)
"""Options of a read that a view over it hands to writes, for which they mean nothing."""

_MAX_PARTITION_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a batch read was asked for.

    `columns` are all that is read of a table, `where` says which rows, and `time_zone` which time
    it means by one that names no zone. Files are packed into tasks of `max_partition_bytes`, but at
    least `min_partitions` of them. `filter_pushdown` lets Spark hand over the filters of a query:
    with PySpark up to 4.3 that is wrong where the DataFrame serves more than one. Without
    `native_scan` adelta reads the table where Spark's own scan could, too. Of a table with
    `distributed_planning_files` or more executors look for the files that a query reads; None is as
    the session has it. With `changes` the rows
    are those that a range of commits changed. With `session_storage` the storage options are those
    that the session's own file systems have, too. `catalog` is the client of the catalog that
    manages the table. `is_latest` says that nobody asked for the version, which was the latest one.
    """

    uri: str = field(repr=False)  # may hold secrets
    storage_options: Mapping[str, str] = field(repr=False)  # may hold secrets
    version: int | None = None
    timestamp: str | None = None
    is_latest: bool = False
    columns: tuple[str, ...] | None = None
    where: str | None = None
    time_zone: str = "UTC"
    filter_pushdown: bool = False
    native_scan: bool = True
    max_partition_bytes: int = _MAX_PARTITION_BYTES
    min_partitions: int = 1
    distributed_planning_files: int | None = None
    changes: ChangeRange | None = None
    session_storage: bool = False
    catalog: UnityCatalogClient | None = None

    @property
    def travels(self) -> bool:
        """Whether an earlier version was asked for, or may have been."""
        return (self.version, self.timestamp) != (None, None) and not self.is_latest

    def opened(self) -> Table:
        """The table, which closes itself."""
        return open_table(self.uri, self.storage_options, catalog=self.catalog)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """The options of a read.

        Raises:
            InvalidOptionError: an option is unknown, missing or has a wrong value.
        """
        given, storage = _sort(options, READ_OPTIONS)
        if "versionasof" in given and "timestampasof" in given:
            from adelta.spark.exceptions import refused

            raise refused(
                "give versionAsOf or timestampAsOf, not both", "DELTA_ONEOF_IN_TIMETRAVEL"
            )
        columns = column_names(given)
        changes = ChangeRange.parse(given)
        if changes is not None and given.keys() & _OF_VERSIONS:
            raise InvalidOptionError(
                "versionAsOf, timestampAsOf and where are for the rows of one version, and"
                " readChangeFeed reads those that commits changed: give startingVersion and"
                " endingVersion there, and filter the DataFrame"
            )
        most = _integer("maxPartitionBytes", given.get("maxpartitionbytes"), least=1)
        fewest = _integer("minPartitions", given.get("minpartitions"), least=1)
        return cls(
            uri=_uri(given),
            storage_options=storage,
            version=_integer("versionAsOf", given.get("versionasof"), least=0),
            timestamp=given.get("timestampasof"),
            is_latest=_boolean("isLatest", given.get("islatest", "false")),
            columns=columns,
            where=given.get("where"),
            time_zone=given.get("timezone", "UTC"),
            native_scan=_boolean("nativeScan", given.get("nativescan", "true")),
            filter_pushdown=_boolean("filterPushdown", given.get("filterpushdown", "false")),
            max_partition_bytes=most or _MAX_PARTITION_BYTES,
            min_partitions=fewest or os.cpu_count() or 1,
            distributed_planning_files=_integer(
                "distributedPlanningFiles", given.get("distributedplanningfiles"), least=0
            ),
            changes=changes,
            session_storage=given.get(_SESSION_STORAGE.lower()) == "true",
            catalog=catalog_client(given),
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a batch write was asked for.

    `partition_by`, `cluster_by` and `properties` are for a table that the write creates, the first
    for one whose schema it overwrites, too, which without it is not partitioned any more.
    `if_exists` is ``error`` or ``ignore`` where an existing table is not to be written to. With
    `txn`, an application's id and the number of this write, work that the table shows as done is
    skipped. `data_files` says how each task writes its files. `schema_mode` and `replace_where` are
    as for `adelta.write_table`, and so is `partition_overwrite`, but for None, where nothing was
    said of it. Times in what is asked, computed and checked are of the zone `time_zone`. Without
    `data_change` rows of the table are written anew in other files. `defined_by` and `description`
    are what statements say of a table besides. Without `native_write` adelta writes files where
    Spark's own writer could, too. `session_storage` and `catalog` are as for a read.
    By `matching` rows of the table that match new ones go. The rows are `made_of` a version of the
    table, where they are: what others have committed since is a conflict. Without
    `check_replace_where` rows that do not satisfy `replace_where` are written, too.
    """

    uri: str = field(repr=False)  # may hold secrets
    storage_options: Mapping[str, str] = field(repr=False)  # may hold secrets
    partition_by: tuple[str, ...] | None = None
    cluster_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    if_exists: Literal["error", "ignore"] | None = None
    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    data_files: DataFileOptions = AS_THE_TABLE_SAYS
    schema_mode: SchemaMode | None = None
    replace_where: Node | None = None
    time_zone: str = "UTC"
    partition_overwrite: PartitionOverwrite | None = None
    data_change: bool = True
    defined_by: DefinedBy | None = None
    description: str | None = None
    native_write: bool = True
    session_storage: bool = False
    catalog: UnityCatalogClient | None = None
    matching: ReplaceOptions | None = None
    made_of: int | None = None
    check_replace_where: bool = True

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """The options of a write.

        Raises:
            InvalidOptionError: an option is unknown, missing or has a wrong value.
            InvalidPropertyError: a property is unknown, or has a value that is not allowed.
            InvalidExpressionError: `replaceWhere` cannot be parsed.
        """
        told, properties = dict[str, str](), dict[str, str]()
        for key, value in options.items():
            if key.lower().startswith(_PROPERTY_PREFIX):
                properties[key] = value
            elif key.lower() not in _HOW_TO_READ:
                told[key] = value
        given, storage = _sort(told, _WRITE)
        validate_properties(properties)  # a table that is there does not look at them
        properties = parse_properties(given.get("tableproperties", "{}")) | properties
        app_id, version = given.get("txnappid"), given.get("txnversion")
        if (app_id is None) != (version is None):
            from adelta.spark.exceptions import refused

            raise refused(
                "txnAppId and txnVersion belong together: give both or none",
                "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS.MISSING_DATAFRAME_WRITE_OPTIONS",
            )
        number = _integer("txnVersion", version, least=0)
        zone = given.get("timezone", "UTC")
        return cls(
            uri=_uri(given),
            storage_options=storage,
            partition_by=_names("partitionBy", given.get("partitionby")),
            cluster_by=_names("clusterBy", given.get("clusterby")),
            properties=properties,
            if_exists=_if_exists(given.get("ifexists")),
            txn=None if app_id is None or number is None else (app_id, number),
            user_metadata=given.get("usermetadata"),
            data_files=DataFileOptions(
                target_file_size=_integer("targetFileSize", given.get("targetfilesize"), least=1),
                optimize_write=_optional_boolean("optimizeWrite", given.get("optimizewrite")),
                compression=given.get("compression"),
                max_records_per_file=_most_records(given.get("maxrecordsperfile")),
            ),
            schema_mode=_schema_mode(given),
            replace_where=_replaced(given, zone),
            time_zone=zone,
            partition_overwrite=_partition_overwrite(given.get("partitionoverwritemode")),
            data_change=_boolean("dataChange", given.get("datachange", "true")),
            native_write=_boolean("nativeWrite", given.get("nativewrite", "true")),
            session_storage=given.get(_SESSION_STORAGE.lower()) == "true",
            catalog=catalog_client(given),
            matching=ReplaceOptions.parse(given),
            made_of=_integer("madeOf", given.get("madeof"), least=0),
            check_replace_where=_boolean(
                "checkReplaceWhere", given.get("checkreplacewhere", "true")
            ),
            defined_by=_defined_by(given.get("definedby")),
            description=given.get("description"),
        )

    def request(self, *, overwrite: bool) -> WriteRequest:
        """What the write does to a table that is there, or makes.

        Raises:
            InvalidOptionError: an option makes no sense beside another one, or in this mode.
        """
        mode: WriteMode = self.if_exists or ("overwrite" if overwrite else "append")
        if self.matching is not None and mode in ("append", "overwrite"):
            raise InvalidOptionError(
                'replaceOn and replaceUsing go with mode("overwrite") of a writer in a session '
                "that knows adelta: call adelta.spark.register(spark) before, and write with this "
                "mode"
            )
        # Sessions set this one for all of their writes.
        partitions = self.partition_overwrite if mode == "overwrite" else None
        partition_by = self.partition_by
        if mode == self.schema_mode == "overwrite" and not partition_by:
            # In Spark the partitioning goes with the schema, and then there are no partitions.
            partition_by, partitions = (), None
        return WriteRequest(
            WriteKind(mode, self.schema_mode, self.replace_where, partitions or "static"),
            partition_by,
            self.cluster_by,
            self.properties,
            self.txn,
            self.user_metadata,
            self.data_files,
            data_change=self.data_change,
            defined_by=self.defined_by,
            description=self.description,
            made_of=self.made_of,
            may_add_others=not self.check_replace_where,
        )


def _defined_by(text: str | None) -> DefinedBy | None:
    if text is not None and text not in DEFINITIONS:
        raise InvalidOptionError(
            f"the option definedBy is {text!r}; it can be one of "
            f"{', '.join(map(repr, DEFINITIONS))}"
        )
    return text


def options_among(
    options: Mapping[str, str], known: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    """The options that are `known`, by lower-case key, and those of the store.

    Raises:
        InvalidOptionError: one is neither.
    """
    return _sort(options, known)


def with_session_storage(settings: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """The options, and how a session's settings open the store, where none of them says that."""
    found = dict(options)
    own = any(
        key.lower().startswith((*_STORAGE_PREFIXES, *_OF_HADOOP)) or is_known(key)
        for key in found
        if key.lower().removeprefix("option.") not in _OF_TABLES
    )
    path = next((value for key, value in found.items() if key.lower() == "path"), "")
    storage = storage_of_tables(settings) if own else storage_of(settings, path)
    if storage:
        found = {**prefixed(storage), **found}
    if storage and not own:
        found[_SESSION_STORAGE] = "true"
    return found


def table_address(given: Mapping[str, str]) -> str:
    """The address of the table that options, by lower-case key, name.

    Raises:
        InvalidOptionError: they name none.
    """
    return _uri(given)


def column_names(given: Mapping[str, str]) -> tuple[str, ...] | None:
    """The columns that options, by lower-case key, name; None for all.

    Raises:
        InvalidOptionError: they name none.
    """
    columns = _names("columns", given.get("columns"))
    if columns == ():
        raise InvalidOptionError("the option columns names no column; leave it out for all")
    return columns


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


def parse_properties(text: str) -> dict[str, str]:
    """The properties in the option `tableProperties`. Raises: InvalidOptionError."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidOptionError(f"the option tableProperties is not a JSON object: {text!r:.100}")
    return {str(key): str(value) for key, value in found.items()}


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
        elif folded.startswith(_OF_HADOOP):
            storage |= storage_options_of({folded: value})
        elif folded.startswith(_STORAGE_PREFIXES) or is_known(folded):
            storage[folded.removeprefix("option.")] = value
        elif folded == "owner":  # which a statement of Spark's alone has of a new table
            raise InvalidOptionError(f"a table cannot get a name so: {_BY_NAME}")
        else:
            close = difflib.get_close_matches(folded, sorted(lowered), n=1)
            hint = f"; did you mean {_spelt(close[0], known)}?" if close else ""
            raise InvalidOptionError(
                f"adelta has no option {key!r} here{hint} Options are {', '.join(known)}; those "
                "of the store may be prefixed with 'option.'"
            )
    return given, storage


def _spelt(folded: str, known: tuple[str, ...]) -> str:
    return next(name for name in known if name.lower() == folded)


def _uri(given: Mapping[str, str]) -> str:
    path = given.get("path")
    if not path:
        raise InvalidOptionError(
            "no table is named: give its address, as in spark.read.format('adelta').load(path); "
            f"or, where a statement names one, {_BY_NAME}"
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


def _replaced(given: Mapping[str, str], zone: str) -> Node | None:
    """The condition `replaceWhere`, in which columns may be named as those of `targetAlias`."""
    found = to_predicate(given.get("replacewhere"), zone=zone)
    alias = given.get("targetalias")
    return found if found is None or alias is None else _without(found, alias.lower())


def _without(node: Node, alias: str) -> Node:
    if isinstance(node, Column):
        return Column(node.path[1:]) if node.path[0].lower() == alias and node.path[1:] else node
    parts = children_of(node)
    return with_children(node, tuple(_without(part, alias) for part in parts)) if parts else node


def _schema_mode(given: Mapping[str, str]) -> SchemaMode | None:
    if _boolean("overwriteSchema", given.get("overwriteschema", "false")):
        return "overwrite"
    return "merge" if _boolean("mergeSchema", given.get("mergeschema", "false")) else None


def _most_records(text: str | None) -> int | None:
    """Spark's own number for "as many as there are" is 0."""
    return _integer("maxRecordsPerFile", text, least=0) or None


def _partition_overwrite(text: str | None) -> PartitionOverwrite | None:
    match text and text.lower():
        case None:
            return None
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
