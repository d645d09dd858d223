"""`import adelta` loads none of the libraries: each comes with the first name that needs it.

Every case of that is a process of its own, for a process imports a module once.
"""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
from datetime import datetime
from importlib import import_module
from importlib.metadata import version
from itertools import count
from pathlib import Path
from threading import Event, Thread
from types import ModuleType

import pyarrow as pa
import pyarrow.compute
import pytest

import adelta
import adelta.changes
import adelta.consumers
import adelta.operations
import adelta.spark
import adelta.sync
import adelta.sync.changes
import adelta.sync.consumers
import adelta.sync.operations
from adelta import _compute, _lazy_arrow

HEAVY = {
    "aiobotocore", "aiohttp", "anyio", "asyncio", "asyncpg", "botocore", "numpy", "pandas",
    "pyarrow", "pyspark", "rich", "uvloop",
}  # fmt: skip
NETWORK = {"aiobotocore", "aiohttp", "asyncpg", "botocore"}
PACKAGES = [
    adelta, adelta.operations, sys.modules["adelta.changes"], adelta.sync, adelta.sync.operations,
    sys.modules["adelta.sync.changes"], adelta.consumers, adelta.sync.consumers, adelta.spark,
]  # fmt: skip


def loaded_by(program: str) -> set[str]:
    """The top-level modules that a process has loaded when it has run `program`."""
    return {name.partition(".")[0] for name in modules_after(program)}


def modules_after(program: str) -> set[str]:
    """All modules that a process has loaded when it has run `program`."""
    lines = f"import sys\ntry:\n    {program}\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, check=True, timeout=300
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "program",
    [
        "import adelta",
        "import adelta.sync",
        "import adelta; adelta.errors.AdeltaError; dir(adelta)",
        "import adelta.operations, adelta.changes, adelta.sync.operations, adelta.sync.changes",
        "import adelta.errors",
        "from adelta.cli.main import main; main(['--help'])",
        "from adelta.cli.main import main; main(['--version'])",
    ],
)
def test_no_library_is_loaded_before_a_name_needs_it(program: str) -> None:
    assert not loaded_by(program) & HEAVY


OPEN = """
import asyncio, adelta
async def opened():
    async with adelta.open_table({uri!r}) as table:
        snapshot = await table.snapshot()
        assert snapshot.version == {version}
        assert [field.name for field in snapshot.delta_schema] == ["id", "p"]
        assert snapshot.partition_columns == ("p",)
asyncio.run(opened())
"""


@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("properties", [{}, {"delta.checkpointPolicy": "v2"}])
async def test_a_table_is_opened_without_arrow(
    tmp_path: Path, properties: dict[str, str], checksums: bool
) -> None:
    uri = str(tmp_path / "table")
    rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    await adelta.write_table(uri, rows, partition_by=["p"], properties=properties)
    await adelta.write_table(uri, rows, mode="append")
    async with adelta.open_table(uri) as table:
        await adelta.checkpoint(table)
    await adelta.write_table(uri, rows, mode="append")
    if not checksums:
        for path in (tmp_path / "table" / "_delta_log").glob("*.crc"):
            path.unlink()
    program = OPEN.format(uri=uri, version=2)
    assert not loaded_by(f"exec({program!r})") & {"numpy", "pandas", "pyarrow"}
    blocking = f"import adelta.sync; assert adelta.sync.open_table({uri!r}).snapshot().version == 2"
    assert not loaded_by(blocking) & {"numpy", "pandas", "pyarrow"}


def test_arrow_is_first_used_while_another_thread_loads_more_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread that loads a part of a package sets it on the package all the while."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for turn in range(20):
            name = f"a_package_{turn}"
            package = ModuleType(name)
            vars(package).update((f"name_{number}", number) for number in range(600))
            monkeypatch.setitem(sys.modules, name, package)
            ended = Event()

            def load(package: ModuleType = package, ended: Event = ended) -> None:
                for number in count():
                    if ended.is_set():
                        return
                    setattr(package, f"part_{number}", package)

            loading = Thread(target=load)
            loading.start()
            try:
                assert type(_lazy_arrow.pa)(name).name_5 == 5
            finally:
                ended.set()
                loading.join()
    finally:
        sys.setswitchinterval(interval)


