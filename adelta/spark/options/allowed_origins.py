"""Roots that tables of a session may read from: those of the clones that it makes, and others.

``spark.adelta.allowedRoots`` is the storage option `allowed_roots` of every table of a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.spark.options.hadoop_conf import ALLOWED_ROOTS_SETTING
from adelta.storage.allowed_roots import with_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["allow_origin"]


def allow_origin(spark: SparkSession, root: str) -> None:
    """Let tables of the session read from `root`: a shallow clone of it was made here."""
    said = spark.conf.get(ALLOWED_ROOTS_SETTING, None)
    spark.conf.set(ALLOWED_ROOTS_SETTING, with_root(said, root))
