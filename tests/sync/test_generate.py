"""The generator, on the sample package and on what it must refuse."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidUseError
from tools.blocking_face.program import check_files, generate, write_files

if TYPE_CHECKING:
    from types import ModuleType

SAMPLE = Path(__file__).parent / "sample" / "lake"
CHECKOUT = Path(__file__).parents[2]


def make(root: Path, part: str, text: str, *names: str) -> dict[Path, str]:
    """Generate the face of a package `one` whose module `part` is `text`, exporting `names`."""
    package = root / "one"
    module = package / f"{part}.py"
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(f"from __future__ import annotations\n{text}")
    imports = f"from one.{part.replace('/', '.')} import {', '.join(names)}\n"
    (package / "__init__.py").write_text(f"{imports}__all__ = {list(names)!r}\n")
    return generate("one", root, ())


def test_an_async_port_is_handed_over_as_it_is(tmp_path: Path) -> None:
    """The user's object is the same in both faces: the engine waits for it on its own loop."""
    text = (
        "from typing import Protocol\n"
        "class Port(Protocol):\n    async def g(self) -> int: ...\n"
        "class Mine(Port):\n    async def g(self) -> int: ...\n"
        "async def f(x: Port | None = None) -> int: ...\n"
    )
    files = make(tmp_path, "table", text, "f", "Port", "Mine")
    made = next(body for path, body in files.items() if path.name == "table.py")
    assert "def f(x: Port | None = None) -> int:" in made
    assert "class" not in made


def test_the_twin_of_a_derived_class_is_derived_from_the_others_twin(tmp_path: Path) -> None:
    text = (
        "class Fast(Slow):\n"
        "    def __init__(self, x: int) -> None: ...\n"
        "    async def h(self) -> int: ...\n"
        "class Slow:\n"
        "    def __init__(self) -> None: ...\n"
        "    async def __aenter__(self) -> Self: ...\n"
        "    async def __aexit__(self, *_: object) -> None: ...\n"
        "    async def g(self) -> int: ...\n"
    )
    files = make(tmp_path, "table", text, "Fast", "Slow")
    made = next(body for path, body in files.items() if path.name == "table.py")
    slow, fast = made.split("class Fast(Slow):")
    assert "class Slow(Handle[_AsyncSlow]):" in slow
    assert "def __init__(self, x: int) -> None:" in fast
    assert "def __enter__(self) -> Fast:" in fast
    assert "def h(self) -> int:" in fast
    assert "def g(" not in fast


def test_a_derived_class_needs_a_constructor_of_its_own(tmp_path: Path) -> None:
    text = (
        "class Slow:\n"
        "    def __init__(self) -> None: ...\n"
        "    async def g(self) -> int: ...\n"
        "class Fast(Slow):\n    pass\n"
    )
    with pytest.raises(InvalidUseError, match="Fast is handed out by nothing and has no __init__"):
        make(tmp_path, "table", text, "Fast", "Slow")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def f(x: Callable[[int], int]) -> G: ...", "argument x of f names Callable"),
        ("async def f() -> asyncio.Task[int]: ...", "f names Task"),
        ("async def f() -> Awaitable[int]: ...", "f names Awaitable"),
        ("async def f() -> dict[str, G]: ...", "a handle or an async iterator inside a type"),
        ("async def f(x: list[G]) -> int: ...", "a handle or an async iterator inside a type"),
        ("async def f(**x: G) -> int: ...", "takes more than values"),
        ("async def f() -> AsyncIterator[int]: ...", "neither a coroutine function of a value"),
        ("async def f() -> list[int]:\n    yield 1", "neither a coroutine function of a value"),
        ("def f(x: AsyncIterator[int]) -> G: ...", "is no coroutine function that reads it"),
        ("def f() -> AsyncIterator[G]: ...", "a handle or an async iterator inside a type"),
        ("async def f(x) -> int: ...", "argument x of f has no annotation"),
        ("async def f(_x: int) -> int: ...", "argument _x of f is private"),
        ("async def f(): ...", "has no annotation of what it returns"),
        ("@cache\nasync def f() -> int: ...", "is decorated with cache"),
        ("Made = Callable[[], int]\nasync def f(x: Made) -> int: ...", "names Callable"),
        ("async def f(x: 'Future[int]') -> int: ...", "names Future"),
        (
            "class _P:\n    async def g(self): ...\nasync def f(x: _P) -> int: ...",
            "_P, which is async",
        ),
    ],
)
def test_a_function_outside_the_grammar_is_refused_with_file_and_line(
    tmp_path: Path, text: str, why: str
) -> None:
    text += "\nclass G:\n    def __init__(self) -> None: ...\n    async def go(self) -> int: ...\n"
    line = 2 + text[: text.index("def f")].count("\n")
    with pytest.raises(InvalidUseError) as caught:
        make(tmp_path, "table", text, "f", "G")
    assert why in str(caught.value)
    assert f"{tmp_path / 'one' / 'table.py'}:{line}: " in str(caught.value)