def test_the_package_tells_its_version() -> None:
    assert adelta.__version__ == version("adelta")
    assert "__version__" not in adelta.__all__


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted on Linux")
@pytest.mark.parametrize("name", ["adelta", "adelta.sync", "adelta.errors", "adelta.cli.main"])
def test_an_import_starts_no_thread(name: str) -> None:
    """Neither one of Python's nor one of a library's, which a fork would lose."""
    program = f"import os; before = os.listdir('/proc/self/task'); import {name}; "
    program += "assert os.listdir('/proc/self/task') == before"
    loaded_by(program)


def test_a_table_on_a_local_disk_loads_nothing_that_speaks_to_a_network(tmp_path: Path) -> None:
    program = (
        "import pyarrow, adelta.sync as a; "
        f"a.write_table({str(tmp_path / 't')!r}, pyarrow.table({{'n': [1]}})); "
        f"assert a.open_table({str(tmp_path / 't')!r}).snapshot().scan().count() == 1"
    )
    loaded = loaded_by(program)
    assert "pyarrow" in loaded
    assert not loaded & (NETWORK | {"rich"})


def test_to_change_no_rows_loads_nothing_that_writes_rows_or_knows_predicates(
    tmp_path: Path,
) -> None:
    adelta.sync.write_table(str(tmp_path / "t"), pa.table({"n": [1]}))
    loaded = modules_after(f"import adelta.sync as a; a.vacuum({str(tmp_path / 't')!r})")
    beyond = re.compile(
        r"adelta\.(kernel\.expressions\.(parse|library)|kernel\.data_skipping\.prune"
        r"|write\.(data_file_writer|write_data_files|layout|row_rules))"
    )
    assert [name for name in sorted(loaded) if beyond.match(name)] == []


def test_to_open_a_table_loads_nothing_that_writes_reads_rows_or_knows_predicates(
    tmp_path: Path,
) -> None:
    """Not even where the table is opened from a checkpoint, some of which is Parquet.

    And to read all rows loads nothing of predicates.
    """
    adelta.sync.write_table(str(tmp_path / "t"), pa.table({"n": [1]}))
    with adelta.sync.open_table(str(tmp_path / "t")) as table:
        adelta.sync.checkpoint(table)
    snapshot = f"import adelta.sync as a; s = a.open_table({str(tmp_path / 't')!r}).snapshot(); "
    opened = modules_after(f"{snapshot} assert s.schema and s.files().num_rows == 1")
    assert "adelta.log.checkpoint_reader" in opened
    predicates = (
        r"kernel\.expressions\.(?!nodes)|kernel\.data_skipping\.(prune|rewrite|stats_parse)\b"
    )
    others = r"transaction|operations|scan|read\.|write\.(?!queue_of_table|commit_timeout)"
    beyond = re.compile(rf"adelta\.({predicates}|{others})")
    assert [name for name in sorted(opened) if beyond.match(name)] == []

    files = r"log\.(version_replay|checkpoint_replay|file_groups|row_group_reader|column_arena)"
    owners = r"commit\.(postgresql|owner_change|catalog_store|together)|storage\.sigv4"
    beyond = re.compile(rf"adelta\.({files}|{owners})|pyarrow\._?compute|tempfile|difflib")
    only_opened = modules_after(f"{snapshot} assert s.schema")
    assert [name for name in sorted(only_opened) if beyond.match(name)] == []

    scanned = modules_after(f"{snapshot} assert s.scan().to_arrow().num_rows == 1")
    assert [name for name in sorted(scanned) if re.match(rf"adelta\.({predicates})", name)] == []


