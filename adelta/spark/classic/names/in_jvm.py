"""Putting names into sessions of the JVM: catalogs, and rules for their analyzer.

Classes in Java are compiled in the driver when they are first used, by the compiler that Spark has
for generated code.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import java_gateway
from pyspark.errors import AnalysisException

from adelta._dataclasses import dataclass
from adelta.spark.classic.java_classes import NotCompiledError, first_cause, source_loader
from adelta.spark.classic.names.places import uri_of
from adelta.spark.options.unity import known_catalogs
from adelta.spark.translate.identifiers import quoted
from adelta.spark.versions import SPARK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.merge import MergeIntoWriter

    from adelta.spark.classic.names.answers import Answers

__all__ = [
    "ManagedPlace",
    "install",
    "managed_place",
    "merge_of",
    "merged_into",
    "parsed",
    "table_uri",
]

_SESSION_CATALOG = "spark_catalog"
_lock = threading.Lock()
_loaders: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by py4j's gateway


def install(spark: SparkSession, formats: Iterable[str], answers: Answers) -> None:
    """Let a session find tables of `formats` by name, as `answers` says, and by path.

    The session's own catalog keeps what it is, and what extends it already; tables of the formats
    are taken from it before, and so are paths in the place of names. Called again, only the formats
    change. Unity Catalogs are catalogs beside, under the names that settings give them.
    """
    gateway: Any = spark.sparkContext._gateway
    java_gateway.ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    session: Any = spark._jsparkSession
    analyzer = session.sessionState().analyzer()
    manager = analyzer.catalogManager()
    catalogs = _field(manager, "catalogs").get(manager)
    names = gateway.jvm.java.util.ArrayList()
    for name in sorted(formats):
        names.add(name)
    for name in known_catalogs(spark):
        if not catalogs.contains(name) and not session.conf().contains(f"spark.sql.catalog.{name}"):
            catalogs.put(name, _new(gateway, "UnityTables", session, name, answers))
    before = manager.v2SessionCatalog()
    if java_class(gateway, "SessionTables").isInstance(before):
        before.setFormats(names)
        return
    tables = _new(gateway, "SessionTables", session, names, answers)
    tables.setDelegateCatalog(before)
    if session.conf().contains(f"spark.sql.catalog.{_SESSION_CATALOG}"):
        catalogs.put(_SESSION_CATALOG, tables)  # where Spark keeps another one than its own
    else:
        # No setting names a class: a session that is cloned for a stream has to find it by name.
        _field(manager, "defaultSessionCatalog").set(manager, tables)
    _add_rules(gateway, analyzer, _new(gateway, "NamedPaths"), _new(gateway, "NamedTables"))


@dataclass(frozen=True, slots=True)
class ManagedPlace:
    """Where a table that the session's catalog keeps is to be, by a name that is not taken yet.

    `name` has all parts of it.
    """

    name: str
    location: str
    _catalog: Any
    _identifier: Any

    def enter(self, format: str, comment: str | None) -> None:
        """Let the catalog know the table that is there now.

        Raises:
            AnalysisException: it does not take the name.
        """
        self._catalog.enter(self._identifier, self.location, True, format, comment)


def table_uri(spark: SparkSession, name: str) -> str | None:
    """Where the table is that a name in SQL means, if it is one of `install`; None otherwise."""
    found = _meant(spark, name)
    if found is None:
        return None
    catalog, identifier = found
    try:
        table = catalog.loadTable(identifier)
    except AnalysisException:
        return None
    if not java_class(spark.sparkContext._gateway, "NamedTable").isInstance(table):
        return None
    return uri_of(table.properties().get("location"))


def managed_place(spark: SparkSession, name: str) -> ManagedPlace | None:
    """Where the session's catalog would keep a table of a name; None of names in other catalogs.

    Raises:
        AnalysisException: there is no such database.
    """
    found = _meant(spark, name)
    if found is None:
        return None
    catalog, identifier = found
    of_session = java_class(spark.sparkContext._gateway, "SessionTables").isInstance(catalog)
    if not of_session or len(identifier.namespace()) != 1:
        return None
    parts = (_SESSION_CATALOG, identifier.namespace()[0], identifier.name())
    return ManagedPlace(".".join(parts), catalog.defaultPlace(identifier), catalog, identifier)


def parsed(spark: SparkSession, text: str) -> Any | None:
    """The plan of a statement in the JVM, as Spark's parser leaves it; None where it fails."""
    session: Any = spark._jsparkSession
    try:
        return session.sessionState().sqlParser().parsePlan(text)
    except Exception:  # whoever asks knows already that something is wrong
        return None


