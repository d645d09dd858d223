"""Classes in Java that come as text, compiled by the compiler that Spark has for generated code.

The driver has them in a class loader of their own. Executors get those that their tasks need in a
jar, which is made here and which Spark hands to them as it does with any jar of an application.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import threading
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError

from adelta.spark.versions import SPARK

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from pyspark.sql import SparkSession

    from adelta.spark.versions import SparkVersion

__all__ = [
    "NotCompiledError",
    "first_cause",
    "jar_of",
    "java_class",
    "java_source",
    "java_sources",
    "ship_class",
    "source_loader",
]

_log = logging.getLogger("adelta.spark")
_PACKAGE = "adelta.spark"
_PARTS = {
    "TableFileIndex": ("MetadataOnlyQuery", "PruneFiles"),
    "TableFormat": ("DeletionVector",),
    "TableWriter": ("WrittenFiles", "LocalFiles"),
}
"""Classes that are compiled, and shipped, with another one that alone uses them."""
_lock = threading.Lock()
_compilers: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()  # by py4j's gateway
"""What has compiled a class, or why none could."""
_shipped: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # by SparkContext


class NotCompiledError(Exception):
    """Raised when a class fits the Spark that is there so little that it cannot be compiled."""


def java_class(gateway: Any, name: str) -> Any:
    """The class of this name, which is compiled when it is first asked for.

    Raises:
        NotCompiledError: it cannot be, in this Spark; a warning is logged the first time.
    """
    return _compiled(gateway, name).getClassLoader().loadClass(f"{_PACKAGE}.{name}")


def _compiled(gateway: Any, name: str) -> Any:
    with _lock:
        known = _compilers.setdefault(gateway, {})
        if name not in known:
            compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
            thread = gateway.jvm.java.lang.Thread.currentThread()
            compiler.setParentClassLoader(thread.getContextClassLoader())
            try:
                compiler.cook(_unit(name, *_PARTS.get(name, ())))
                known[name] = compiler
            except Py4JJavaError as error:
                known[name] = NotCompiledError(
                    f"{name}.java does not compile in Spark {SPARK.version}: {first_cause(error)}"
                )
                _log.warning("%s; what needs it takes a slower way, or fails", known[name])
        if isinstance(known[name], NotCompiledError):
            raise known[name]
        return known[name]


def java_source(name: str, spark_version: SparkVersion = SPARK) -> str:
    """The source of a class: that of the Spark version, or of one before it, or the common one.

    Raises:
        FileNotFoundError: there is no class of this name for the version.
    """
    for folder in _folders(spark_version):
        source = folder.joinpath(f"{name}.java")
        if source.is_file():
            return source.read_text()
    raise FileNotFoundError(f"{name}.java, for Spark {spark_version.release}")


def _folders(spark_version: SparkVersion) -> list[Traversable]:
    """The folders with Java sources for a version of Spark, those of the version first."""
    common = files("adelta.spark.classic").joinpath("java")
    return [*map(files, spark_version.java_packages()), common]


def java_sources(spark_version: SparkVersion = SPARK) -> dict[str, str]:
    """The sources of all classes for a version of Spark, by their names."""
    names = {
        Path(file.name).stem
        for folder in _folders(spark_version)
        for file in folder.iterdir()
        if file.name.endswith(".java")
    }
    return {name: java_source(name, spark_version) for name in sorted(names)}


def source_loader(gateway: Any, spark_version: SparkVersion = SPARK) -> Any:
    """A class loader in the JVM that compiles each class when it is first asked for."""
    sources = gateway.jvm.java.util.HashMap()
    for name, source in java_sources(spark_version).items():
        sources.put(f"adelta/spark/{name}.java", source.encode())
    finder = gateway.jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder(sources)
    parent = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return gateway.jvm.org.codehaus.janino.JavaSourceClassLoader(parent, finder, "UTF-8")


def first_cause(error: Py4JJavaError) -> str:
    """The first line of the exception in Java that caused an error."""
    cause = error.java_exception
    while (below := cause.getCause()) is not None:
        cause = below
    return str(cause.toString()).partition("\n")[0]


def _unit(*names: str) -> str:
    """The sources of some classes as one."""
    head, body = set[str](), list[str]()
    for name in names:
        source = java_source(name)
        for line in source.splitlines():
            if line.startswith("import "):
                head.add(line)
            elif not line.startswith("package "):
                body.append(line)
    return "\n".join((f"package {_PACKAGE};", *sorted(head), *body))


def ship_class(spark: SparkSession, name: str) -> None:
    """Let executors have the class of this name; once for an application."""
    context: Any = spark.sparkContext
    compiler = _compiled(context._gateway, name)
    with _lock:
        shipped = _shipped.setdefault(context, set())
        if name not in shipped:
            context._jsc.addJar(jar_of(name, dict(compiler.getBytecodes())))
            shipped.add(name)


def jar_of(name: str, classes: dict[str, bytes]) -> str:
    """A jar of this process's own with classes by their names, removed at exit."""
    folder = Path(tempfile.mkdtemp(prefix="adelta-classes-"))  # private: what is in it gets run
    atexit.register(_remove, folder, os.getpid())
    jar = folder / f"adelta-{name}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for each, content in classes.items():
            archive.writestr(each.replace(".", "/") + ".class", bytes(content))
    return str(jar)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends leaves its parent's jar alone
        shutil.rmtree(folder, ignore_errors=True)
