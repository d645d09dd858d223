from __future__ import annotations

import pytest

from adelta.errors import InvalidOptionError
from adelta.storage.azure_options import parse_azure_options
from adelta.storage.s3_options import parse_options


def test_keys_are_taken_with_and_without_aws_in_any_case() -> None:
    for options in (
        {"aws_access_key_id": "id", "aws_secret_access_key": "s", "aws_region": "eu-west-1"},
        {
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "s",
            "AWS_DEFAULT_REGION": "eu-west-1",
        },
        {"access_key_id": "id", "secret_access_key": "s", "region": "eu-west-1"},
    ):
        parsed = parse_options(options, {})
        assert parsed.credentials is not None
        assert parsed.credentials.access_key_id == "id"
        assert parsed.region == "eu-west-1"


def test_an_option_wins_over_the_environment() -> None:
    environment = {"AWS_REGION": "us-west-2", "AWS_ENDPOINT_URL": "https://env"}
    parsed = parse_options({"aws_region": "eu-west-1"}, environment)
    assert (parsed.region, parsed.endpoint) == ("eu-west-1", "https://env")


def test_of_two_spellings_that_of_the_store_wins_in_any_order() -> None:
    for names in (("region", "AWS_REGION"), ("AWS_REGION", "region")):
        values = {"region": "us-west-2", "AWS_REGION": "eu-west-1"}
        assert parse_options({name: values[name] for name in names}, {}).region == "eu-west-1"
    for names in (("client_id", "storage_client_id"), ("storage_client_id", "client_id")):
        given = {f"AZURE_{name.upper()}": name for name in names}
        for options, environment in (({}, given), (given, {})):
            options = {**options, "azure_storage_account_name": "lake"}
            found = parse_azure_options(None, options, environment).identity.client_id
            assert found == "storage_client_id"
    assert parse_options({"region": "x", "REGION": "x"}, {}).region == "x"


def test_keys_of_options_and_environment_are_not_mixed() -> None:
    environment = {
        "AWS_ACCESS_KEY_ID": "env-id",
        "AWS_SECRET_ACCESS_KEY": "env-secret",
        "AWS_SESSION_TOKEN": "env-token",
    }
    ours = {"aws_access_key_id": "id", "aws_secret_access_key": "secret"}
    parsed = parse_options(ours, environment).credentials
    assert parsed is not None
    assert (parsed.access_key_id, parsed.session_token) == ("id", None)
    parsed = parse_options({}, environment).credentials
    assert parsed is not None
    assert (parsed.access_key_id, parsed.session_token) == ("env-id", "env-token")
    assert parsed.source == "environment variables"
    assert parse_options({"aws_profile": "p"}, environment).credentials is None


POD = {  # what EKS puts in the environment of a pod that has a role
    "AWS_ROLE_ARN": "arn:aws:iam::1:role/pod",
    "AWS_ROLE_SESSION_NAME": "pod",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/token",
}
OUR_KEYS = {"aws_access_key_id": "id", "aws_secret_access_key": "secret"}
ENV_KEYS = {"AWS_ACCESS_KEY_ID": "env-id", "AWS_SECRET_ACCESS_KEY": "env-secret"}
ROLE = "arn:aws:iam::1:role/given"


@pytest.mark.parametrize(
    ("options", "environment", "keys", "role", "token_file"),
    [
        ({}, POD, None, POD["AWS_ROLE_ARN"], "/token"),
        # the options say it, so the environment is not asked
        (OUR_KEYS, POD, "id", None, None),
        (OUR_KEYS, POD | ENV_KEYS, "id", None, None),
        (OUR_KEYS, {"AWS_SKIP_SIGNATURE": "true"}, "id", None, None),
        (OUR_KEYS | {"aws_role_arn": ROLE}, POD, "id", ROLE, None),
        ({"aws_profile": "p"}, POD | ENV_KEYS, None, None, None),
        ({"aws_skip_signature": "true"}, POD | ENV_KEYS, None, None, None),
        ({"aws_web_identity_token_file": "/ours", "aws_role_arn": ROLE}, POD, None, ROLE, "/ours"),
        # a role alone is assumed with what the environment has
        ({"aws_role_arn": ROLE}, POD, None, ROLE, "/token"),
        ({"aws_role_arn": ROLE}, ENV_KEYS, "env-id", ROLE, None),
        ({"aws_role_arn": ROLE}, POD | ENV_KEYS, "env-id", ROLE, None),
        # of the environment keys go before a web identity, and are those that assume another role
        ({}, POD | ENV_KEYS, "env-id", None, None),
        ({}, POD | ENV_KEYS | {"AWS_IAM_ROLE_ARN": ROLE}, "env-id", ROLE, None),
        ({"aws_skip_signature": "false"}, {"AWS_SKIP_SIGNATURE": "1"} | POD, None,
         POD["AWS_ROLE_ARN"], "/token"),
    ],
)  # fmt: skip
def test_in_whose_name_is_asked(
    options: dict[str, str],
    environment: dict[str, str],
    keys: str | None,
    role: str | None,
    token_file: str | None,
) -> None:
    parsed = parse_options(options, environment)
    found = parsed.credentials and parsed.credentials.access_key_id
    assert (found, parsed.role_arn, parsed.web_identity_token_file) == (keys, role, token_file)
    assert parsed.skip_signature is (options.get("aws_skip_signature") == "true")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("500ms", 0.5), ("1m 30s", 90), ("2 minutes", 120), ("7", 7), ("1h", 3600)],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_options({"retry_timeout": text}, {}).retry.retry_timeout == seconds


