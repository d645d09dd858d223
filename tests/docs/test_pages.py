"""The README and the pages in `docs`: every code block runs, and prints what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from codeop import CommandCompiler
from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidUseError
from tests.docs.blocks import PAGES, ROOT, blocks_of, uses_spark
from tests.support.depth import DEEP
from tests.support.owner_process import running_owner_process
from tests.support.spark_startup import quick_spark
from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.postgres_server import PostgresServer
    from tests.support.s3_server import S3Server

pytestmark = pytest.mark.timeout(1800)  # one process does much

RUN = [page for page in PAGES if blocks_of(page)]
ON_SPARK = [page for page in RUN if uses_spark(page)]
OFTEN = ["README.md", "docs/tutorial.md"]  # of those, where the others wait for the full depth


@pytest.fixture(scope="module")
def environment(
    s3_server: S3Server, postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """What a reader has who follows the pages: a bucket ``lake``, PostgreSQL, a commit owner."""
    s3_server.make_bucket("lake")
    aws = {key.upper(): value for key, value in s3_server.storage_options.items()}
    aws |= {"AWS_DEFAULT_REGION": s3_server.region}
    ledger: Path = tmp_path_factory.mktemp("owner") / "owner.db"
    with running_owner_process(str(ledger)) as owner:
        yield {
            **aws,
            "COLUMNS": "100",
            "DATABASE": postgres_server.address,
            "ADELTA_OWNER_DATABASE": owner.database,
            "ADELTA_OWNER_ENDPOINT": owner.endpoint,
            "ADELTA_OWNER_TOKEN": owner.token or "",
        }


def run(pages: list[str], environment: dict[str, str], folder: Path) -> None:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "error::ResourceWarning", "-m", "tests.docs.run_pages"]
    done = subprocess.run(
        [*command, *pages],
        cwd=folder,
        env=quick_spark() | environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=1700,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    print(done.stdout)


def test_the_blocks_of_every_page_run(environment: dict[str, str], tmp_path: Path) -> None:
    run([page for page in RUN if page not in ON_SPARK], environment, tmp_path)


def test_the_tutorial_can_be_pasted_into_a_prompt() -> None:
    """Which takes one statement at once, and ends a block, up to Python 3.12, by an empty line."""
    for block in blocks_of("docs/tutorial.md"):
        compiled, lines = CommandCompiler(), list[str]()
        for line in [*block.text.splitlines(), ""] if block.language == "python" else ():
            lines.append(line)
            if compiled("\n".join(lines), block.place) is not None:
                lines.clear()
        assert not any(lines), block.place


def test_so_do_those_that_use_spark(environment: dict[str, str], tmp_path: Path) -> None:
    from adelta.spark.session.java import ensure_java

    try:
        ensure_java()
    except InvalidUseError as error:
        unavailable(f"Spark needs Java: {error}")
    run(ON_SPARK if DEEP else OFTEN, environment, tmp_path)
