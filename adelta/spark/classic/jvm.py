"""All that adelta knows of Spark's inside in the JVM, reached over py4j from classic sessions.

Whatever of it is missing raises, here and nowhere else; who asks goes another way then.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from py4j.clientserver import ClientServer
from pyspark import SparkContext, java_gateway
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from adelta.spark.classic.java_classes import java_class, ship_class
from adelta.spark.options.writer import WriteState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrameReader, DataFrameWriter, SparkSession

__all__ = [
    "DELETED",
    "FileIndex",
    "activate",
    "analyzed",
    "catalog_entry",
    "check_expression",
    "check_interrupted",
    "column_of",
    "columns_named",
    "conjuncts_of",
    "file_index",
    "forget_source",
    "frame_over",
    "full_names",
    "give_schema",
    "has_class",
    "has_tasks",
    "is_file_index",
    "mark_loaded",
    "options_of",
    "partition_schema",
    "pickled_source",
    "plans_by_statistics",
    "renamed",
    "set_provider",
    "shares_threads",
    "ships_classes",
    "sql_of",
    "table_scans",
    "table_writer",
    "why_not_listed",
    "why_not_named",
    "with_patient_start",
    "write_state",
]

_INDEX, _TABLE_FORMAT, _FUNCTION = "TableFileIndex", "TableFormat", "PythonFunction"
_TABLE_WRITER, _SOURCE_START = "TableWriter", "SourceStart"
_TEXT, _NAMES = "SqlText", "ColumnNames"
_PART_END, _NAME_END = "\1", "\0"

_PROVIDER, _STATISTICS = 4, 12  # places among what an entry of a catalog is made of

DELETED = "__adelta_deleted"
"""The column that says whether a row is deleted, where `frame_over` is told of vectors."""

FileIndex = Any
"""A `TableFileIndex` in the JVM."""

_seen: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def why_not_named(spark: SparkSession, path: str) -> str | None:
    """Why the JVM can have no file of this name; None if it can.

    On a machine's own file systems it writes ``?`` for what the locale has no characters for.
    """
    jvm: Any = spark._jvm
    encoding = jvm.java.lang.System.getProperty("sun.jnu.encoding")
    if path.isascii() or not path.startswith("file:") or encoding == "UTF-8":
        return None
    return f"the JVM's names of files are {encoding}, by its locale, and the table's may be more"


def why_not_listed(spark: SparkSession, folder: str) -> str | None:
    """Why the JVM does not see a folder by the session's connector for its scheme; None if it does.

    A connector may be named and not be there, be there and not start, or be refused, or see another
    store than adelta does. What it sees it is not asked for again in the session.
    """
    seen = _seen.setdefault(spark, set())
    if folder in seen:
        return None
    jvm: Any = spark._jvm
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    try:
        path = jvm.org.apache.hadoop.fs.Path(folder)
        if not path.getFileSystem(hadoop).getFileStatus(path).isDirectory():
            return f"{folder} is no folder there"
    except Exception as error:
        return _first_line(error)
    seen.add(folder)
    return None


def _first_line(error: Exception) -> str:
    """What an exception of Java's says, without the calls that led to it."""
    thrown = getattr(error, "java_exception", None)
    text = str(error) if thrown is None else str(thrown.toString())
    return text.strip().partition("\n")[0]


def options_of(reader: DataFrameReader) -> tuple[str, dict[str, str], bool]:
    """The format of a reader, its options, and whether it was given a schema."""
    jreader: Any = reader._jreader
    source = jreader.source()
    return source, _python_map(jreader.extraOptions()), jreader.userSpecifiedSchema().isDefined()


def give_schema(giver: DataFrameReader, taker: DataFrameReader) -> None:
    """Hand on the schema that a reader was given."""
    given: Any = giver._jreader
    taken: Any = taker._jreader
    taken.schema(given.userSpecifiedSchema().get())


