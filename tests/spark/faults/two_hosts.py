"""A cluster of Spark of two hosts, which are addresses of this machine.

Spark runs the second attempt of a slow task on another host alone, so that in its `local-cluster`,
which is one host, no task runs twice.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from tests.support.spark_startup import quick_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TWO_HOSTS", "started"]

TWO_HOSTS = "two hosts"
"""In the place of a master's address: one that is started."""

_HOSTS = ("127.0.0.2", "127.0.0.3")
_LONGEST = 60.0  # seconds to start


@contextmanager
def started(master: str) -> Iterator[str]:
    """The address of a master; that of `TWO_HOSTS` has a worker of one core on each of them."""
    if master != TWO_HOSTS:
        yield master
        return
    with tempfile.TemporaryDirectory() as folder, _two_hosts(folder) as address:
        yield address


@contextmanager
def _two_hosts(folder: str) -> Iterator[str]:
    spark = Path(pyspark.__file__).parent
    daemons: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Path:
        said = Path(folder) / f"{name}-{len(daemons)}.log"
        of_spark = f"org.apache.spark.deploy.{name.lower()}.{name}"
        command = [str(spark / "bin" / "spark-class"), of_spark, "--webui-port", "0", *arguments]
        with said.open("wb") as log:
            environment = quick_spark() | {"SPARK_HOME": str(spark)}
            daemons.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
            )
        return said

    try:
        log = start("Master", "--host", "127.0.0.1", "--port", "0")
        (address,) = _told(log, r"Starting Spark master at (spark://\S+)", 1)
        for host in _HOSTS:
            work = ("--work-dir", str(Path(folder) / host), "--cores", "1", "--memory", "1g")
            start("Worker", "--host", host, *work, address)
        _told(log, r"Registering worker (\S+) with", len(_HOSTS))
        yield address
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(30)


def _told(log: Path, pattern: str, times: int) -> list[str]:
    """What a daemon has said of `pattern`, as soon as it has said it so often."""
    began = time.monotonic()
    while len(found := re.findall(pattern, log.read_text())) < times:
        if time.monotonic() - began > _LONGEST:
            raise TimeoutError(f"{log}:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)
    return found
