"""What answers of S3 mean that are right, and out of the ordinary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adelta.storage.s3_errors import is_error
from tests.storage.scripted_server import Server, told

if TYPE_CHECKING:
    from collections.abc import Iterator

DELETED = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<DeleteResult '
    'xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{errors}</DeleteResult>'
)
ERROR = "<Error><Key>table/{key}</Key><Code>InternalError</Code></Error>"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("<Error><Code>InternalError</Code></Error>", True),
        ('<?xml version="1.0" encoding="UTF-8"?>\n\n<Error><Code>x</Code></Error>', True),
        ("\n   \n<Error/>", True),
        ("\ufeff<?xml version='1.0'?><Error>", True),
        ('<Error xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Code>x</Code>', True),
        (DELETED.format(errors=ERROR), False),
        ("<ListBucketResult><Prefix>&lt;Error&gt;</Prefix></ListBucketResult>", False),
        ("<Errors/>", False),
        ("", False),
    ],
)
def test_an_answer_is_an_error_where_its_root_is_one(body: str, error: bool) -> None:
    assert is_error(body.encode()) is error


async def test_keys_that_a_request_did_not_delete_are_deleted_again_one_by_one() -> None:
    seen: list[str] = []

    def answer(number: int, head: str) -> Iterator[bytes]:
        seen.append(head.partition(" HTTP")[0])
        if number == 0:
            return told(DELETED.format(errors=ERROR.format(key="b") + ERROR.format(key="d")))
        return told("", "204 No Content")

    async with Server(answer) as server:
        store = server.store()
        await store.delete(["a", "b", "c", "d"])
        await store.aclose()
    assert seen[0] == "POST /bucket/?delete="
    assert sorted(seen[1:]) == ["DELETE /bucket/table/b", "DELETE /bucket/table/d"]