def write_state(writer: DataFrameWriter) -> WriteState:
    """What a writer was told."""
    told: Any = writer._jwrite
    return WriteState(
        told.source(),
        told.curmode().name(),
        _python_map(told.extraOptions()),
        _python_names(told.partitioningColumns()),
        _python_names(told.clusteringColumns()),
        told.numBuckets().isDefined() or told.sortColumnNames().isDefined(),
    )


def activate(spark: SparkSession) -> None:
    """Make the session the one of this thread: Spark looks there for data sources in Python."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether the driver has a class."""
    jvm: Any = spark._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(name))


def forget_source(spark: SparkSession, name: str) -> None:
    """Let the session no longer know a data source in Python, if it does."""
    manager: Any = spark._jsparkSession.sessionState().dataSourceManager()
    _private(manager, "runtimeDataSourceBuilders").remove(name)


def sql_of(df: DataFrame, column: Column) -> str:
    """The SQL text of a column's expression over a DataFrame, once Spark has resolved it.

    Columns bear the names that tables have in the DataFrame.
    """
    gateway: Any = df.sparkSession.sparkContext._gateway
    plan: Any = df.select(column.alias("value"))._jdf.queryExecution().analyzed()
    written = _new(gateway, _TEXT, ())
    text: str = written.over(plan.projectList().head().child(), plan.child())
    return text


def conjuncts_of(df: DataFrame, condition: Column) -> list[str]:
    """The SQL texts of those parts of a condition that AND joins and that have one, as `sql_of`."""
    gateway: Any = df.sparkSession.sparkContext._gateway
    plan: Any = analyzed(df.select(condition.alias("value")))
    if plan.nodeName() != "Project":  # it is about more than one row
        return []
    written, texts = _new(gateway, _TEXT, ()), list[str]()
    parts = [plan.projectList().head().child()]
    while parts:
        part = parts.pop()
        if part.nodeName() == "And":
            parts += [part.left(), part.right()]
        elif not written.hasOwnFunctions(part):
            texts.append(written.over(part, plan.child()))
    return texts


def columns_named(df: DataFrame, columns: Sequence[Column]) -> tuple[set[int], bool, list[str]]:
    """The places of a DataFrame's columns by which it is known what others are; the text of these.

    And whether they are about one row each, and the same whenever they are computed.

    Raises:
        AnalysisException: Spark does not understand them.
    """
    output = _listed(analyzed(df).output())
    known = {each.exprId().id(): place for place, each in enumerate(output)}
    numbered = [column.alias(f"c{index}") for index, column in enumerate(columns)]
    plan = analyzed(df.select(*numbered))
    listed = _listed(plan.projectList()) if plan.nodeName() == "Project" else []
    used = {each.exprId().id() for one in listed for each in _listed(one.references().toSeq())}
    if len(listed) != len(columns) or not used <= known.keys():
        return set(), False, ["" for _ in columns]
    texts = [one.child().sql() for one in listed]
    return {known[each] for each in used}, all(one.deterministic() for one in listed), texts


def full_names(df: DataFrame) -> list[tuple[str, ...]]:
    """The parts of the names of a DataFrame's columns: what stands before each, and its own."""
    names = _new(df.sparkSession.sparkContext._gateway, _NAMES, ())
    text: str = names.columns(analyzed(df))
    return [tuple(name.split(_PART_END)) for name in text.split(_NAME_END)] if text else []


def renamed(
    column: Column,
    named: Callable[[tuple[str, ...]], tuple[str, ...] | None],
    frames: Callable[[], list[tuple[DataFrame, list[tuple[str, ...]]]]],
) -> Column:
    """The column, whose names of several parts are other ones where `named` says so.

    So are columns that were taken from some DataFrames, by what all of theirs are called.
    """
    context: Any = SparkContext._active_spark_context
    gateway, given = context._gateway, column._jc
    names = _new(gateway, _NAMES, ())
    others, plans, called = (gateway.jvm.java.util.HashMap(), *_lists(gateway, 2))
    for name in filter(None, names.names(given).split(_NAME_END)):
        other = named(tuple(name.split(_PART_END)))
        if other is not None:
            others.put(name, _PART_END.join(other))
    if names.areTaken(given):
        for frame, columns in frames():
            plans.append(analyzed(frame))
            called.append(_NAME_END.join(map(_PART_END.join, columns)))
    if others.isEmpty() and not len(plans):
        return column
    return column_of(names.renamed(given, others, plans, called))


