"""Lines that Arrow decodes give what the decoder of lines gives, or are left to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from adelta.errors import InvalidTableError
from adelta.kernel.actions import json as json_module
from adelta.kernel.actions.columnar import decode_lines
from adelta.kernel.actions.file_schemas import ADD_SCHEMA, CDC_SCHEMA, REMOVE_SCHEMA
from adelta.kernel.actions.json import (
    ADD_JSON_NAMES,
    REMOVE_JSON_NAMES,
    ActionBatch,
    decode_commits,
)

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = {
    "add": (ADD_SCHEMA, ADD_JSON_NAMES),
    "remove": (REMOVE_SCHEMA, REMOVE_JSON_NAMES),
    "cdc": (CDC_SCHEMA, ADD_JSON_NAMES),
}
VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA",
    "offset": 1,
    "sizeInBytes": 40,
    "cardinality": 6,
}


def body(number: int, **more: Any) -> dict[str, Any]:
    return {
        "path": f"p={number}/f.parquet",
        "partitionValues": {"p": str(number)},
        "size": number,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "stats": json.dumps({"numRecords": number, "minValues": {"name": 'a"\\ü\u2028'}}),
    } | more


def line(number: int, kind: str = "add", **more: Any) -> str:
    return json.dumps({kind: body(number, **more)}, separators=(",", ":"))


def rows_of(batch: ActionBatch) -> dict[str, list[Any]]:
    tables = {"add": batch.adds, "remove": batch.removes, "cdc": batch.cdc}
    return {kind: plain(table) for kind, table in tables.items()}


def plain(table: pa.Table) -> list[Any]:
    table.validate(full=True)
    rows = table.to_pylist()
    for row in rows:
        row.pop("version", None)
        for name in ("partition_values", "tags"):
            row[name] = None if row[name] is None else dict(row[name])
    return rows


def both(data: bytes) -> tuple[dict[str, list[Any]] | None, dict[str, list[Any]] | None]:
    """What Arrow makes of lines, and what the decoder of lines does; None for nothing."""
    found = decode_lines(data, KINDS)
    quick = None
    if found is not None:
        quick = {kind: plain(found[kind]) if kind in found else [] for kind in KINDS}
    try:
        slow = rows_of(decode_commits([(0, data)]))
    except InvalidTableError:
        slow = None
    return quick, slow


PLAIN = {
    "adds": [line(n) for n in range(5)],
    "one": [line(7)],
    "no partitions": [line(n, partitionValues={}) for n in range(3)],
    "several": [line(n, partitionValues={"a": str(n), "b": "x", "ü": ""}) for n in range(4)],
    "vectors": [line(n, deletionVector=VECTOR if n % 2 else None) for n in range(4)],
    "tags": [line(n, tags={"INSERTION_TIME": "1", "t": "2"}) for n in range(4)],
    "no tags": [line(n, tags=None) for n in range(4)],
    "row ids": [line(n, baseRowId=n, defaultRowCommitVersion=3) for n in range(4)],
    "without statistics": [line(n, stats=None) for n in range(4)],
    "adds and removes": [
        line(1),
        json.dumps({"remove": {"path": "a", "dataChange": True}}, separators=(",", ":")),
        line(2),
    ],
    "keys in another order": [
        line(1, partitionValues={"a": "1", "b": "2"}),
        line(2, partitionValues={"b": "3", "a": "4"}),
    ],
}


@pytest.mark.parametrize("lines", PLAIN.values(), ids=PLAIN)
def test_plain_lines_are_decoded_as_columns_with_the_same_content(lines: list[str]) -> None:
    quick, slow = both("\n".join(lines).encode())
    assert quick is not None
    assert quick == slow


ODD = {
    "an unknown field": [line(1), line(2, novel=1)],
    "an unknown kind beside": ['{"add":' + json.dumps(body(1)) + ',"novel":{}}'],
    "another kind beside": [
        '{"add":' + json.dumps(body(1)) + ',"remove":' + json.dumps(body(2)) + "}"
    ],
    "no path": [line(1), line(2).replace('"path":', '"pfad":')],
    "a null path": [line(1), line(2, path=None)],
    "a number for a text": [line(1), line(2, stats=5)],
    "a text for a number": [line(1), line(2, size="5")],
    "a fraction": [line(1), line(2, size=1.0)],
    "a huge number": [line(1), line(2, size=1 << 70)],
    "a partition value that is null": [line(1), line(2, partitionValues={"p": None})],
    "a partition value that is missing": [line(1), line(2, partitionValues={})],
    "one more partition value": [line(1), line(2, partitionValues={"p": "1", "q": "2"})],
    "a number for a partition value": [line(1), line(2, partitionValues={"p": 5})],
    "partition values that are a list": [line(1, partitionValues=["p"])],
    "no partition values": [line(1), line(2, partitionValues=None)],
    "tags in one line": [line(1), line(2, tags={"a": "b"})],
    "a hollow vector": [line(1), line(2, deletionVector={"storageType": "u"})],
    "an offset beyond": [line(1), line(2, deletionVector=VECTOR | {"offset": 1 << 40})],
    "a key twice": [line(1), line(2).replace('"size":2', '"size":2,"size":3')],
    "a kind twice": ['{"add":' + json.dumps(body(1)) + ',"add":' + json.dumps(body(2)) + "}"],
    "a null action": [line(1), '{"add":null}'],
    "an empty object": [line(1), "{}"],
    "two on one line": [line(1) + line(2)],
    "two on one line and one on two": [line(1) + line(2), line(3)[:-1], "}"],
    "spaces": ["  " + line(1), line(2) + "  "],
    "a carriage return": [line(1) + "\r", line(2)],
    "an empty line": [line(1), "", line(2)],
    "cut short": [line(1), line(2)[:-5]],
    "half a surrogate pair": [line(1), line(2).replace("f.parquet", "\\ud800")],
    "a control character": [line(1), line(2).replace("f.parquet", "\x01")],
    "a byte order mark": ["\ufeff" + line(1)],
    "a name that is escaped": [line(1), line(2).replace('"add"', '"\\u0061dd"')],
    "a field's name that is escaped": [line(1), line(2).replace('"size"', '"s\\u0069ze"')],
    "a zero in a path": [line(1), line(2).replace("f.parquet", "\\u0000")],
    "a comment": [line(1), line(2) + "//"],
    "no JSON": ["not JSON"],
    "nothing": [""],
}


@pytest.mark.parametrize("lines", ODD.values(), ids=ODD)
def test_odd_lines_are_left_to_the_decoder_of_lines_or_decoded_as_it_does(lines: list[str]) -> None:
    quick, slow = both("\n".join(lines).encode())
    assert quick is None or quick == slow


def test_bytes_that_are_not_utf_8_are_left_to_the_decoder_of_lines() -> None:
    data = (line(1) + "\n" + line(2)).encode().replace(b"f.parquet", b"\xff\xfe")
    assert decode_lines(data, KINDS) is None


PIECES = st.sampled_from(
    [*(piece for lines in ODD.values() for piece in lines if piece), "\n", "}", "{", '"', "\\"]
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 9).map(line), PIECES), min_size=1, max_size=6),
    st.sampled_from(["\n", "\n", "\n", ""]),
    st.integers(0, 10_000),
    st.sampled_from(["", "", "\n", "}", "{", ",", '"', "1"]),
)
@example([line(1)], "\n", 0, "")
def test_whatever_is_decoded_as_columns_is_what_the_decoder_of_lines_makes_of_it(
    pieces: list[str], between: str, place: int, inserted: str
) -> None:
    text = between.join(pieces)
    at = place % (len(text) + 1)
    quick, slow = both((text[:at] + inserted + text[at:]).encode())
    assert quick is None or quick == slow


@pytest.mark.parametrize("lazily", [False, True])
def test_large_commits_are_the_sum_of_their_blocks(
    monkeypatch: pytest.MonkeyPatch, lazily: bool
) -> None:
    lines = [json.dumps({"commitInfo": {"timestamp": 1}}), json.dumps({"novel": {}})]
    lines += [line(n) if n % 17 else line(n, partitionValues={"p": None}) for n in range(200)]
    lines += [
        json.dumps({"remove": {"path": f"gone{n}"}}, separators=(",", ":")) for n in range(99)
    ]
    lines += [json.dumps({"txn": {"appId": "a", "version": 1}})]
    data = "\n".join(lines).encode()
    slow = decode_commits([(5, data)])
    monkeypatch.setattr(json_module, "_BLOCK", 700)
    monkeypatch.setattr(json_module, "_WORTHWHILE", 0)
    quick = decode_commits([(5, data)], lazily=lazily)
    assert rows_of(quick) == rows_of(slow)
    assert quick.adds.column("version").to_pylist() == [5] * 200
    assert quick.commit_infos == slow.commit_infos
    assert quick.set_transactions == slow.set_transactions


def test_errors_in_large_commits_name_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.dumps({"commitInfo": {}}), *(line(n) for n in range(60))]
    lines[41] = lines[41][:-1]
    monkeypatch.setattr(json_module, "_BLOCK", 700)
    monkeypatch.setattr(json_module, "_WORTHWHILE", 0)
    with pytest.raises(InvalidTableError, match="line 42 of the commit of version 3"):
        decode_commits([(3, "\n".join(lines).encode())])
