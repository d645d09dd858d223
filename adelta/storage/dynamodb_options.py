"""The storage options of DynamoDB: the keys and environment variables that delta-rs has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.storage.client_options import check_endpoint
from adelta.storage.given_options import GivenOptions
from adelta.storage.s3_options import parse_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.s3_options import S3Options

__all__ = ["DynamoOptions", "parse_dynamo_options"]

_BILLING_MODES = ("PAY_PER_REQUEST", "PROVISIONED")


@dataclass(frozen=True, slots=True)
class DynamoOptions:
    """Which table, how it is reached, and how long a request is tried, in seconds.

    `client` has keys, region and endpoint of DynamoDB, where they differ from those of S3.
    """

    table: str
    client: S3Options
    billing_mode: str = "PAY_PER_REQUEST"
    max_elapsed: float = 60.0


def parse_dynamo_options(
    options: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> DynamoOptions:
    """What `options` and the environment (this process's, if none is given) say of DynamoDB.

    They have delta-rs's names: what is said of S3 holds for DynamoDB too, unless there is an option
    of the same name that ends with ``_dynamodb``.

    Raises:
        InvalidOptionError: a value is not allowed.
    """
    given = GivenOptions(options, environment)
    client = parse_options(options, environment)
    if client.skip_signature:
        raise InvalidOptionError(
            "DynamoDB takes no unsigned requests: leave out aws_skip_signature, or the option "
            "aws_s3_locking_provider=dynamodb"
        )
    endpoint = given.text("endpoint_url_dynamodb", "endpoint_url", "endpoint")
    mode = (given.text("delta_dynamo_billing_mode") or _BILLING_MODES[0]).upper()
    if mode not in _BILLING_MODES:
        raise InvalidOptionError(
            "storage option delta_dynamo_billing_mode is PAY_PER_REQUEST or PROVISIONED, not "
            f"{mode!r}"
        )
    own = given.of_identity().credentials("_dynamodb")
    if endpoint is not None:
        endpoint = check_endpoint(endpoint, allow_http=client.allow_http)
    return DynamoOptions(
        table=given.text("delta_dynamo_table_name") or "delta_log",
        client=replace(
            client,
            credentials=own or client.credentials,
            role_arn=None if own else client.role_arn,
            region=given.text("region_dynamodb") or client.region,
            endpoint=endpoint,
        ),
        billing_mode=mode,
        max_elapsed=given.seconds(60.0, "delta_dynamo_max_elapsed_request_time"),
    )