def _lists(gateway: Any, count: int) -> list[Any]:
    return [gateway.jvm.java.util.ArrayList() for _ in range(count)]


def column_of(column: Any) -> Column:
    """The column in Python of one in the JVM."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    found: Column = ClassicColumn(column)
    return found


def analyzed(df: DataFrame) -> Any:
    """The plan of a DataFrame in the JVM, as it is once Spark has looked up its names."""
    return df._jdf.queryExecution().analyzed()


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def check_expression(text: str) -> None:
    """Let Spark parse an expression, where there is a JVM at hand.

    Raises:
        ParseException: it cannot.
    """
    context = SparkContext._active_spark_context
    if context is not None:
        jvm: Any = context._jvm
        parser = getattr(jvm.org.apache.spark.sql.catalyst.parser, "CatalystSqlParser$")
        getattr(parser, "MODULE$").parseExpression(text)


def _python_map(options: Any) -> dict[str, str]:
    each, found = options.originalMap().iterator(), {}
    while each.hasNext():
        pair = each.next()
        found[pair._1()] = pair._2()
    return found


def _python_names(option: Any) -> list[str] | None:
    if not option.isDefined():
        return None
    names = option.get()
    return [names.apply(at) for at in range(names.size())]


class _Planner:
    """A function of Java's that is one of Python's. It answers with a text where that raises."""

    def __init__(self, plan: Callable[[str], bytes]) -> None:
        self._plan = plan

    def apply(self, filters: str) -> object:
        try:
            return self._plan(filters)
        except Exception as error:
            return f"{type(error).__module__}.{type(error).__name__}: {error}"

    class Java:
        implements = ("java.util.function.Function",)


def file_index(
    spark: SparkSession,
    *,
    name: str,
    latest: str,
    root: str,
    partitions: s.StructType,
    size: int | None,
    vectors: bool,
    row_ids: bool,
    plan: Callable[[str], bytes],
) -> FileIndex:
    """The files of a table's version that `name` tells from all others.

    `latest` is the version and the table's address, with a space between; empty where the version
    was asked for.

    `plan` is given filters as JSON, in threads of py4j's, and answers as `encode_files` does, which
    with `vectors` tells of deletion vectors, and with `row_ids` of ids of rows. It is asked for the
    ``bytes`` of all files where `size` is None, and for the ``rows`` of all by queries that count
    them, and answers with eight bytes; and for ``extremes`` and the name of a column, by those that
    want its least or greatest value.
    """
    gateway: Any = spark.sparkContext._gateway
    java_gateway.ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    schema = spark._jsparkSession.parseDataType(json.dumps(partitions.jsonValue()))
    bytes_of_all, planner = str(-1 if size is None else size), _function(gateway, _Planner(plan))
    arguments = (name, latest, root, schema, bytes_of_all, vectors, row_ids, planner)
    index = _new(gateway, _INDEX, arguments)
    index.giveRules(spark._jsparkSession, DELETED)
    return index


def _function(gateway: Any, function: _Planner) -> Any:
    """A function of Python's for Java's threads."""
    return _new(gateway, _FUNCTION, (function,))


def _new(gateway: Any, name: str, arguments: Iterable[object]) -> Any:
    [given] = _lists(gateway, 1)
    for each in arguments:
        given.append(each)
    return java_class(gateway, name).getConstructors()[0].newInstance(given.toArray())


def frame_over(
    spark: SparkSession,
    index: FileIndex,
    columns: s.StructType,
    partitions: s.StructType,
    options: Mapping[str, str],
    *,
    vectors: bool,
    row_ids: tuple[str, str] | None = None,
    statistics: tuple[int, bytes] | None = None,
) -> DataFrame:
    """A DataFrame over Parquet files: the `columns` that they hold, then the `partitions`.

    With `vectors`, `DELETED` is one of the columns. `row_ids` are the columns of files that hold
    ids and versions of rows, which ``_metadata`` then has. `statistics` are for the planner, where
    it `plans_by_statistics`: how many rows there are, and `encode_statistics` of columns.
    """
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    datasources = jvm.org.apache.spark.sql.execution.datasources
    relation = datasources.HadoopFsRelation(
        index,
        session.parseDataType(json.dumps(partitions.jsonValue())),
        session.parseDataType(json.dumps(columns.jsonValue())),
        jvm.scala.Option.empty(),
        _table_format(spark, row_ids, ships=vectors or row_ids is not None),
        jvm.PythonUtils.toScalaMap(dict(options)),
        session,
    )
    if statistics is None:
        return DataFrame(session.baseRelationToDataFrame(relation), spark)
    table = _with_statistics(jvm, index, relation.schema(), *statistics)
    companion = getattr(getattr(datasources, "LogicalRelation$"), "MODULE$")
    plan = companion.apply(relation, table)
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan), spark)


def mark_loaded(frame: DataFrame, path: str, version: str | None) -> None:
    """Let the plan of a table's rows say which table's they are, as `ViewedTable.java` looks for.

    `version` is what was asked for; None where that is the latest one.
    """
    jvm: Any = frame.sparkSession._jvm
    tag = jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag("adelta.loaded")
    said = json.dumps({"path": path, "version": version})
    frame._jdf.queryExecution().analyzed().setTagValue(tag, said)


def table_scans(spark: SparkSession, plan: Any) -> list[Any]:
    """The indexes of files, and the relations of data sources in Python, that a plan scans."""
    found = _new(spark.sparkContext._gateway, "OwnScans", ()).of(spark._jsparkSession, plan)
    return list(found)


def is_file_index(scan: Any) -> bool:
    """Whether one of `table_scans` is a `FileIndex`."""
    return str(scan.getClass().getName()).endswith(_INDEX)


def pickled_source(relation: Any) -> tuple[str, bytes]:
    """The name of the data source of such a relation, and what a worker made of it, pickled."""
    table = relation.table()
    source = _private(table, "ds")
    return str(table.name()), bytes(_private(source, "dataSourceInPython").dataSource())


def _private(owner: Any, name: str) -> Any:
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)


def plans_by_statistics(spark: SparkSession) -> bool:
    """Whether the session's planner looks at rows and columns, as users may switch on."""
    conf = spark._jsparkSession.sessionState().conf()
    return bool(conf.cboEnabled() or conf.planStatsEnabled())


