"""Finding a Java, or bringing one."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from adelta.errors import InvalidUseError
from adelta.spark.session.java import ensure_java

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bare(monkeypatch, tmp_path) -> Path:
    """A machine without Java: no JAVA_HOME, and a search path that holds all programs but java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for program in Path(folder).iterdir():
            target = programs / program.name
            if program.name != "java" and not target.is_symlink():
                target.symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    return programs


def fake_java(folder: Path, answer: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.unlink(missing_ok=True)
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    java.chmod(0o755)
    return java


def test_a_java_home_that_is_set_is_left_alone(monkeypatch, tmp_path):
    java = fake_java(tmp_path / "jdk" / "bin", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert ensure_java() == java
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jdk")


def test_a_java_home_without_java_is_refused_by_name(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidUseError, match="has no bin/java"):
        ensure_java()


def test_a_new_enough_java_of_the_search_path_is_left_alone(bare):
    java = fake_java(bare, 'openjdk version "17.0.15" 2025-04-15')
    assert ensure_java() == java
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "nonsense"])
def test_a_java_too_old_for_spark_is_passed_over(bare, version):
    java = fake_java(bare, f'openjdk version "{version}"')
    assert ensure_java() != java
    assert "JAVA_HOME" in os.environ


def test_without_any_java_the_packaged_one_runs_what_spark_starts(bare):
    java = ensure_java()
    assert os.environ["JAVA_HOME"] == str(java.parent.parent)
    assert stat.S_IMODE(java.parent.parent.stat().st_mode) == 0o700  # nobody else can replace it
    arguments = ["--add-modules=jdk.incubator.vector", "-Dname=two words", "-version"]
    run = subprocess.run([java, *arguments], capture_output=True, text=True, check=True)
    assert 'version "21' in run.stderr


def test_the_packaged_java_does_not_outlive_its_process_but_its_forked_children(bare):
    script = (
        "import os, sys\n"
        "from adelta.spark.session.java import ensure_java\n"
        "java = ensure_java()\n"
        "if (child := os.fork()) == 0: sys.exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(java, java.exists())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    java, existed = run.stdout.split()
    assert existed == "True"
    assert not Path(java).exists()


@pytest.mark.skipif(
    "JAVA_HOME" not in os.environ and shutil.which("java") is None,
    reason="this machine has no Java: all tests with Spark run on the packaged one",
)
def test_spark_starts_and_runs_python_on_a_machine_without_java(bare, tmp_path):
    script = (
        "from adelta.spark import get_session\n"
        "spark = get_session(master='local[1]', conf={'spark.driver.memory': '512m'})\n"
        "table = spark.range(10).mapInArrow(lambda batches: batches, 'id long')\n"
        "print('java', spark._jvm.System.getProperty('java.version'))\n"
        "print('rows', table.count())\n"
        "spark.stop()\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYSPARK"))}
    environment["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # starts sooner
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert "java 21" in run.stdout
    assert "rows 10" in run.stdout
