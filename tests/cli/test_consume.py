"""`adelta consume`: rows of a table to a command, into another table, or printed."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.ipc
import pytest

import adelta.sync
from adelta.cli.commands import consume
from adelta.console.render import Output
from tests.cli.test_commands import lines

if TYPE_CHECKING:
    from tests.cli.conftest import Run

COLLECT = "import os,sys; open({out!r},'ab').write(sys.stdin.buffer.read())"


@pytest.fixture
def source(tmp_path: Path) -> str:
    uri = str(tmp_path / "source")
    adelta.sync.write_table(uri, pa.table({"id": [1, 2], "p": ["a", "b"]}), partition_by=["p"])
    return uri


def test_rows_are_copied_once_and_the_copy_goes_on(run: Run, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    for _ in range(2):
        status, out, err = run("consume", source, "--to", target, "--no-follow", "--json")
        assert (status, err) == (0, "")
    assert out == ""
    adelta.sync.write_table(source, pa.table({"id": [3], "p": ["c"]}))
    _, out, _ = run("consume", source, "--to", target, "--no-follow", "--json")
    (told,) = lines(out)
    assert told["rows"] == 1
    with adelta.sync.open_table(target) as table:
        snapshot = table.snapshot()
        assert sorted(snapshot.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [1, 2, 3]
        assert snapshot.partition_columns == ("p",)
    _, out, _ = run("consume", source, "--to", target, "--seek", "latest", "--no-follow")
    assert out == ""


def test_a_command_gets_each_batch_until_one_fails(run: Run, source: str, tmp_path: Path) -> None:
    out_file, places = str(tmp_path / "out"), str(tmp_path / "positions")
    taken = ["consume", source, "--positions", places, "--no-follow", "--max-rows", "1"]
    command = f'"{sys.executable}" -c "{COLLECT.format(out=out_file)}"'
    fails = "import os; assert os.environ['ADELTA_FIRST'][0] == 's'; raise SystemExit(3)"
    failing = f'"{sys.executable}" -c "{fails}"'
    status, _, err = run(*taken, "--exec", failing)
    assert status == 1
    assert "ended with 3" in err
    assert run(*taken, "--exec", command)[0] == 0
    rows = [json.loads(line) for line in Path(out_file).read_text().splitlines()]
    assert sorted(row["id"] for row in rows) == [1, 2]
    status, out, _ = run("consume", source, "--positions", places, "--lag", "--json")
    assert lines(out)[0]["versions"] == 0
    Path(out_file).unlink()
    status, _, _ = run(*taken[:-2], "--seek", "0", "--format", "arrow", "--exec", command)
    assert status == 0
    assert pa.ipc.open_stream(Path(out_file).read_bytes()).read_all().num_rows == 2
    assert run(*taken, "--seek", "0", "--exec", "no-such-program")[0] == 1
    assert run(*taken, "--exec", "true")[0] == 0, "it need not read"


HANGS = """
import os, pathlib, signal, sys, time
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1] + ".new").write_text(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(60)
"""


def lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("listens", ["deaf", "ends"])
@pytest.mark.parametrize("by_shell", [False, True], ids=["itself", "what it started"])
async def test_a_command_that_hangs_is_ended_when_its_consumer_is_interrupted(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_shell: bool, listens: str
) -> None:
    monkeypatch.setattr("adelta.cli.commands.consume._GRACE", 0.1 if listens == "deaf" else 20)
    begun, places = tmp_path / "begun", str(tmp_path / "positions")
    command = f"{sys.executable} -S -c {shlex.quote(HANGS)} {begun} {listens}"
    if by_shell:
        command = f"sh -c {shlex.quote(f'{command}; true')}"
    parser = ArgumentParser()
    consume.configure(parser)
    told = parser.parse_args([source, "--positions", places, "--no-follow", "--exec", command])
    running = asyncio.create_task(consume.run(told, Output(as_json=True)))
    while not begun.exists() and not running.done():  # noqa: ASYNC110 - for another process
        await asyncio.sleep(0.01)
    running.cancel()  # as asyncio does on Ctrl-C
    done, _ = await asyncio.wait([running], timeout=20)
    assert done
    assert running.cancelled()
    for _ in range(500):
        if not lives(int(begun.read_text())):
            break
        await asyncio.sleep(0.01)
    else:
        pytest.fail("what the command has started is still there")
    async with adelta.Consumer(source, "consume", places, follow=False) as consumer:
        assert [batch.num_rows async for batch in consumer] == [2]


def test_without_either_rows_are_printed(run: Run, source: str, tmp_path: Path) -> None:
    places = str(tmp_path / "positions")
    _, out, _ = run("consume", source, "--positions", places, "--no-follow", "--share", "id:0/1")
    assert sorted(row["id"] for row in lines(out)) == [1, 2]
    _, out, _ = run(
        "consume", source, "--positions", places, "--of", "commits", "--name", "c", "--no-follow"
    )
    assert [row["version"] for row in lines(out)] == [0]


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--positions", "p", "--to", "t"],
        ["--to", "t", "--of", "commits"],
        ["--positions", "p", "--share", "id"],
        ["--positions", "p", "--exec", ""],
        ["--positions", "p", "--name", "a/b"],
    ],
)
def test_what_is_asked_wrongly_is_refused(run: Run, source: str, wrong: list[str]) -> None:
    try:
        status = run("consume", source, *wrong)[0]
    except SystemExit as error:
        status = int(str(error.code))
    assert status == 2
