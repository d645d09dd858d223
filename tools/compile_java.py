"""Compile adelta's Java sources against installations of PySpark.

    python -m tools.compile_java                             # the PySpark that is installed here
    python -m tools.compile_java /env/.../pyspark /another   # other ones, by their folders

It uses the compiler of each Spark itself (Janino), as adelta does when a session starts. It prints
what does not compile, and then exits with 1.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import launch_gateway

from adelta.spark.classic.java_classes import first_cause, java_sources, source_loader
from adelta.spark.session.java import ensure_java
from adelta.spark.versions import adapter_for

__all__ = ["failures", "main"]


def failures(folder: Path) -> dict[str, str]:
    """The classes that do not compile with the PySpark in a folder, and why each does not.

    Raises:
        FileNotFoundError: there is no Spark in the folder.
    """
    adapter = adapter_for(_version_in(folder))
    if not adapter.is_known:
        return {"all": f"adelta has no adapter for Spark {adapter.version}"}
    ensure_java()
    os.environ["SPARK_HOME"] = str(folder)
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    try:
        found = dict[str, str]()
        for name in java_sources(adapter):
            try:
                loader = source_loader(gateway, adapter)
                gateway.jvm.java.lang.Class.forName(f"adelta.spark.{name}", True, loader)
            except Py4JJavaError as error:
                found[name] = first_cause(error)
        return found
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _version_in(folder: Path) -> str:
    for jar in folder.glob("jars/spark-core_*.jar"):
        if found := re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", jar.name):
            return found[1]
    raise FileNotFoundError(f"there is no Spark in {folder}: it has no jars/spark-core_*.jar")


def main() -> int:
    """Compile against each installation; 1 where something does not compile."""
    given = [Path(each) for each in sys.argv[1:]] or [Path(pyspark.__file__).parent]
    status = 0
    for folder in given:
        failed = failures(folder)
        for name, why in failed.items():
            print(f"Spark {_version_in(folder)}: {name}.java does not compile: {why}")
        if not failed:
            print(f"Spark {_version_in(folder)}: all Java sources compile")
        status = status or bool(failed)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