def _with_statistics(jvm: Any, index: Any, schema: Any, rows: int, columns: bytes) -> Any:
    """What Spark's planner looks at for the statistics of a table: an entry of no catalog."""
    catalyst = jvm.org.apache.spark.sql.catalyst
    nothing, entry = jvm.scala.Option.empty(), catalyst.catalog.CatalogTable
    values = [
        catalyst.TableIdentifier(index.toString(), nothing, nothing),
        catalyst.catalog.CatalogTableType.EXTERNAL(),
        catalyst.catalog.CatalogStorageFormat.empty(),
        schema,
        jvm.scala.Option.apply("parquet"),
    ]
    for place in range(
        len(values), entry._java_lang_class.getConstructors()[0].getParameterCount()
    ):
        is_statistics = place == _STATISTICS
        values.append(
            jvm.scala.Option.apply(index.statistics(str(rows), columns))
            if is_statistics
            else getattr(entry, f"apply$default${place + 1}")()
        )
    return entry(*values)


def catalog_entry(spark: SparkSession, name: str) -> tuple[str, str | None, str | None] | None:
    """A table of the session's own catalog: full name, provider and location; None if unknown.

    Of a view provider and location are None.

    Raises:
        AnalysisException: it is no name of that catalog's.
    """
    state: Any = spark._jsparkSession.sessionState()
    catalog, identifier = state.catalog(), state.sqlParser().parseTableIdentifier(name)
    if catalog.isTempView(identifier):
        return name, None, None
    if not catalog.tableExists(identifier):
        return None
    found = _entry(spark, name)
    provider, location = found.provider(), found.storage().locationUri()
    return (
        found.qualifiedName(),
        provider.get() if provider.isDefined() else None,
        _decoded(location.get()) if location.isDefined() else None,
    )


