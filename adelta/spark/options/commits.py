"""What a session's settings say of commits: whose work they are, and what the history says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._arguments import check_long
from adelta._dataclasses import dataclass
from adelta.spark.exceptions import refused
from adelta.write.commit_options import CHANGES_OF_ROWS, CommitOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TXN_SETTINGS", "SessionCommits", "forget_txn", "session_commits"]

_DELTA = "spark.databricks.delta."
TXN_SETTINGS = {
    "txnAppId": f"{_DELTA}write.txnAppId",
    "txnVersion": f"{_DELTA}write.txnVersion",
}
_RESETS = f"{_DELTA}write.txnVersion.autoReset.enabled"
_USER_METADATA = f"{_DELTA}commitInfo.userMetadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCommits(CommitOptions):
    """The commits of an operation in a session.

    Attributes:
        app_id: what the session says which application it is, whose changes of rows are done once.
        number: what it says which change of that one's it is.
    """

    app_id: str | None = None
    number: str | None = None

    def applied_by(self, operation: str) -> tuple[str, int] | None:
        """The application, and the number of its work, that the changes of an operation are.

        Raises:
            InvalidOptionError: the session says one of both alone, or what is no number.
        """
        if operation not in CHANGES_OF_ROWS or (self.app_id is None and self.number is None):
            return None
        if self.app_id is None or self.number is None:
            names = " and ".join(TXN_SETTINGS.values())
            raise refused(
                f"the settings {names} belong together: set both or none",
                "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS.MISSING_SESSION_CONFS",
            )
        number = int(self.number) if self.number.strip().lstrip("-").isdecimal() else self.number
        return self.app_id, check_long(f"the setting {TXN_SETTINGS['txnVersion']}", number)


def session_commits(spark: SparkSession) -> SessionCommits:
    """What a session says of the commits of its operations."""
    return SessionCommits(
        user_metadata=spark.conf.get(_USER_METADATA, None),
        app_id=spark.conf.get(TXN_SETTINGS["txnAppId"], None),
        number=spark.conf.get(TXN_SETTINGS["txnVersion"], None),
    )


def forget_txn(spark: SparkSession) -> None:
    """Forget the number of a change that is done, where the session is to count each one anew."""
    if (spark.conf.get(_RESETS, None) or "false").lower() == "true":
        spark.conf.unset(TXN_SETTINGS["txnVersion"])
