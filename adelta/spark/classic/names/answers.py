"""What Java asks of Python: questions as arrays, answered by methods, errors told as text."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from adelta.errors import (
    AdeltaError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from adelta.spark.classic.names.through_jvm import remembered

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    SessionOf = Callable[[Any], SparkSession]
    # The session in Python of one in the JVM.

__all__ = ["Answers"]

_log = logging.getLogger("adelta.spark")


class Answers:
    """A `java.util.function.Function` whose questions are named after methods of this object.

    A question is an array: the name, of which blanks are underscores in Python, and the arguments.
    An error is answered by ``!`` and its kind and text as JSON: `InPython.java` throws it.
    """

    def apply(self, question: Any) -> object:
        """The answer to a question of Java's."""
        name, *arguments = question
        method: Callable[..., object] = getattr(self, f"answer_{name}")
        try:
            return method(*arguments)
        except TableNotFoundError as error:
            return _told("missing", error)
        except TableAlreadyExistsError as error:
            return _told("exists", error)
        except AdeltaError as error:
            return _told("refused", error, remembered(error))
        except Exception as error:
            if not isinstance(error, PySparkException):
                _log.warning("%s failed", name, exc_info=True)
            return _told("refused", error)

    class Java:
        """What py4j makes of this object."""

        implements = ("java.util.function.Function",)


def _told(kind: str, error: Exception, token: str | None = None) -> str:
    text = str(error) if isinstance(error, PySparkException) else f"{type(error).__name__}: {error}"
    return "!" + json.dumps({"kind": kind, "message": text, "token": token})
