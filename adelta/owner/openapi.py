"""The API of the service, as an OpenAPI document."""

from __future__ import annotations

from typing import Any

from adelta.commit.owner_wire import API, ERRORS
from adelta.owner.owned_table import State

__all__ = ["document"]

_JSON = "application/json"
_TEXT = {"type": "string"}
_WHOLE = {"type": "integer", "format": "int64", "minimum": 0}
_MAYBE = {"oneOf": [_WHOLE, {"type": "null"}]}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
    }


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


_SCHEMAS: dict[str, Any] = {
    "Table": {
        **_object({"uri": _TEXT, "table_id": _TEXT}),
        "description": "A table: its root as a URI, and the id in its metadata.",
    },
    "ProposedCommit": {
        **_object(
            {"version": _WHOLE, "transaction_id": _TEXT, "in_commit_timestamp": _WHOLE},
            content=_TEXT,
            staged_file=_TEXT,
            size=_WHOLE,
            modified_ms=_WHOLE,
        ),
        "description": (
            "A commit: its content, an action a line; or the name of its file in the log's folder "
            "of un-backfilled commits, with its size in bytes and its time in milliseconds."
        ),
    },
    "RatifiedCommit": _object(
        {"version": _WHOLE, "size": _WHOLE},
        content=_TEXT,
        staged_file=_TEXT,
        modified_ms=_WHOLE,
    ),
    "RatifiedCommits": {
        **_object(
            {
                "latest_version": {"type": "integer", "format": "int64", "minimum": -1},
                "commits": _list(_ref("RatifiedCommit")),
            }
        ),
        "description": "Versions of what was asked for, up to the latest, that are not among the "
        "commits are backfilled.",
    },
    "CommitResponse": {
        **_object({"ratified": {"type": "boolean"}}, latest=_ref("RatifiedCommits")),
        "description": "Whether the commit counts; if not, what the table's commits are from the "
        "proposed version on. There may be earlier ones that are not backfilled.",
    },
    "Proposal": _object({"table": _ref("Table"), "commit": _ref("ProposedCommit")}),
    "Version": _object({"table": _ref("Table")}, version=_MAYBE),
    "Error": _object({"error": _object({"type": _TEXT, "message": _TEXT, "code": _WHOLE})}),
    "Nothing": {"type": "object"},
}


def _asked(name: str, required: bool = True, schema: dict[str, Any] | None = None) -> Any:
    return {"name": name, "in": "query", "required": required, "schema": schema or _WHOLE}


_TABLE_ASKED = [_asked("uri", schema=_TEXT), _asked("table_id", schema=_TEXT)]
_TOGETHER = _object({"commits": _list(_ref("Proposal"))})
_ALL_ASKED = _object({"tables": _list(_object({"table": _ref("Table")}, start=_MAYBE))})
_STATUS = _object(
    {
        "uri": _TEXT,
        "table_id": _TEXT,
        "state": {"type": "string", "enum": [str(state) for state in State]},
        "latest_version": {"type": "integer"},
        "backfilled_version": {"type": "integer"},
    },
    name={"type": ["string", "null"]},
)


def _operation(
    summary: str,
    answer: dict[str, Any] | None,
    *,
    body: dict[str, Any] | None = None,
    query: list[Any] | None = None,
    is_open: bool = False,
    media: str = _JSON,
) -> dict[str, Any]:
    def content(schema: dict[str, Any], media: str = _JSON) -> dict[str, Any]:
        return {media: {"schema": schema}}

    statuses = sorted({401, 408, 413, 415, *(status for _, _, status in ERRORS)})
    failed = {"description": "Why it is refused.", "content": content(_ref("Error"))}
    done: dict[str, Any] = {"description": "It is done."}
    if answer is not None:
        done["content"] = content(answer, media)
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {
            "204" if answer is None else "200": done,
            **({} if is_open else {str(status): failed for status in statuses}),
        },
    }
    if is_open:
        operation["security"] = []
    if body is not None:
        operation["requestBody"] = {"required": True, "content": content(body)}
    if query is not None:
        operation["parameters"] = query
    return operation


_UNITY_ROOT = "/api/2.1/unity-catalog/delta/v1"
_UNITY = f"{_UNITY_ROOT}/catalogs/{{catalog}}/schemas/{{schema}}"


