"""What delta-spark's objects have of the JVM, and adelta's have not."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["NotOfJava"]


class NotOfJava:
    """An object that tells programs which ask for the one of Java's in it what to use instead."""

    @property
    def _jdt(self) -> NoReturn:
        raise self._missing(
            "_jdt",
            "call methods of the DeltaTable, such as history(), detail() or toDF(), or open the "
            "path that detail() tells by adelta.open_table",
        )

    @property
    def _jbuilder(self) -> NoReturn:
        raise self._missing("_jbuilder", "call methods of the builder itself")

    def _missing(self, name: str, instead: str) -> AttributeError:
        return AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}, as adelta has no objects "
            f"in the JVM: {instead}"
        )