@pytest.mark.parametrize("in_loop", [False, True])
def test_what_scans_need_is_loaded_with_the_handle_before_a_loop_runs(in_loop: bool) -> None:
    """A service names `open_table` when it starts: no request of it waits for modules."""
    first = "import adelta; adelta.open_table"
    if in_loop:
        first = f"import asyncio\n    async def main():\n        {first}\n    asyncio.run(main())"
    loaded = modules_after(first)
    assert "adelta.table" in loaded
    assert {"adelta.scan", "adelta.kernel.expressions.parse"} <= loaded or in_loop
    assert not ({"adelta.scan", "adelta.kernel.expressions.parse"} & loaded and in_loop)


def test_a_worker_of_spark_loads_no_more_than_its_part_of_the_data_source_needs() -> None:
    """Spark starts a process for each: one that only asks for the source's name reads nothing."""
    pytest.importorskip("pyspark")
    assert not loaded_by("import adelta.spark.source.datasource") & (HEAVY - {"pyspark", "asyncio"})
    program = (
        "import sys, adelta.spark.source.reader; "
        "assert not [m for m in sys.modules if m.startswith('adelta.spark.source.stream')]; "
        "assert 'adelta.spark.delta.table' not in sys.modules"
    )
    loaded_by(program)


@pytest.mark.parametrize("checkpoint", [False, True], ids=["commits", "checkpoint"])
def test_a_table_is_opened_and_its_files_are_found_without_all_compute_functions(
    tmp_path: Path, checkpoint: bool
) -> None:
    """`pyarrow.compute` takes longer to load than a table takes to be opened.

    So it is, to a lesser degree, with the file systems that `pyarrow.parquet` loads.
    """
    numbers = pa.table({"n": [1]})
    with adelta.sync.open_table(str(tmp_path)) as table:
        adelta.sync.write_table(table, numbers, properties={"delta.enableChangeDataFeed": "true"})
        adelta.sync.write_table(table, numbers)
        if checkpoint:
            adelta.sync.checkpoint(table)
    opened = f"import adelta.sync as a; snapshot = a.open_table({str(tmp_path)!r}).snapshot(); "
    loaded = modules_after(opened + "assert snapshot.schema.names == ['n']")
    assert "pyarrow.lib" in loaded
    assert not loaded & {"pyarrow.compute", "pyarrow.parquet", "pyarrow.fs"}
    listed = "assert snapshot.files().num_rows == 2"
    assert "pyarrow.compute" not in modules_after(opened + listed)


