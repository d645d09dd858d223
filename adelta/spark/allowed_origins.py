"""Roots that tables of a session may read from: those of the clones that it makes, and others.

``spark.adelta.allowedRoots`` is the storage option `allowed_roots` of every table of a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.spark.hadoop_conf import ALLOWED_ROOTS_SETTING
from adelta.storage.addresses import Place
from adelta.storage.allowed_roots import ALLOWED_ROOTS, allowed_roots, given_roots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["allow_origin"]


def allow_origin(spark: SparkSession, root: str) -> None:
    """Let tables of the session read from `root`: a shallow clone of it was made here.

    Where the session's roots have storage options of their own, they stay as they are.
    """
    said = spark.conf.get(ALLOWED_ROOTS_SETTING, None) or ""
    known = allowed_roots({ALLOWED_ROOTS: said})
    place = Place.of(root)
    if any(each.options is not None or each.place == place for each in known):
        return
    roots = [*(each.place.address for each in known), place.address]
    spark.conf.set(ALLOWED_ROOTS_SETTING, given_roots(roots))
