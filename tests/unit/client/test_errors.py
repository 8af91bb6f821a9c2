import json

import pytest

from angelia_client import (
    AccessDeniedError,
    ConflictError,
    DuplicateError,
    FieldProblem,
    InvalidError,
    NotFoundError,
    NotUnderstoodError,
    RefusedError,
    ServiceError,
    ThrottledError,
)
from angelia_client.errors import refusal
from angelia_client.requests import Answer


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "VALIDATION_ERROR", InvalidError),
        (413, "VALIDATION_ERROR", InvalidError),
        (400, "SUBSCRIPTION_NOT_EXISTS", NotFoundError),
        (400, "SCHEMA_VERSION_DOES_NOT_EXIST", NotFoundError),
        (404, "TOPIC_NOT_EXISTS", NotFoundError),
        (404, "", NotFoundError),
        (400, "TOPIC_ALREADY_EXISTS", ConflictError),
        (403, "TOPIC_NOT_EMPTY", ConflictError),
        (409, "JOB_ENDED", ConflictError),
        (409, "DUPLICATE_MESSAGE", DuplicateError),
        (412, "PRECONDITION_FAILED", ConflictError),
        (401, "TOKEN_NOT_PROVIDED", AccessDeniedError),
        (403, "PERMISSION_DENIED", AccessDeniedError),
        (429, "THROUGHPUT_QUOTA_VIOLATION", ThrottledError),
        (408, "VALIDATION_ERROR", ServiceError),
        (503, "SENDING_TO_KAFKA_TIMEOUT", ServiceError),
        (502, "", ServiceError),
    ],
)
def test_an_error_is_of_the_kind_that_its_code_or_status_says(
    status: int, code: str, kind: type[RefusedError]
) -> None:
    error = refusal(status, {"code": code})
    assert type(error) is kind
    assert (error.status, error.code) == (status, code)


def test_the_fields_that_are_wrong_are_told() -> None:
    details = [{"path": "endpoint", "message": "must have a host"}, "odd"]
    error = refusal(400, {"message": "no", "details": details})
    assert error.message == "no"
    assert error.details == (FieldProblem(path="endpoint", message="must have a host"),)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"null", b"\xff"])
def test_an_error_that_is_not_angelias_is_told_by_its_status(body: bytes) -> None:
    error = Answer(status=502, headers={}, body=body).refusal()
    assert error.message == "the API answered with status 502"
    assert error.code == ""


@pytest.mark.parametrize("given", ["1", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", ""])
def test_of_retry_after_only_seconds_are_read(given: str) -> None:
    error = Answer(status=503, headers={"retry-after": given}, body=b"").refusal()
    seconds = None if error.retry_after is None else error.retry_after.total_seconds()
    assert seconds == (1 if given == "1" else None)


@pytest.mark.parametrize("body", [b"<html>", b"", b"{}"])
def test_an_answer_that_is_no_list_is_not_understood(body: bytes) -> None:
    with pytest.raises(NotUnderstoodError):
        Answer(status=200, headers={}, body=body).listed()


def test_the_message_itself_is_json_for_people() -> None:
    body = json.dumps({"message": "Topic shop.orders does not exist"}).encode()
    assert str(Answer(status=404, headers={}, body=body).refusal()) == (
        "Topic shop.orders does not exist"
    )
