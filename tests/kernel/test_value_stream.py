"""Actions over several lines, as delta-kernel reads them, and no action read as less than it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adelta.commit.filesystem import is_by
from adelta.errors import InvalidTableError
from adelta.kernel.actions import json as json_module
from adelta.kernel.actions.json import ActionBatch, decode_actions, decode_commits
from adelta.kernel.actions.value_stream import json_values

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=4)
SPACE = st.text(" \t\r\n", min_size=1, max_size=3)


@settings(deadline=None)
@given(OBJECTS, st.sampled_from([None, 0, 2, "\t"]), SPACE, st.booleans())
def test_values_are_found_wherever_they_end(
    values: list[Any], indent: int | str | None, space: str, ascii_only: bool
) -> None:
    texts = [json.dumps(value, indent=indent, ensure_ascii=ascii_only) for value in values]
    data = space.join(["", *texts, ""]).encode(errors="surrogatepass")
    found = list(json_values(data))
    assert [text for _, text in found] == [t.encode(errors="surrogatepass") for t in texts]
    assert all(data[place:].startswith(text) for place, text in found)


@settings(deadline=None)
@given(st.binary(max_size=60) | st.text('{}[]",: \n\\a', max_size=40).map(str.encode))
def test_nothing_but_white_space_is_left_out(data: bytes) -> None:
    rest = bytearray(data)
    for place, text in reversed(list(json_values(data))):
        assert rest[place : place + len(text)] == text
        assert text
        del rest[place : place + len(text)]
    assert not rest.strip(b" \t\r\n")


# ----------------------------------------------------------------------------------------- commits


ACTIONS: list[dict[str, Any]] = [
    {"commitInfo": {"timestamp": 1, "operation": "WRITE", "txnId": "the-id"}},
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {
        "add": {
            "path": "a b.parquet",
            "partitionValues": {"p": "x\ny", "q": None},
            "size": 1,
            "modificationTime": 2,
            "dataChange": True,
            "stats": '{"numRecords":1,"minValues":{"c":"}\\"{"}}',
            "tags": {"k": "}\n{"},
        }
    },
    {"remove": {"path": "old.parquet", "deletionTimestamp": 3, "dataChange": True}},
    {"txn": {"appId": "app", "version": 7}},
    {"domainMetadata": {"domain": "d", "configuration": '{"a": [1]}', "removed": False}},
]


def told(batch: ActionBatch) -> list[Any]:
    return [
        batch.versions,
        batch.adds.to_pylist(),
        batch.removes.to_pylist(),
        batch.protocols,
        batch.set_transactions,
        batch.domain_metadata,
        batch.commit_infos,
    ]


def lines(actions: list[dict[str, Any]] = ACTIONS) -> bytes:
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()


FORMS = {
    "pretty": "\n".join(json.dumps(action, indent=2) for action in ACTIONS),
    "pretty with CR LF": "\r\n".join(
        json.dumps(action, indent=2).replace("\n", "\r\n") for action in ACTIONS
    ),
    "pretty behind lines": "\n".join(
        json.dumps(action, indent=None if number < 3 else 1)
        for number, action in enumerate(ACTIONS)
    ),
    "lines behind pretty": "\n".join(
        json.dumps(action, indent=1 if number < 3 else None)
        for number, action in enumerate(ACTIONS)
    ),
    "one line": " ".join(map(json.dumps, ACTIONS)),
    "values inside on lines of their own": "\n".join(
        json.dumps(action).replace('": {', '":\n{').replace("}", "}\n") for action in ACTIONS[:2]
    )
    + lines(ACTIONS[2:]).decode(),
    "empty lines": "\n\n \n" + json.dumps(ACTIONS, indent=1)[1:-1].replace("\n },\n", "\n }\n\n"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lazily", [False, True])
def test_a_commit_is_read_in_whatever_lines_it_has(form: str, lazily: bool) -> None:
    expected = told(decode_commits([(4, lines())]))
    assert told(decode_commits([(4, FORMS[form].encode())], lazily=lazily)) == expected
    several = [(3, lines()), (4, FORMS[form].encode()), (5, lines())]
    same = [(version, lines()) for version in (3, 4, 5)]
    assert told(decode_commits(several, lazily=lazily)) == told(decode_commits(same))
    found = told(decode_actions(FORMS[form].encode(), 4, "a compaction"))
    assert found == expected


@pytest.mark.parametrize("form", FORMS)
def test_a_commit_that_is_cut_off_is_damaged_and_never_less_than_it_was(form: str) -> None:
    data = FORMS[form].rstrip().encode()
    ends = {place + len(text) for place, text in json_values(data)}
    for end in range(len(data)):
        cut = data[:end]
        if end in ends or not cut.strip() or len(cut.rstrip()) in ends:
            continue
        with pytest.raises(InvalidTableError, match="the commit of version 4"):
            decode_commits([(4, cut)])


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ('{"add":\n{"path":"a"}\n}\n\n{"txn":\n{"appId"}\n}', 5),
        ('{"txn":{"appId":"a","version":1}}\n{"add":{"path":5}}', 2),
        ('{\n"add":{"path":5}}', 1),
        ('{"add":\n{"path":"a"}}{"add":{"path":"b"}}', 1),
        ('{"add":{"path":"a"}}\n[]', 2),
        ('{"txn":{"appId":"a","version":1}}\n{"add":\n', 2),
        ('{"txn":{"appId":"a","version":1}}\nwords\nmore', 2),
        ('{"txn":\n{"appId":"a","version":1}}\n"text that does not end', 3),
    ],
)
def test_damage_is_named_by_the_line_that_the_value_begins_on(data: str, line: int) -> None:
    with pytest.raises(InvalidTableError, match=f"line {line} of the commit of version 9"):
        decode_commits([(9, data.encode())])


@pytest.mark.parametrize("before", [0, 1, 700, 3000])
def test_large_files_turn_from_lines_to_values_in_any_block(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What blocks of many lines have been taken by then counts once."""
    monkeypatch.setattr(json_module, "_BLOCK", 64 << 10)
    monkeypatch.setattr(json_module, "_WORTHWHILE", 1 << 10)
    adds = [
        {"add": {"path": f"{n}.parquet", "partitionValues": {}, "size": n, "dataChange": True}}
        for n in range(3000)
    ]
    actions = [ACTIONS[0], *adds, ACTIONS[1]]
    mixed = lines(actions[:before]) + b"\n".join(
        json.dumps(action, indent=1).encode() for action in actions[before:]
    )
    assert told(decode_commits([(1, mixed)])) == told(decode_commits([(1, lines(actions))]))
    with pytest.raises(InvalidTableError, match="of the commit of version 1 cannot be read"):
        decode_commits([(1, mixed[:-2])])


# ------------------------------------------------------------------------------------ whose it is


@pytest.mark.parametrize("form", FORMS)
def test_whose_a_commit_is_is_told_in_whatever_lines_it_has(form: str) -> None:
    data = FORMS[form].encode()
    assert is_by(data, "the-id")
    assert not is_by(data, "another")
    assert not is_by(data, "a b.parquet")  # which is there, but in another action
    mentioned = json.dumps({"add": {"path": "the-id"}}, indent=2).encode()
    assert not is_by(mentioned, "the-id")
    assert is_by(mentioned + b"\n" + data, "the-id")
    assert is_by(lines([{"add": {"path": "the-id"}}, *ACTIONS]), "the-id")