def test_client_and_retry_options_arrive() -> None:
    parsed = parse_options(
        {
            "timeout": "9s",
            "connect_timeout": "2s",
            "max_retries": "3",
            "init_backoff": "10ms",
            "backoff_config.max_backoff": "1s",
            "aws_virtual_hosted_style_request": "True",
            "proxy_url": "http://proxy:1",
        },
        {"OBJECT_STORE_CONCURRENCY_LIMIT": "7"},
    )
    assert (parsed.http.timeout, parsed.http.connect_timeout) == (9, 2)
    assert (parsed.retry.max_retries, parsed.retry.init_backoff) == (3, 0.01)
    assert parsed.retry.max_backoff == 1
    assert parsed.virtual_hosted is True
    assert parsed.http.proxy_url == "http://proxy:1"
    assert parsed.concurrency == 7


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"aws_allow_http": "perhaps"}, "true or false"),
        ({"max_retries": "-1"}, "whole number"),
        ({"max_retries": "many"}, "whole number"),
        ({"max_retries": "9" * 5000}, "whole number"),
        ({"timeout": "9" * 400}, "duration"),
        ({"timeout": "soon"}, "duration"),
        ({"timeout": "5 parsecs"}, "duration"),
        ({"base": "0"}, "factor"),
        ({"aws_endpoint_url": "localhost:9000"}, "is a URL"),
        ({"aws_endpoint_url": "https://[::1"}, "is a URL"),
        ({"aws_endpoint_url": "https://host:port"}, "is a URL"),
        ({"aws_endpoint_url": "https://host/path?x=1"}, "is a URL"),
        ({"aws_endpoint_url": "http://localhost:9000"}, "aws_allow_http=true"),
        ({"aws_region": "eu-west-1", "AWS_REGION": "eu-west-2"}, "AWS_REGION is given twice"),
        ({"aws_access_key_id": "id"}, "lack aws_secret_access_key"),
        ({"aws_secret_access_key": "s"}, "lack aws_access_key_id"),
        ({"aws_s3_addressing_style": "diagonal"}, "virtual, path, auto"),
        ({"aws_server_side_encryption": "rot13"}, "AES256"),
        ({"aws_server_side_encryption": "sse-c"}, "go together"),
        ({"aws_sse_customer_key_base64": "AAAA"}, "go together"),
        (
            {"aws_server_side_encryption": "sse-c", "aws_sse_customer_key_base64": "AAAA"},
            "32 bytes",
        ),
        ({"aws_s3_locking_provider": "redis"}, "not supported"),
        ({"aws_conditional_put": "dynamo:table"}, "not supported"),
        ({"certificate_path": "/ca.pem"}, "certificate_path is not .* SSL_CERT_FILE"),
        ({"Disable_System_Certificates": "true"}, "SSL_CERT_FILE"),
        ({"proxy_excludes": "localhost"}, "NO_PROXY"),
        ({"AWS_METADATA_ENDPOINT": "http://x"}, "AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        ({"aws_container_credentials_full_uri": "x"}, "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        ({"fs.s3a.access.key": "x"}, "fs.s3a.access.key is Hadoop's.* aws_access_key_id"),
        ({"spark.hadoop.fs.s3a.endpoint": "x"}, "aws_endpoint_url"),
        ({"fs.s3a.bucket.lake.secret.key": "x"}, "aws_secret_access_key"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidOptionError, match=says):
        parse_options(options, {})


def test_harmless_keys_are_let_through() -> None:
    parse_options(
        {
            "aws_s3_allow_unsafe_rename": "true",
            "aws_copy_if_not_exists": "header: x: y",
            "aws_s3_locking_provider": "none",
            "aws_conditional_put": "etag",
            "azure_account_name": "x",
            "certificate_path": "",
            "disable_system_certificates": "false",
            "fs.s3a.path.style.access": "false",
            "fs.s3a.connection.maximum": "100",
        },
        {},
    )


def test_encryption_goes_with_the_requests_that_need_it() -> None:
    parsed = parse_options({"aws_server_side_encryption": "aws:kms", "aws_sse_kms_key_id": "k"}, {})
    assert parsed.write_headers["x-amz-server-side-encryption"] == "aws:kms"
    assert parsed.read_headers == {}
    key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    parsed = parse_options(
        {"aws_server_side_encryption": "sse-c", "aws_sse_customer_key_base64": key}, {}
    )
    assert parsed.read_headers["x-amz-server-side-encryption-customer-key"] == key
    assert key not in repr(parsed)


def test_synonyms_of_deltalake_are_read() -> None:
    parsed = parse_options(
        {
            "max_concurrency": "9",
            "aws_s3_assume_role_arn": "arn:aws:iam::1:role/r",
            "aws_s3_role_session_name": "night",
        },
        {},
    )
    assert parsed.concurrency == 9
    assert (parsed.role_arn, parsed.role_session_name) == ("arn:aws:iam::1:role/r", "night")
