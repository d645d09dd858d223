"""Whether a table shows the work of applications as done, in whole or in part."""

from __future__ import annotations

from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.transaction.conflict_checker import already_applied, partly_applied


def test_work_is_done_where_all_applications_have_got_as_far_and_torn_where_some_have() -> None:
    mine = (SetTransaction("a", 3), SetTransaction("b", 5))
    both = {"a": SetTransaction("a", 3), "b": SetTransaction("b", 9)}
    assert already_applied(mine, both)
    assert partly_applied(mine, both) is None
    for some in ({"a": both["a"]}, {**both, "b": SetTransaction("b", 4)}):
        assert not already_applied(mine, some)
        assert partly_applied(mine, some) == mine[0]
    for none in ({}, {"a": SetTransaction("a", 2)}, {"c": SetTransaction("c", 9)}):
        assert not already_applied(mine, none)
        assert partly_applied(mine, none) is None
    assert not already_applied((), both)
    assert partly_applied((), both) is None