def test_rows_are_looked_up_without_all_compute_functions(tmp_path: Path) -> None:
    """A process that looks rows up by a predicate would take half of its time to load them."""
    for first in (0, 1000):
        ids = range(first, first + 1000)
        rows = {
            "n": ids,
            "x": pa.array([float(n) for n in ids]),
            "text": [f"{n:04}" for n in ids],
            "day": [datetime(2026, 1, 2 + first // 1000, 12)] * 1000,
        }
        adelta.sync.write_table(str(tmp_path), pa.table(rows))
    counts = {
        "n = 7": 1,
        "n IN (7, 1500)": 2,
        "x < 0.5": 1,
        "text >= '1999' AND text < '2'": 1,
        "day > '2026-01-03'": 1000,
    }
    program = (
        f"import adelta.sync as a; snapshot = a.open_table({str(tmp_path)!r}).snapshot()\n"
        f"    for where, count in {counts}.items():\n"
        "        found = snapshot.scan(columns=['n'], where=where).to_arrow()\n"
        "        assert found.num_rows == count, where"
    )
    assert "pyarrow.compute" not in modules_after(program)


def test_compute_functions_do_what_those_of_arrow_do() -> None:
    numbers = pa.array([3, None, 1])
    for name, arguments, options in (
        ("add", (numbers, 2), {}),
        ("and_kleene", (pa.array([True, None]), pa.array([False, None])), {}),
        ("or_", (pa.array([True]), pa.array([False])), {}),
        ("is_in", (numbers,), {"value_set": pa.array([3])}),
        ("sum", (numbers,), {"skip_nulls": False}),
        ("match_substring", (pa.array(["ab"]), "B"), {"ignore_case": True}),
        ("binary_join_element_wise", (pa.array(["a"]), pa.array(["b"]), "-"), {}),
        ("coalesce", (numbers, pa.scalar(0)), {}),
        (
            "filter",
            (numbers, pa.array([True, False, True])),
            {"memory_pool": pa.system_memory_pool()},
        ),
        ("cast", (numbers, pa.string()), {}),
        ("fill_null", (numbers, 0), {}),
    ):
        expected = getattr(pyarrow.compute, name)(*arguments, **options)
        assert getattr(_compute, name)(*arguments, **options).equals(expected), name


@pytest.mark.parametrize(
    ("name", "arguments"), [("add", (1,)), ("add", (1, 2, 3)), ("is_null", (1, True, 2))]
)
def test_a_compute_function_refuses_arguments_that_it_does_not_take(
    name: str, arguments: tuple[int, ...]
) -> None:
    with pytest.raises((TypeError, pa.ArrowInvalid)):
        getattr(_compute, name)(*arguments)


def test_a_compute_function_refuses_options_that_it_does_not_take() -> None:
    with pytest.raises(TypeError, match="add takes no options"):
        _compute.add(1, 2, skip_nulls=True)
    with pytest.raises(AttributeError, match="no attribute 'no_such_kernel'"):
        _compute.no_such_kernel  # noqa: B018


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_type_checkers_see_what_is_offered(package: object) -> None:
    tree = ast.parse(Path(vars(package)["__file__"]).read_text(encoding="utf-8"))
    seen = {
        alias.asname: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    modules = {name: home for name, home in seen.items() if home == vars(package)["__name__"]}
    assert {name: home for name, home in seen.items() if name not in modules} == dict(
        vars(package)["_homes"]
    )
    assert set(modules) == vars(package)["_modules"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_name_is_there_and_listed(package: object) -> None:
    if package is adelta.spark:
        pytest.importorskip("pyspark")
    for name in vars(package)["__all__"]:
        home = vars(package)["_homes"][name]
        assert getattr(package, name) is getattr(import_module(home), name)
        assert name in dir(package)


def test_a_function_is_not_hidden_by_the_module_that_bears_its_name() -> None:
    program = (
        "import adelta.changes.feed, adelta.retry, adelta.operations.delete, "
        "adelta.sync.changes.feed, adelta.sync.operations.delete\n"
        "    from adelta import changes, delete, operations, retry, sync\n"
        "    named = changes, retry, delete, operations.delete, sync.changes, sync.delete\n"
        "    assert all(map(callable, named)), named"
    )
    assert "pyarrow" in loaded_by(program)


def test_names_are_the_same_wherever_they_are_taken_from() -> None:
    from adelta.operations.delete import delete
    from adelta.table import Table

    assert adelta.delete is adelta.operations.delete is delete
    assert isinstance(adelta.open_table("t"), Table)
    assert adelta.sync.Position is adelta.Position
    assert pickle.loads(pickle.dumps(adelta.delete)) is delete


def test_threads_that_name_things_at_once_do_not_wait_for_each_other() -> None:
    """As on a cold disk, where one module takes long to be found."""
    program = """
import sys, threading, time
import adelta
class Slow:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "adelta.parquet":
            time.sleep(1)
sys.meta_path.insert(0, Slow)
failed = []
def name(what, after):
    time.sleep(after)
    try:
        getattr(adelta, what)
    except BaseException as error:
        failed.append(repr(error))
names = [("Scan", 0), ("WriterOptions", 0.2), ("Table", 0.2), ("sync", 0.3)]
threads = [threading.Thread(target=name, args=each) for each in names]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(failed)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "[]\n"


def test_a_name_that_is_not_offered_is_said_to_be_missing() -> None:
    with pytest.raises(AttributeError, match="module 'adelta' has no attribute 'vaccum'"):
        adelta.vaccum  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'vaccum' from 'adelta'"):
        from adelta import vaccum  # type: ignore[attr-defined]  # noqa: F401
