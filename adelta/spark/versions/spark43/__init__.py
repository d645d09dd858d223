"""Spark 4.3."""

from __future__ import annotations

from adelta.spark.versions.spark42 import Spark42

__all__ = ["Spark43"]


class Spark43(Spark42):
    """The adapter for Spark 4.3."""

    release = "4.3"
