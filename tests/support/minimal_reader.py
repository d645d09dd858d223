"""A Delta log read the plain way, without any of adelta's code: a second opinion for tests.

It knows commits, checkpoints of every kind and log compactions, and nothing of speed. It takes the
protocol's text literally: the newest complete checkpoint at or before the version, then every later
commit, or the compactions that stand for them.
"""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adelta.storage.object_store import ObjectStore

__all__ = ["MinimalLog", "log_objects"]

COMMIT = re.compile(r"_delta_log/(\d{20})\.json")
COMPACTION = re.compile(r"_delta_log/(\d{20})\.(\d{20})\.compacted\.json")
SINGLE = re.compile(r"_delta_log/(\d{20})\.checkpoint\.(?:[^.]+\.)?(json|parquet)")
PART = re.compile(r"_delta_log/(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")


async def log_objects(store: ObjectStore) -> dict[str, bytes]:
    """Everything below `_delta_log`, by path."""
    paths = [meta.path async for page in store.list("_delta_log/") for meta in page]
    return {path: await store.get(path) for path in paths}


class MinimalLog:
    """The log that `objects` make."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self.objects = objects
        self.commits = {int(m[1]): p for p in objects if (m := COMMIT.fullmatch(p))}
        self.checkpoints: dict[int, list[list[str]]] = {}
        parts: dict[tuple[int, int], list[str]] = {}
        for path in sorted(objects):
            if m := PART.fullmatch(path):
                parts.setdefault((int(m[1]), int(m[3])), []).append(path)
            elif m := SINGLE.fullmatch(path):
                self.checkpoints.setdefault(int(m[1]), []).append([path])
        for (version, count), paths in parts.items():
            if len(paths) == count:
                self.checkpoints.setdefault(version, []).append(paths)

    @property
    def latest(self) -> int:
        return max([*self.commits, *self.checkpoints])

    def read(
        self, version: int | None = None, *, compacted: bool = False, checkpointed: bool = True
    ) -> dict[str, Any] | None:
        """What the table is at a version, by kind of action; None where the log cannot tell."""
        target = self.latest if version is None else version
        start = max((v for v in self.checkpoints if v <= target), default=-1)
        if not checkpointed:
            start = -1
        state: dict[str, Any] = {"add": {}, "remove": {}, "txn": {}, "domainMetadata": {}}
        if start >= 0:
            for action in self.checkpoint(start):
                _apply(state, action)
        files = self._files(start + 1, target) if compacted else None
        if files is None:
            if any(v not in self.commits for v in range(start + 1, target + 1)):
                return None
            files = [self.commits[v] for v in range(start + 1, target + 1)]
        for path in files:
            # actions of one file have no order: removes first, since no add is undone by its own
            actions = list(_lines(self.objects[path]))
            for action in sorted(actions, key=lambda action: "add" in action):
                _apply(state, action)
        domains = state["domainMetadata"]
        state["domainMetadata"] = {n: d for n, d in domains.items() if not d.get("removed")}
        return state if "protocol" in state and "metaData" in state else None

    def _files(self, first: int, last: int) -> list[str]:
        chosen, at = [], first
        while at <= last:
            spans = [
                (int(m[2]), path)
                for path in self.objects
                if (m := COMPACTION.fullmatch(path)) and int(m[1]) == at and int(m[2]) <= last
            ]
            end, path = max(spans, default=(at, self.commits[at]))
            chosen.append(path)
            at = end + 1
        return chosen

    def checkpoint(self, version: int) -> list[dict[str, Any]]:
        """The actions of the newest checkpoint of a version, sidecars followed."""
        actions = []
        for path in self.checkpoints[version][-1]:
            actions += list(self.actions(path))
        for action in list(actions):
            if sidecar := action.get("sidecar"):
                data = self.objects[f"_delta_log/_sidecars/{sidecar['path']}"]
                assert len(data) == sidecar["sizeInBytes"]
                actions += _rows(data)
        return actions

    def actions(self, path: str) -> Iterator[dict[str, Any]]:
        """The actions of one file."""
        data = self.objects[path]
        return _lines(data) if path.endswith(".json") else _rows(data)


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in data.splitlines() if line.strip())


def _rows(data: bytes) -> Iterator[dict[str, Any]]:
    for row in pq.read_table(io.BytesIO(data)).to_pylist():
        action = {kind: _plain(body) for kind, body in row.items() if body is not None}
        assert len(action) == 1, "a row of a checkpoint is one action"
        yield action


def _plain(value: Any) -> Any:
    """Without nulls, maps as dictionaries."""
    if isinstance(value, list) and value and all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return value


def _apply(state: dict[str, Any], action: dict[str, Any]) -> None:
    kind, body = next(((k, b) for k, b in action.items() if b is not None), ("", {}))
    if kind in ("add", "remove"):
        vector = body.get("deletionVector")
        identity = vector and (
            vector["storageType"],
            vector["pathOrInlineDv"],
            vector.get("offset"),
        )
        key = (body["path"], identity)
        state["remove" if kind == "add" else "add"].pop(key, None)
        state[kind][key] = body
    elif kind == "txn":
        state["txn"][body["appId"]] = body["version"]
    elif kind == "domainMetadata":
        state["domainMetadata"][body["domain"]] = body
    elif kind in ("protocol", "metaData"):
        state[kind] = body
