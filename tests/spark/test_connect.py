"""The same through Spark Connect: a server of its own, and clients in a process of their own.

PySpark decides once in a process whether it is a client, so the steps run in another one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adelta.errors import InvalidUseError
from adelta.spark.session.java import ensure_java
from tests.spark.conftest import ROOT
from tests.support.spark_startup import quick_spark
from tests.support.unavailable import unavailable

pytestmark = pytest.mark.timeout(1800)  # one process does much

NEEDED = ("grpc", "grpc_status", "google.rpc", "zstandard")
STEPS = Path(__file__).with_name("connect_steps.py")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> dict[str, str]:
    """What became of each step: an empty text, or how it failed."""
    try:
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    except ModuleNotFoundError as error:
        missing = [str(error.name)]
    if missing:
        unavailable(f"Spark Connect needs {', '.join(missing)}")
    try:
        ensure_java()
    except InvalidUseError as error:
        unavailable(f"Spark needs Java: {error}")
    folder = tmp_path_factory.mktemp("connect")
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(STEPS), str(folder)],
        env=quick_spark() | {"PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1700,
    )
    try:
        found: dict[str, str] = json.loads(Path(folder, "outcome.json").read_text())
    except FileNotFoundError:
        pytest.fail(f"no session began:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return found


STEP_NAMES = [
    line.removeprefix("def step_").partition("(")[0]
    for steps in sorted(STEPS.parent.glob("connect_*steps.py"))
    for line in steps.read_text().splitlines()
    if line.startswith("def step_")
]


@pytest.mark.parametrize("step", STEP_NAMES)
def test_through_spark_connect(outcome, step):
    assert outcome[step] == ""
