"""Judges the responses to one subscription by their status and by the failure expression."""

from datetime import datetime

import structlog

from app.domain.answer_excerpt import answer_excerpt
from app.domain.catalogue.subscription import Subscription
from app.domain.circuit import ErrorType
from app.domain.delivery import Answer, Answered, Outcome, Retry, Unanswered, failed_reason
from app.domain.errors import ValidationFailedError
from app.expressions import AnswerCondition, EvaluationError
from workers.delivery.classification import classify, requested_delay

_log = structlog.get_logger()


class Judge:
    """Classifies the responses to one subscription, whose expression is compiled once.

    If the expression is true, the message is retried, whatever the status. If the expression is
    false or cannot be evaluated (a header is missing, a body is not a number), the status decides.
    So if an expression does not fit a response, no message is repeated or lost because of it.
    """

    __slots__ = ("_expression", "_subscription", "_warned")

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._expression = _compiled(subscription)
        self._warned = False

    @property
    def reads_bodies(self) -> bool:
        """Whether the expression needs the body of a response."""
        return self._expression is not None

    def outcome(self, answer: Answer, now: datetime) -> Outcome:
        """Return the outcome for the message. `now` (with time zone) is when the response came."""
        outcome = classify(answer, self._subscription, now)
        expression = self._expression
        if expression is None or isinstance(outcome, Retry) or isinstance(answer, Unanswered):
            return outcome
        if self._is_failed(expression, answer):
            reason = failed_reason(answer.status)
            return Retry(
                reason=reason,
                status=answer.status,
                retry_after=requested_delay(answer, now),
                error=ErrorType.EXPRESSION,
                answer=answer_excerpt(answer.body),
            )
        return outcome

    def _is_failed(self, expression: AnswerCondition, answer: Answered) -> bool:
        try:
            return expression.is_true(answer)
        except EvaluationError as exc:
            if not self._warned:  # Warn only once, because the next responses are probably similar.
                self._warned = True
                group = self._subscription.group
                _log.warning("failure_expression_unusable", subscription=group, error=str(exc))
            return False


def _compiled(subscription: Subscription) -> AnswerCondition | None:
    if subscription.failure_expression is None:
        return None
    try:
        return AnswerCondition(subscription.failure_expression, path="failureExpression")
    except ValidationFailedError as exc:
        # Log an expression that this version cannot compile. A newer version may have accepted the
        # expression when it was set.
        group = subscription.group
        _log.error("failure_expression_unknown", subscription=group, error=exc.message)
        return None
