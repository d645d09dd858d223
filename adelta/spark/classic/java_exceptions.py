"""delta-spark's exceptions as classes of Java, for what throws them, and tests what hears them.

They are so small that they are written here as what a compiler of Java's would make of them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from adelta.spark.classic.java_classes import jar_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

__all__ = ["PACKAGE", "add_java_exceptions"]

PACKAGE = "io.delta.exceptions"
"""Where the classes are."""

_JAVA_8 = 52
_PUBLIC, _SUPER = 0x0001, 0x0020
_CALL_OF_SUPER = bytes.fromhex("2a 2b b7 0008 b1")  # aload_0, aload_1, invokespecial #8, return


def add_java_exceptions(spark: SparkSession, base: str, names: Iterable[str]) -> None:
    """Let the driver have a class of each name, which is one of `base`'s; where it has none."""
    jvm: Any = spark._jvm
    if jvm.org.apache.spark.util.Utils.classIsLoadable(f"{PACKAGE}.{base}"):
        return
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getClass().getName() != "org.apache.spark.util.MutableURLClassLoader":
        return  # of a driver that was started in another way than Spark's own
    classes = {f"{PACKAGE}.{base}": _class(base, "java/util/ConcurrentModificationException")}
    for name in names:
        classes.setdefault(f"{PACKAGE}.{name}", _class(name, _internal(base)))
    loader.addURL(jvm.java.io.File(jar_of("exceptions", classes)).toURI().toURL())


def _internal(name: str) -> str:
    return f"{PACKAGE}.{name}".replace(".", "/")


def _class(name: str, base: str) -> bytes:
    """``public class name extends base``, with a constructor that is given the message."""
    constants = (
        _text(_internal(name)),  # 1
        struct.pack(">BH", 7, 1),  # 2: the class
        _text(base),  # 3
        struct.pack(">BH", 7, 3),  # 4: the one above it
        _text("<init>"),  # 5
        _text("(Ljava/lang/String;)V"),  # 6
        struct.pack(">BHH", 12, 5, 6),  # 7
        struct.pack(">BHH", 10, 4, 7),  # 8: the constructor above
        _text("Code"),  # 9
    )
    code = struct.pack(">HHI", 2, 2, len(_CALL_OF_SUPER)) + _CALL_OF_SUPER + bytes(4)
    constructor = struct.pack(">HHHHHI", _PUBLIC, 5, 6, 1, 9, len(code)) + code
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, _JAVA_8, len(constants) + 1) + b"".join(constants)
    members = struct.pack(">HHHHHH", _PUBLIC | _SUPER, 2, 4, 0, 0, 1) + constructor
    return head + members + bytes(2)


def _text(text: str) -> bytes:
    return struct.pack(">BH", 1, len(text)) + text.encode()