def _unity_paths() -> dict[str, Any]:
    """The paths of Unity Catalog's API, whose bodies its own document describes."""

    def path(summaries: dict[str, str], *names: str) -> dict[str, Any]:
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names
        ]
        operations = {
            method: _operation(
                f"{summary} (UC Delta API 1.0)",
                None if method in ("head", "delete") else _ref("Nothing"),
                body=_ref("Nothing") if method == "post" else None,
            )
            for method, summary in summaries.items()
        }
        return {"parameters": parameters, **operations}

    names = ("catalog", "schema")
    update = "Ratify a staged commit of a table, and change its description."
    return {
        f"{_UNITY}/staging-tables": path({"post": "Set a place aside for a new table."}, *names),
        f"{_UNITY}/tables": path({"post": "Name a table that was created there."}, *names),
        f"{_UNITY}/tables/{{table}}": path(
            {
                "get": "A table, and the commits that wait.",
                "head": "Whether there is a table.",
                "post": update,
                "delete": "Forget a table, and leave its files.",
            },
            *names,
            "table",
        ),
        f"{_UNITY}/tables/{{table}}/credentials": path(
            {"get": "Credentials of a table's place: none."}, *names, "table"
        ),
        f"{_UNITY_ROOT}/config": {
            "get": _operation(
                "What there is of the API (UC Delta API 1.0).",
                _ref("Nothing"),
                query=[_asked("catalog", False, _TEXT), _asked("protocol-versions", schema=_TEXT)],
            )
        },
    }


def document() -> dict[str, Any]:
    """The document, of OpenAPI 3.1."""
    nothing, proposal, version = _ref("Nothing"), _ref("Proposal"), _ref("Version")
    told, response = _ref("RatifiedCommits"), _ref("CommitResponse")
    optional = [_asked("start", False), _asked("end", False)]
    paths = {
        f"{API}/commit": {
            "post": _operation("Ratify a commit, if its version is next.", response, body=proposal)
        },
        f"{API}/commit-together": {
            "post": _operation(
                "Ratify commits of several tables in one transaction, or none of them.",
                _object({"answers": _list(response)}),
                body=_TOGETHER,
            )
        },
        f"{API}/commits": {
            "get": _operation(
                "The latest version of a table, and the commits that are kept.",
                told,
                query=[*_TABLE_ASKED, *optional],
            )
        },
        f"{API}/commits-together": {
            "post": _operation(
                "The same of several tables, all of one moment.",
                _object({"tables": _list(told)}),
                body=_ALL_ASKED,
            )
        },
        f"{API}/wait": {
            "get": _operation(
                "Wait for a version of a table later than one.",
                _object({"latest_version": _MAYBE}),
                query=[*_TABLE_ASKED, _asked("after", False), _asked("seconds", False)],
            )
        },
        f"{API}/backfill": {
            "post": _operation("Wait until commits are in the log's folder.", nothing, body=version)
        },
        f"{API}/propose": {
            "post": _operation(
                "Promise to own a table, if a commit gets into its log.", nothing, body=proposal
            )
        },
        f"{API}/accept": {
            "post": _operation("Tell that such a commit is in the log.", nothing, body=version)
        },
        f"{API}/release": {
            "post": _operation("Ratify the last commit of a table.", response, body=proposal)
        },
        f"{API}/tables": {
            "get": _operation(
                "Tables, and how far they are backfilled; the next page comes after `next`.",
                _object({"tables": _list(_STATUS), "next": _MAYBE}),
                query=[_asked("after", False)],
            )
        },
        "/metrics": {
            "get": _operation("What is counted, for Prometheus.", _TEXT, media="text/plain")
        },
        "/health": {
            "get": _operation(
                "Whether service and ledger answer.", _object({"status": _TEXT}), is_open=True
            )
        },
        **_unity_paths(),
        "/openapi.json": {"get": _operation("This document.", nothing, is_open=True)},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "adelta commit owner",
            "version": "1",
            "description": (
                "Decides which commits of the tables that it owns count. Errors are told by their "
                "type: " + ", ".join(name for _, name, _ in ERRORS) + ", NotAuthenticated."
            ),
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