def test_what_is_read_later_may_come_from_an_iterable_where_both_faces_take_one(
    tmp_path: Path,
) -> None:
    text = (
        "class G:\n    async def go(self) -> int: ...\n"
        "Rows = bytes | AsyncIterable[int] | Iterable[int]\n"
        "def f(x: Rows) -> G: ...\n"
    )
    [written] = [t for t in make(tmp_path, "table", text, "f", "G").values() if "def f(" in t]
    assert "def f(x: bytes | Iterable[int]) -> G:" in written
    assert "fed" not in written
    with pytest.raises(InvalidUseError, match="takes the async iterator x"):
        make(tmp_path, "table", text.replace(" | Iterable[int]", ""), "f", "G")


def test_a_mapping_of_names_may_hold_handles(tmp_path: Path) -> None:
    text = (
        "class G:\n    def __init__(self) -> None: ...\n    async def go(self) -> int: ...\n"
        "Named = Mapping[str, G | str]\n"
        "async def f(x: Named | None = None) -> int: ...\n"
    )
    [written] = [t for t in make(tmp_path, "table", text, "f", "G").values() if "def f(" in t]
    assert "def f(x: Mapping[str, G | str] | None = None) -> int:" in written
    assert "unwrap_named(x)" in written


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("x = 1", "C.x is public and has no annotation"),
        ("def __init__(self) -> None:\n        self.x = 1", "C.x is public and has no annotation"),
        ("@staticmethod\n    def f() -> int: ...", "is decorated with staticmethod"),
        ("@property\n    async def f(self) -> int: ...", "is a property that waits"),
        ("@property\n    def f(self): ...", "or has no annotation"),
        ("@property\n    def f(self) -> C: ...", "is closed by whoever made it"),
        ("class D: ...", "C.D is a class in a class"),
        (
            "async def __aenter__(self) -> int: ...\n    async def __aexit__(self, *_): ...",
            "`async with` on a C gives something else",
        ),
        (
            "def __aiter__(self) -> C: ...\n    async def __anext__(self): ...",
            "gives items without an annotation",
        ),
    ],
)
def test_a_class_outside_the_grammar_is_refused_with_file_and_line(
    tmp_path: Path, body: str, why: str
) -> None:
    text = f"class C:\n    {body}\n    async def aclose(self) -> None: ...\ndef make() -> C: ...\n"
    with pytest.raises(InvalidUseError) as caught:
        make(tmp_path, "table", text, "C", "make")
    assert why in str(caught.value)
    assert f"{tmp_path / 'one' / 'table.py'}:" in str(caught.value)


def test_a_class_that_nothing_hands_out_needs_a_constructor(tmp_path: Path) -> None:
    text = "class C:\n    async def go(self) -> int: ...\n"
    with pytest.raises(InvalidUseError, match="handed out by nothing and has no __init__"):
        make(tmp_path, "table", text, "C")


def test_an_async_name_exported_from_a_module_that_is_not_faced_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidUseError, match=r"other\.py:2: f is async, and exported from one"):
        make(tmp_path, "other", "async def f() -> int: ...", "f")


def test_a_name_that_means_two_things_in_one_generated_module_is_refused(tmp_path: Path) -> None:
    text = (
        "from typing import Sized as unwrap\n"
        "class G:\n    def __init__(self) -> None: ...\n    async def go(self) -> int: ...\n"
        "async def f(g: G, x: unwrap) -> int: ...\n"
    )
    with pytest.raises(InvalidUseError, match="the name unwrap means both"):
        make(tmp_path, "table", text, "f", "G")


def test_a_package_becomes_a_package_whose_modules_may_bind_a_name_each_in_its_way(
    tmp_path: Path,
) -> None:
    for name, source in (("a", "json"), ("b", "os")):
        text = f"from {source} import path as P\nasync def {name}(x: P) -> int: ...\n"
        module = tmp_path / "one" / "operations" / f"{name}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(f"from __future__ import annotations\n{text}")
    text = "from one.operations.a import a\nfrom one.operations.b import b\n"
    files = make(tmp_path, "operations/__init__", text, "a", "b")
    folder = tmp_path / "one" / "sync"
    assert [str(path.relative_to(folder)) for path in files] == [
        "operations/a.py", "operations/b.py", "operations/__init__.py", "__init__.py",
    ]  # fmt: skip
    assert "from json import path as P" in files[folder / "operations" / "a.py"]
    assert "from os import path as P" in files[folder / "operations" / "b.py"]
    whole = files[folder / "operations" / "__init__.py"]
    for text in (whole, files[folder / "__init__.py"]):
        assert "    from one.sync.operations.a import a as a\n" in text
        assert '"one.sync.operations.b": ("b",)' in text


