"""Jobs written for delta-spark, with not a line changed but the one that installs adelta for it."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import adelta.spark
from adelta.errors import ConcurrentAppendError, InvalidUseError
from adelta.spark.exceptions import as_spark_has_it
from adelta.spark.session.jar_settings import changed_without_jar


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
from delta.connect.tables import DeltaTable as RemoteTable
from delta.connect.exceptions import ConcurrentAppendException as RemoteConflict
from delta.exceptions.captured import ConcurrentAppendException as CapturedConflict
from delta.exceptions.captured import _convert_delta_exception
from delta.testing.utils import DeltaTestCase
from delta.connect.testing import utils as of_connect
from delta.connect._typing import ColumnMapping
import delta.connect.plan

class Case(DeltaTestCase):
    def runTest(self):
        with self.tempTable() as name:
            self.spark.range(2).write.format("delta").saveAsTable(name)
            Table.forName(self.spark, name).delete("id = 0")
            Table.forName(self.spark, name).toDF().write.format("delta").save(self.tempFile)
            assert self.spark.read.format("delta").load(self.tempFile).count() == 1

def work(spark, path):
    Case.spark, Case.setUpClass, Case.tearDownClass = spark, lambda: None, lambda: None
    Case().debug()
    assert not hasattr(of_connect, "nothing")
    assert DeltaTable is Table is delta.tables.DeltaTable is RemoteTable
    assert ConcurrentAppendException is RemoteConflict is CapturedConflict
    thrown = spark._jvm.io.delta.exceptions.ConcurrentAppendException("lost")
    assert isinstance(_convert_delta_exception(thrown), ConcurrentAppendException)
    assert _convert_delta_exception(spark._jvm.java.lang.Exception("x")) is None
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


def test_plans_of_delta_sparks_extension_say_what_to_call(nothing_imported):
    adelta.spark.install_as_delta()
    with pytest.raises(ImportError, match=r"DeltaScan: .* call the method of DeltaTable"):
        exec("from delta.connect.plan import DeltaScan")
    if (active := SparkSession.getActiveSession()) is not None:
        adelta.spark.register(active)


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


EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def test_entries_of_the_jar_are_left_out_of_settings():
    settings = {
        "spark.sql.extensions": f"org.example.One,{EXTENSION}, org.example.Two",
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.jars.packages": "io.delta:delta-spark_4.0_2.13:4.0.0,io.delta:delta-sharing:1.0",
        "spark.connect.extensions.relation.classes": "org.apache.spark.sql.connect.delta."
        "DeltaRelationPlugin",
        "spark.app.name": "io.delta",
    }
    assert changed_without_jar(settings) == {
        "spark.sql.extensions": "org.example.One,org.example.Two",
        "spark.sql.catalog.spark_catalog": None,
        "spark.jars.packages": "io.delta:delta-sharing:1.0",
        "spark.connect.extensions.relation.classes": None,
    }
    others = {"spark.sql.extensions": "org.example.One", "spark.sql.catalog.spark_catalog": "a.B"}
    assert changed_without_jar(others) == {}


def test_sessions_that_are_made_know_delta_tables_without_the_jar(
    spark, tmp_path, nothing_imported
):
    other = spark.newSession()
    adelta.spark.install_as_delta()
    try:
        conf = SparkConf().set("spark.sql.extensions", EXTENSION).set("spark.some", "x")
        conf.set("spark.sql.catalog.spark_catalog", CATALOG)
        with pytest.raises(ValueError, match="multiple SparkContexts"):
            SparkContext(conf=conf)  # the second of a process: but settings are seen to before
        assert (conf.get("spark.sql.extensions"), conf.get("spark.some")) == (None, "x")
        assert conf.get("spark.sql.catalog.spark_catalog") is None
        session = spark.newSession()  # as SparkSession(SparkContext) makes one
        spark.range(2).write.format("delta").save(str(tmp_path / "t"))
        assert session.sql(f"DESCRIBE HISTORY delta.`{tmp_path}/t`").count() == 1
        session.range(2).write.format("delta").save(str(tmp_path / "u"))  # which registers it
        assert session.sql(f"DESCRIBE HISTORY delta.`{tmp_path}/u`").count() == 1
        # A cluster's own settings come with the JVM.
        other.conf.set("spark.sql.catalog.spark_catalog", CATALOG)
        assert other.sql(f"SELECT * FROM delta.`{tmp_path}/t`").count() == 2
        assert other.conf.get("spark.sql.catalog.spark_catalog", None) is None
    finally:
        adelta.spark.register(spark)


def test_a_builder_makes_sessions_that_know_delta_tables(spark, tmp_path, nothing_imported):
    adelta.spark.install_as_delta()
    adelta.spark.register(spark)
    from delta import configure_spark_with_delta_pip

    builder = SparkSession.builder.appName("a job")
    made = configure_spark_with_delta_pip(builder).config(
        "spark.sql.catalog.spark_catalog", CATALOG
    )
    path = str(tmp_path / "t")
    try:
        session = made.getOrCreate()
        session.range(2).write.format("delta").save(path)
        assert session.read.format("delta").load(path).count() == 2
        assert session.sql(f"DESCRIBE DETAIL delta.`{path}`").first().numFiles > 0
        assert "spark.sql.catalog.spark_catalog" not in made._options
    finally:
        adelta.spark.register(spark)
    with pytest.raises(TypeError, match="must be called with a SparkSession builder"):
        configure_spark_with_delta_pip(session)


def test_importing_adelta_installs_nothing():
    text = "import adelta.spark, sys; assert 'delta' not in sys.modules"
    subprocess.run([sys.executable, "-W", "ignore", "-c", text], check=True)
