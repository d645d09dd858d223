"""What tests ask of the version of Spark that runs them."""

from __future__ import annotations

import pytest

from adelta.spark.versions import SPARK

__all__ = ["limits_micro_batches", "pushes_filters"]

limits_micro_batches = pytest.mark.skipif(
    not SPARK.limits_micro_batches, reason="micro-batches have no exact limits before Spark 4.2"
)
pushes_filters = pytest.mark.skipif(
    not SPARK.pushes_filters, reason="data sources in Python get no filters before Spark 4.1"
)
