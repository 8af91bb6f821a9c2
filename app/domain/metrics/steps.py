"""The steps of a history, and the choice of the steps for a request (pure)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError

POINTS_MAX: Final = 3_000
# The maximum number of steps in a response if the request does not choose the length of a step.
_POINTS_WANTED: Final = 1_500
_SPAN_DEFAULT: Final = timedelta(days=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Step(StrEnum):
    """The length of the steps of a history. Steps begin at full minutes, hours or days (UTC)."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def length(self) -> timedelta:
        """The duration of one step."""
        return _LENGTHS[self]

    def start_of(self, moment: datetime) -> datetime:
        """Return the start of the step that contains this moment."""
        return moment - (moment - _EPOCH) % self.length


_LENGTHS: Final = {
    Step.MINUTE: timedelta(minutes=1),
    Step.HOUR: timedelta(hours=1),
    Step.DAY: timedelta(days=1),
}
# How long the steps of each length are kept at least. Steps of a day are not stored: their values
# are summed from steps of an hour.
KEPT: Final = {
    Step.MINUTE: timedelta(days=2),
    Step.HOUR: timedelta(days=90),
    Step.DAY: timedelta(days=90),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySpan:
    """The requested steps: from `since` to before `until`. Both are starts of steps."""

    since: datetime
    until: datetime
    step: Step


def requested_span(
    since: datetime | None, until: datetime | None, step: str | None, *, now: datetime
) -> HistorySpan:
    """Return the requested steps. Arguments that are None have defaults.

    By default, the span ends now, and is a day long. By default, the steps are the shortest ones
    that are still kept for this span and are not too many.

    Raises:
        ValidationFailedError: The span ends before it begins, is in the future, or has too many
            steps; or `step` is not a known length.
    """
    end = now if until is None else min(until, now)
    begin = _before(end) if since is None else since
    if begin >= end:
        raise ValidationFailedError.of("from", "must be before `to`, and before now")
    chosen = _default(begin, end, now) if step is None else _step(step)
    points = -((begin - end) // chosen.length)
    if points > POINTS_MAX:
        problem = f"makes {points} points: at most {POINTS_MAX}; take a longer one, or less time"
        raise ValidationFailedError.of("step", problem)
    first = chosen.start_of(begin)
    last = chosen.start_of(end)
    return HistorySpan(
        since=first, until=last if last == end else last + chosen.length, step=chosen
    )


def _before(end: datetime) -> datetime:
    try:
        return end - _SPAN_DEFAULT
    except OverflowError:
        return end


def _default(begin: datetime, end: datetime, now: datetime) -> Step:
    for step in (Step.MINUTE, Step.HOUR):
        is_kept = begin >= now - KEPT[step] - step.length
        if is_kept and (end - begin) / step.length <= _POINTS_WANTED:
            return step
    return Step.DAY


def _step(text: str) -> Step:
    if text not in list(Step):
        raise ValidationFailedError.of("step", f"must be one of {', '.join(Step)}")
    return Step(text)
