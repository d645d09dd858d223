"""Arrow imports pandas when it first makes a value of Python's its own: never on the loop's thread.

Each case is a process of its own, for a process imports pandas once. Its rows are made without such
values, so that the first ones are adelta's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

import adelta.sync
from tests.support.depth import cases

pytest.importorskip("pandas")

ROOT = Path(__file__).parents[2]
CHILD = """
import asyncio, importlib.machinery, sys, threading

class Watch(importlib.machinery.PathFinder):
    imported_by = []

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target) if name == "pandas" else None
        if spec is not None:
            run = spec.loader.exec_module
            def exec_module(module):
                cls.imported_by.append(threading.current_thread())
                run(module)
            spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Watch)

import pyarrow as pa
import adelta

numbers = pa.arange(0, 10)
rows = pa.table([numbers, numbers], names=["id", "p"])

async def consumed(iterator):
    async for each in iterator:
        return each

async def main(uri):
    async with adelta.open_table(uri) as table:
{work}

assert "pandas" not in sys.modules
asyncio.run(main(sys.argv[1]))
assert threading.main_thread() not in Watch.imported_by, "imported on the loop's thread"
print(len(Watch.imported_by))
"""
READ = {
    "list files": "await (await table.snapshot()).files()",
    "scan": "await (await table.snapshot()).scan().to_arrow()",
    "scan some": """
        scan = (await table.snapshot()).scan(where="id = 4 AND p < 2.5 AND id <> -1 + 2")
        found = await scan.to_arrow()
        assert not found.num_rows
        found = await (await table.snapshot()).scan(where=[("id", "in", [4, 5])]).to_arrow()
        assert found.num_rows == 4, found.num_rows
    """,
    "scan batches": "await consumed((await table.snapshot()).scan(limit=3).batches())",
    "count": "await (await table.snapshot()).scan().count()",
    "tail": "await consumed(adelta.tail(table))",
    "changes": "await consumed(adelta.changes(table, since=0))",
    "detail": "await adelta.detail(table)",
}
WRITE = {
    "append": "await adelta.write_table(table, rows)",
    "overwrite": "await adelta.write_table(table, rows, mode='overwrite')",
    "replace": """
        new = rows.slice(3, 1)
        await adelta.write_table(table, new, mode="overwrite", replace_where="id = 3")
    """,
    "by hand": """
        async with table.transaction() as tx:
            tx.set_transaction("app", 1)
    """,
    "create": """
        await adelta.write_table(table.uri + "/new", rows)
        await (await adelta.create_table(table.uri + "/other", rows.schema)).aclose()
    """,
    "delete": "await adelta.delete(table, 'id = 3')",
    "update": "await adelta.update(table, {'p': 'p + 1'}, 'id = 3')",
    "alter": "await adelta.set_properties(table, {'delta.appendOnly': 'true'})",
    "checkpoint": "await adelta.checkpoint(table)",
    "optimize": "await adelta.optimize(table)",
    "sort": "await adelta.optimize(table, zorder_by=['id', 'p'])",
    "vacuum": "await adelta.vacuum(table)",
    "many files": """
        from adelta.kernel.commit import decode_commit
        for values in (b'{}', b'{"a":"1","b":"2"}'):
            add = b'{"add":{"path":"f","partitionValues":' + values + b',"size":1,'
            add += b'"modificationTime":1,"dataChange":true}}'
            decode_commit(1, b"\\n".join([b'{"commitInfo":{}}', *[add] * (1 << 20 >> 6)]))
    """,
    "restore": "await adelta.restore(table, version=0)",
}
MERGE = """
    merge = adelta.merge(table, rows, on="target.id = source.id").when_matched_update_all()
    await merge.when_not_matched_insert_all().execute()
"""


def run(work: str, uri: str) -> int:
    """How often the process imported pandas."""
    indented = textwrap.indent(textwrap.dedent(work).strip(), " " * 8)
    done = subprocess.run(
        [sys.executable, "-c", CHILD.replace("{work}", indented), uri],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    numbers = pa.arange(0, 10)  # type: ignore[attr-defined]  # the stubs do not know it
    rows = pa.table([numbers, numbers], names=["id", "p"])
    with adelta.sync.open_table(str(tmp_path / "t")) as table:
        feed = {"delta.enableChangeDataFeed": "true"}
        adelta.sync.write_table(table, rows, properties=feed)
        adelta.sync.write_table(table, rows)
        adelta.sync.update(table, {"p": "p"}, "id = 9")
    return str(tmp_path / "t")


def test_opening_a_table_imports_no_pandas_at_all(uri: str) -> None:
    assert run("(await table.snapshot()).schema", uri) == 0


@pytest.mark.parametrize(
    "work",
    [
        "await (await table.snapshot()).files(where='id > 3')",
        'await (await table.snapshot()).scan(where="id in (1, 2) and p < 5").to_arrow()',
    ],
)
def test_the_first_query_does_not_pay_for_it(work: str, uri: str) -> None:
    assert run(work, uri) == 0


@pytest.mark.parametrize("work", [*READ.values()][:: cases(1, 2)], ids=[*READ][:: cases(1, 2)])
def test_reading_imports_pandas_off_the_loop(work: str, uri: str) -> None:
    assert run(work, uri) <= 1


@pytest.mark.parametrize("work", [*WRITE.values()][:: cases(1, 2)], ids=[*WRITE][:: cases(1, 2)])
def test_writing_imports_no_pandas_at_all(work: str, uri: str) -> None:
    assert run(work, uri) == 0


def test_merging_imports_pandas_off_the_loop(uri: str) -> None:
    assert run(MERGE, uri) <= 1  # with Arrow's joins