def test_a_name_to_leave_out_that_is_not_there_is_refused(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "lake")
    with pytest.raises(InvalidUseError, match=r"nothing is called Table\.stoer"):
        generate("lake", tmp_path, ("Table.stoer", "Table.loop"))


def test_a_member_that_is_left_out_has_no_twin(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "lake")
    [text] = [
        text
        for path, text in generate("lake", tmp_path, ("Table.loop",)).items()
        if path.name == "table.py"
    ]
    assert "def process" in text
    assert "def loop" not in text


def test_the_check_passes_on_what_was_written_and_fails_on_any_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(SAMPLE, tmp_path / "lake")
    files = generate("lake", tmp_path, ())
    assert check_files(files) == 1
    assert write_files(files) == 0
    assert check_files(files) == 0
    table = tmp_path / "lake" / "sync" / "table.py"
    table.write_text(table.read_text().replace("def close", "def shut"))
    capsys.readouterr()
    assert check_files(files) == 1
    assert "-    def shut(self)" in capsys.readouterr().err


def test_a_module_that_is_no_longer_generated_fails_the_check_and_is_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(SAMPLE, tmp_path / "lake")
    files = generate("lake", tmp_path, ())
    write_files(files)
    old = [tmp_path / "lake" / "sync" / name for name in ("old.py", "operations/old.py")]
    for path in old:
        path.write_text(next(iter(files.values())))
    by_hand = tmp_path / "lake" / "sync" / "_by_hand.py"
    by_hand.write_text('"""Mine."""\n')
    assert check_files(files) == 1
    write_files(files)
    assert not any(path.exists() for path in old)
    assert by_hand.exists()
    assert check_files(files) == 0


def test_the_program_imports_neither_face(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    for folder in ("adelta", "tools"):
        shutil.copytree(
            CHECKOUT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    (root / "adelta" / "sync" / "table.py").write_text("from adelta.nowhere import nothing\n")
    done = subprocess.run(
        [sys.executable, "-m", "tools.blocking_face", "--check"],
        cwd=root, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "-from adelta.nowhere import nothing" in done.stderr
    assert "Traceback (most" not in done.stderr


def test_twins_have_the_signatures_and_docstrings_of_their_originals(lake: ModuleType) -> None:
    assert str(inspect.signature(lake.Snapshot.scan)) == (
        "(self, leave_out: 'Sequence[int]' = (), /, step: 'int' = 1, *, limit: 'int' = 99) "
        "-> 'Scan'"
    )
    assert str(inspect.signature(lake.create_table)) == (
        "(name: 'str', *rows: 'int', **options: 'str') -> 'Table'"
    )
    assert str(inspect.signature(lake.tail)) == (
        "(table: 'Table', since: 'int' = 0) -> 'BlockingIterator[tuple[int, list[int]]]'"
    )
    assert lake.history.__doc__ == "What happened to `table`: a handle, or a name."
    assert lake.Table.snapshot.__doc__.startswith("The latest snapshot, or the one at `version`.\n")


def test_docstrings_speak_of_the_blocking_face(lake: ModuleType) -> None:
    assert "Use it as a context manager, or `close` it." in lake.open_table.__doc__
    assert "``with lake.open_table(name) as table: table.snapshot()``" in lake.open_table.__doc__


def test_an_alias_that_holds_an_async_iterator_is_spelt_out(lake: ModuleType) -> None:
    rows = inspect.signature(lake.Transaction.append).parameters["rows"]
    mode = inspect.signature(lake.Transaction.append).parameters["mode"]
    assert rows.annotation == "bytes | Iterable[int]"
    assert mode.annotation == "Mode"


def test_the_twin_exports_the_same_names_and_shares_values(lake: ModuleType) -> None:
    original = sys.modules["lake"]
    assert set(lake.__all__) == {*original.__all__, "BlockingIterator"}
    assert lake.Metrics is original.Metrics
    assert lake.is_name is original.is_name
    assert lake.VERSION is original.VERSION
    assert lake.Table is not original.Table
