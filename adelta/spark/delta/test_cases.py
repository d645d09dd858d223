"""Cases of `unittest` that have a session, as suites written for delta-spark import them.

``delta.testing.utils.DeltaTestCase`` is over a classic session, and that of ``delta.connect``
through Spark Connect. They are made when they are asked for, of PySpark's, which import much.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adelta._chance import new_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["test_case"]

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "5",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "5",
}


def test_case(module: str, base: str) -> Callable[[str], Any]:
    """What gives `DeltaTestCase` by its name, of a class of ``pyspark.testing``."""
    made: list[Any] = []

    def found(name: str) -> Any:
        if name != "DeltaTestCase":
            raise AttributeError(f"there is no {name} here")
        if not made:
            made.append(_over(getattr(import_module(f"pyspark.testing.{module}"), base)))
        return made[0]

    return found


def _over(base: Any) -> Any:
    class DeltaTestCase(base):  # type: ignore[misc]
        """A case whose session knows Delta tables, with a folder of its own in each test."""

        @classmethod
        def conf(cls) -> Any:
            """The settings of the session."""
            conf = super().conf()
            for name, value in {"spark.app.name": cls.__name__, **_SETTINGS}.items():
                conf.set(name, value)
            return conf

        def setUp(self) -> None:
            super().setUp()
            self.tempPath = tempfile.mkdtemp()
            self.tempFile = str(Path(self.tempPath, "tempFile"))

        def tearDown(self) -> None:
            super().tearDown()
            shutil.rmtree(self.tempPath, ignore_errors=True)

        @contextmanager
        def tempTable(self) -> Iterator[str]:
            """The name of a table that is dropped at the end, if it was made."""
            name = f"table_{new_uuid().hex}"
            with self.table(name):
                yield name

    return DeltaTestCase
