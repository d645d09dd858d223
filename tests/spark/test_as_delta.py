"""Jobs written for delta-spark, with not a line changed but the one that installs adelta for it."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest
from pyspark.sql import SparkSession

import adelta.spark
from adelta.errors import ConcurrentAppendError, InvalidUseError
from adelta.spark.exceptions import as_spark_has_it


@pytest.fixture
def nothing_imported():
    """No package delta before, and none afterwards."""

    def forget():
        for name in [n for n in sys.modules if n == "delta" or n.startswith("delta.")]:
            del sys.modules[name]

    forget()
    yield
    forget()


JOB = """
from delta import *
from delta.tables import DeltaTable as Table, DeltaTableBuilder, IdentityGenerator
from delta.exceptions import ConcurrentAppendException, DeltaConcurrentModificationException
import delta.tables, delta.exceptions, delta.pip_utils

def work(spark, path):
    assert DeltaTable is Table is delta.tables.DeltaTable
    spark.range(3).write.format("delta").save(path)
    table = Table.forPath(spark, path)
    table.update("id = 1", {"id": "10"})
    found = sorted(row.id for row in spark.read.format("delta").load(path).collect())
    try:
        raise conflict
    except ConcurrentAppendException:
        return found, delta.__version__
"""


def test_a_job_runs_as_it_is(spark, tmp_path, nothing_imported):
    adelta.spark.install_as_delta()
    adelta.spark.install_as_delta()  # nothing more
    job: dict = {"conflict": as_spark_has_it(ConcurrentAppendError("lost"))}
    try:
        exec(compile(JOB, "job", "exec"), job)
        found, version = job["work"](spark, str(tmp_path / "t"))
    finally:
        adelta.spark.register(spark)
    assert found == [0, 2, 10]
    assert version


def test_a_real_delta_spark_is_left_alone(nothing_imported, tmp_path, monkeypatch):
    sys.modules["delta"] = types.ModuleType("delta")
    with pytest.raises(InvalidUseError, match="imported already"):
        adelta.spark.install_as_delta()
    del sys.modules["delta"]
    (tmp_path / "delta").mkdir()
    (tmp_path / "delta" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InvalidUseError, match="there is a package delta already"):
        adelta.spark.install_as_delta()
    assert "delta" not in sys.modules


def test_a_folder_called_delta_is_no_package(nothing_imported, tmp_path, monkeypatch, spark):
    (tmp_path / "delta").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    adelta.spark.install_as_delta()
    adelta.spark.register(spark)
    assert sys.modules["delta"].DeltaTable is adelta.spark.DeltaTable


def test_a_builder_makes_sessions_that_know_delta_tables(spark, tmp_path, nothing_imported):
    adelta.spark.install_as_delta()
    adelta.spark.register(spark)
    from delta import configure_spark_with_delta_pip

    builder = SparkSession.builder.appName("a job").config(
        "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension,org.example.Other"
    )
    catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    made = configure_spark_with_delta_pip(builder).config(
        "spark.sql.catalog.spark_catalog", catalog
    )
    del made._options["spark.sql.extensions"]  # static: only for the first session of a process
    path = str(tmp_path / "t")
    try:
        session = made.getOrCreate()
        session.range(2).write.format("delta").save(path)
        assert session.read.format("delta").load(path).count() == 2
        assert "spark.sql.catalog.spark_catalog" not in made._options
    finally:
        adelta.spark.register(spark)
    with pytest.raises(TypeError, match="must be called with a SparkSession builder"):
        configure_spark_with_delta_pip(session)


def test_importing_adelta_installs_nothing():
    text = "import adelta.spark, sys; assert 'delta' not in sys.modules"
    subprocess.run([sys.executable, "-W", "ignore", "-c", text], check=True)
