"""Versions of Spark: each has an adapter, and Java sources that its own compiler takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from adelta.spark.classic.java_classes import java_source, java_sources
from adelta.spark.versions import SPARK, adapter_for

ROOT = Path(__file__).parents[2]

# What a Spark that adelta does not know does: every step goes through the Python data source.
UNKNOWN_SPARK = """
import logging, sys, warnings
import pyspark, pyspark.version
pyspark.__version__ = pyspark.version.__version__ = "4.99.0"
logging.basicConfig(level=logging.WARNING, format="%(name)s %(message)s", stream=sys.stdout)
from adelta.spark import get_session, read
from adelta.spark.side import side_of
folder = sys.argv[1]
conf = {"spark.driver.memory": "512m", "spark.log.level": "OFF"}
spark = get_session(master="local[1]", conf=conf)
print("side:", type(side_of(spark)).__name__)
spark.range(5).write.format("adelta").mode("append").save(folder)
print("rows:", spark.read.format("adelta").load(folder).where("id > 1").count())
print("rows again:", read(spark, folder).count())
spark.stop()
"""


@pytest.mark.parametrize("release", ["4.0", "4.1", "4.2", "4.3"])
def test_each_supported_release_has_an_adapter_of_its_own(release):
    adapter = adapter_for(f"{release}.7")
    assert (adapter.release, adapter.version, adapter.is_known) == (release, f"{release}.7", True)


def test_the_adapter_in_use_is_that_of_the_installed_pyspark():
    assert pyspark.__version__.startswith(f"{SPARK.release}.")
    assert SPARK.is_known


@pytest.mark.parametrize("version", ["4.10.0", "4.4.0.dev1", "5.0.0"])
def test_a_release_without_an_adapter_is_not_known(version):
    assert not adapter_for(version).is_known


def test_java_sources_are_those_of_the_version_or_of_the_nearest_one_before_it():
    older, newer = adapter_for("4.0.5"), adapter_for("4.1.4")
    assert java_sources(older).keys() == java_sources(newer).keys()
    assert java_source("Constraints", older) != java_source("Constraints", newer)
    assert java_source("Constraints", newer) == java_source("Constraints", adapter_for("4.3.0"))
    assert java_source("SqlText", older) == java_source("SqlText", newer)


def test_all_java_sources_compile_with_the_installed_spark(tmp_path):
    run = run_python("-m", "tools.compile_java")
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert f"Spark {pyspark.__version__}: all Java sources compile" in run.stdout


def test_an_unknown_spark_works_through_the_python_data_source_with_one_warning(tmp_path):
    run = run_python("-W", "ignore", "-c", UNKNOWN_SPARK, str(tmp_path / "t"))
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    assert "side: PythonSourceSide" in run.stdout
    assert "rows: 3" in run.stdout
    assert "rows again: 5" in run.stdout
    warnings = [line for line in run.stdout.splitlines() if "adelta.spark" in line]
    assert len(warnings) == 1, run.stdout
    assert "Spark 4.99.0" in warnings[0]
    assert "4.3" in warnings[0]


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "SPARK_HOME"}
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
    )