def merge_of(writer: MergeIntoWriter) -> Any:
    """The plan in the JVM of a merge of PySpark's."""
    told: Any = writer._jwriter
    return told.mergeCommand()


def merged_into(plan: Any) -> str | None:
    """The name of the table that a plan merges into, before it is resolved; None of others."""
    while plan.nodeName() == "UnresolvedWith":
        plan = plan.child()
    if plan.nodeName() != "MergeIntoTable":
        return None
    table = plan.targetTable()
    while table.nodeName() == "SubqueryAlias":
        table = table.child()
    if table.nodeName() != "UnresolvedRelation":
        return None
    parts = table.multipartIdentifier()
    return quoted([parts.apply(at) for at in range(parts.size())])


def _meant(spark: SparkSession, name: str) -> tuple[Any, Any] | None:
    """The catalog in which a name is looked for, and what for; None where it is a view's."""
    gateway: Any = spark.sparkContext._gateway
    state: Any = spark._jsparkSession.sessionState()
    parsed = state.sqlParser().parseMultipartIdentifier(name)
    parts = [parsed.apply(at) for at in range(parsed.size())]
    manager = state.analyzer().catalogManager()
    catalog = manager.currentCatalog()
    above = list(manager.currentNamespace())
    if len(parts) == 1 and state.catalog().getTempView(parts[0]).isDefined():
        return None
    if len(parts) > 1:
        above = parts[:-1]
        if manager.isCatalogRegistered(parts[0]):
            catalog, above = manager.catalog(parts[0]), parts[1:-1]
    namespace = gateway.new_array(gateway.jvm.java.lang.String, len(above))
    for at, part in enumerate(above):
        namespace[at] = part
    identifier = gateway.jvm.org.apache.spark.sql.connector.catalog.Identifier.of(
        namespace, parts[-1]
    )
    return catalog, identifier


def _add_rules(gateway: Any, analyzer: Any, first: Any, last: Any) -> None:
    """Let the analyzer apply rules of resolution, before and behind those that it has."""
    field = _field(analyzer, "extendedResolutionRules")
    converters = gateway.jvm.scala.jdk.javaapi.CollectionConverters
    rules = gateway.jvm.java.util.ArrayList(converters.asJava(field.get(analyzer)))
    rules.add(0, first)
    rules.add(last)
    field.set(analyzer, converters.asScala(rules).toSeq())


def _field(owner: Any, name: str) -> Any:
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


def _new(gateway: Any, name: str, *arguments: object) -> Any:
    given = gateway.jvm.java.util.ArrayList()
    for argument in arguments:
        given.add(argument)
    return java_class(gateway, name).getConstructors()[0].newInstance(given.toArray())


def java_class(gateway: Any, name: str) -> Any:
    """A class of this folder's, in the JVM.

    Raises:
        NotCompiledError: its source does not compile in this Spark.
    """
    with _lock:
        loader = _loaders.get(gateway)
        if loader is None:
            loader = _loaders[gateway] = source_loader(gateway)
    try:
        return loader.loadClass(f"adelta.spark.{name}")
    except Py4JJavaError as error:
        raise NotCompiledError(
            f"{name}.java does not compile in Spark {SPARK.version}: {first_cause(error)}"
        ) from error