def partition_schema(spark: SparkSession, name: str) -> s.StructType:
    """The columns by which a table of the session's own catalog is partitioned."""
    return s.StructType.fromJson(json.loads(_entry(spark, name).partitionSchema().json()))


def set_provider(spark: SparkSession, name: str, provider: str) -> None:
    """Let the session's own catalog know a table as one of another format."""
    entry = _entry(spark, name)
    jvm: Any = spark._jvm
    values = [entry.productElement(at) for at in range(entry.productArity())]
    values[_PROVIDER] = jvm.scala.Option.apply(provider)
    spark._jsparkSession.sessionState().catalog().alterTable(entry.copy(*values))


def _entry(spark: SparkSession, name: str) -> Any:
    state: Any = spark._jsparkSession.sessionState()
    return state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(name))


def _decoded(uri: Any) -> str:
    """What Hadoop calls the place of a URI of Java's, whose text is encoded."""
    scheme, path = uri.getScheme(), uri.getPath()
    if scheme is None or scheme == "file":
        return str(path)
    authority = uri.getAuthority() or ""
    return f"{scheme}://{authority}{path}"


def _table_format(spark: SparkSession, row_ids: tuple[str, str] | None, *, ships: bool) -> Any:
    """The format of tables' files; what computes columns `ships` to executors, once."""
    gateway: Any = spark.sparkContext._gateway
    if ships:
        ship_class(spark, _TABLE_FORMAT)
    return _new(gateway, _TABLE_FORMAT, row_ids or (None, None))


def table_writer(spark: SparkSession, root: str, codec: str, most_rows: int | None) -> Any:
    """A `TableWriter` in the JVM: what writes Parquet files below `root`, compressed by `codec`.

    None of them has more than `most_rows` rows.
    """
    ship_class(spark, _TABLE_WRITER)
    gateway: Any = spark.sparkContext._gateway
    return _new(gateway, _TABLE_WRITER, (root, codec, str(most_rows or 0)))


def has_tasks(df: DataFrame) -> bool:
    """Whether a job over the rows of `df` has tasks: a micro-batch without files has none."""
    jdf: Any = df._jdf
    return bool(jdf.queryExecution().toRdd().getNumPartitions() > 0)


def with_patient_start(df: DataFrame) -> DataFrame:
    """The streaming read `df`, whose Python process may take `spark.network.timeout` to start.

    Raises:
        NotCompiledError: the class in Java for it does not fit this Spark.
    """
    spark, jdf = df.sparkSession, cast("Any", df._jdf)
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext
    wait_ms = context._jsc.sc().conf().getTimeAsMs("spark.network.timeout", "120s")
    plan = _new(context._gateway, _SOURCE_START, (None, str(wait_ms))).repeated(analyzed(df))
    dataset = jvm.org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(jdf.sparkSession(), plan), spark)


def check_interrupted(spark: SparkSession) -> None:
    """Raise Java's `InterruptedException` where the thread of the JVM that waits was interrupted.

    That is how Spark stops a streaming query, and what it takes for the end of a stopped one.
    """
    jvm: Any = spark._jvm
    jvm.java.lang.Thread.sleep(0)


def shares_threads(spark: SparkSession) -> bool:
    """Whether a Python function that the JVM calls sees the local properties of the JVM's thread.

    PySpark does that unless the environment variable `PYSPARK_PIN_THREAD` is ``false``.
    """
    return isinstance(spark.sparkContext._gateway, ClientServer)


def ships_classes(spark: SparkSession) -> bool:
    """Whether executors get classes of the application's: a session with jars of its own has none.

    Artifacts of a session take the place of all that the application has given to executors.
    """
    return bool(spark._jsparkSession.artifactManager().getAddedJars().isEmpty())
