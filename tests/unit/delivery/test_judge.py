from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.catalogue.subscription import Subscription
from app.domain.circuit import ErrorType
from app.domain.delivery import Answered, Delivered, Discarded, Outcome, Retry, Unanswered
from app.domain.errors import ValidationFailedError
from app.expressions import AnswerCondition
from workers.delivery.judge import Judge

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def judged(expression: str | None, answer: Answered | Unanswered) -> Outcome:
    subscription = Subscription(
        id="s-1",
        topic="g.t",
        name="s",
        endpoint="http://s.test/",
        failure_expression=expression,
    )
    return Judge(subscription).outcome(answer, NOW)


@pytest.mark.parametrize(
    ("expression", "answer", "retried"),
    [
        ("status != 202", Answered(200, {}), True),
        ("status != 202", Answered(202, {}), False),
        ("status in [200, 201]", Answered(201, {}), True),
        ("status >= 400 && status < 500", Answered(404, {}), True),
        ("body.contains('\"ok\":false')", Answered(200, {}, b'{"ok":false}'), True),
        ("body.contains('\"ok\":false')", Answered(200, {}, b'{"ok":true}'), False),
        ("body == ''", Answered(200, {}), True),
        ("size(body) < 3", Answered(200, {}, "äöü".encode()), False),
        ("headers['x-state'] == 'busy'", Answered(200, {"X-State": "busy"}), True),
        ("has(headers.retry)", Answered(200, {"retry": ""}), True),
        ("'x' in headers", Answered(200, {"y": ""}), False),
        ("true", Answered(410, {}), True),
    ],
)
def test_an_answer_of_which_the_expression_is_true_is_retried(
    expression: str, answer: Answered, *, retried: bool
) -> None:
    outcome = judged(expression, answer)
    if retried:
        reason = f"The failure expression is true of an answer with status code:{answer.status}"
        assert outcome == Retry(
            reason=reason,
            status=answer.status,
            error=ErrorType.EXPRESSION,
            answer=answer.body.decode(),
        )
    else:
        assert outcome == judged(None, answer)


@pytest.mark.parametrize(
    "expression",
    ["headers['x'] == 'a'", "int(body) > 3", "body > 3", "[200][status] == 1", "1 / 0 == status"],
)
def test_when_nothing_can_be_said_of_an_answer_its_status_decides(expression: str) -> None:
    assert judged(expression, Answered(200, {}, b"?")) == Delivered(status=200)
    assert isinstance(judged(expression, Answered(404, {}, b"?")), Discarded)


def test_an_answer_that_the_expression_fails_is_retried_when_it_asks_for_that() -> None:
    outcome = judged("status == 202", Answered(202, {"retry-after": "3"}))
    assert isinstance(outcome, Retry)
    assert outcome.retry_after == timedelta(seconds=3)


def test_what_is_retried_anyway_keeps_its_reason_and_its_delay() -> None:
    busy = Answered(503, {"retry-after": "5"})
    assert judged("true", busy) == judged(None, busy)
    silent = Unanswered(reason="No answer", timed_out=True)
    assert judged("true", silent) == judged(None, silent)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("status !=", "line 1, column 10: Syntax error"),
        ("status == 200\n&& & body", "line 2, column 4: "),
        ("[" * 400 + "]" * 400, "line 1, column 97: is nested too deep"),
        ("", "must be 1 to 1000 characters"),
        ("true" + " " * 997, "must be 1 to 1000 characters"),
        ("body == '\0'", "must be without zero characters"),
        ("stats == 1", "names stats; there are status, headers, body, and no loops"),
        ("status", "must be true or false"),
        ("body.matches('(((x{1,200}){1,20}))y')", "may only use "),
        ("size(body + body) > 1", "may only use "),
        ("[1].all(body, [1].all(body, true))", "may only use "),
        ("size([1].map(body, body)) > 1", "may only use "),
        ("[1].exists_one(body, true)", "may only use "),
        ("headers.exists(h, h == 'x')", "names h; "),
    ],
)
def test_what_is_no_condition_or_could_take_long_is_refused(expression: str, problem: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        AnswerCondition(expression, path="failureExpression")
    [detail] = refused.value.details
    assert detail.path == "failureExpression"
    assert detail.message.startswith(problem)


WORDS = ["status", "headers", "body", "'a'", "1", "2.5", "==", "<", "&&", "||", "!", "in", "size("]
MARKS = ["(", ")", "[", "]", "{", "}", ":", "?", ".", ",", "-", "has(", "\n", '"', "\\", "\0", "é"]


@given(st.lists(st.sampled_from(WORDS + MARKS), max_size=30), st.binary(max_size=20))
def test_every_text_is_an_expression_or_refused(words: list[str], body: bytes) -> None:
    try:
        outcome = judged(" ".join(words), Answered(200, {"a": "1"}, body))
    except ValidationFailedError as exc:
        pytest.fail(f"a worker must not raise: {exc}")
    assert isinstance(outcome, Delivered | Retry)


@pytest.mark.parametrize("mark", ["(", "[", "!", "-", "{1:", "true?", "int(", "size("])
def test_nesting_is_refused_or_bounded(mark: str) -> None:
    text = mark * (999 // len(mark)) + "1"
    assert isinstance(judged(text, Answered(200, {})), Delivered)


def test_an_expression_that_this_version_does_not_know_leaves_the_status_to_decide() -> None:
    assert judged("body.sha256() == ''", Answered(200, {})) == Delivered(status=200)
