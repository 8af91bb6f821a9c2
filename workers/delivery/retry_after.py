"""The Retry-After header (RFC 9110, section 10.2.3)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

# The longest delay. A longer one is cut to this value. It is one second more than the longest time
# to live, so every message expires before this delay ends, and no request is sent too early.
RETRY_AFTER_MAX: Final = timedelta(seconds=7201)

_SECONDS = re.compile(r"[0-9]+", re.ASCII)
_SECONDS_DIGITS_MAX: Final = 9

_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_DAY_LONG = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"

# The three forms of an HTTP date (RFC 9110, section 5.6.7), all of which are accepted.
_DATES: Final = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"{_DAY}, (?P<day>\d\d) {_MONTH} (?P<year>\d{{4}}) {_TIME} GMT",
        rf"{_DAY_LONG}, (?P<day>\d\d)-{_MONTH}-(?P<year>\d\d) {_TIME} GMT",
        rf"{_DAY} {_MONTH} (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",
    )
)
# A comma between two values. The comma after the day of the week is part of a date.
_COMMA = re.compile(
    "(?<!Mon)(?<!Tue)(?<!Wed)(?<!Thu)(?<!Fri)(?<!Sat)(?<!Sun)(?<!day),"  # day: the end of Monday
)
# How many values are read at most, so that a long header takes no long time.
_VALUES_MAX: Final = 10
_CENTURY: Final = 100
_YEARS_AHEAD_MAX: Final = 50
_LEAP_SECOND: Final = 60


def retry_after(text: str, now: datetime) -> timedelta | None:
    """Return how long to wait from `now` (with time zone), at most RETRY_AFTER_MAX.

    `text` is an integer of seconds or an HTTP date. A date in the past means zero. If the response
    has the header more than once, `text` has its values with commas between them. Then the longest
    time counts. The result is None if no value is valid.
    """
    values = _COMMA.split(text, maxsplit=_VALUES_MAX)[:_VALUES_MAX]
    times = (_time(value.strip(" \t"), now) for value in values)
    return max((time for time in times if time is not None), default=None)


def _time(value: str, now: datetime) -> timedelta | None:
    if _SECONDS.fullmatch(value):
        return _of_seconds(value)
    date = _parsed(value, now)
    return None if date is None else min(max(date - now, timedelta()), RETRY_AFTER_MAX)


def _of_seconds(digits: str) -> timedelta:
    significant = digits.lstrip("0")
    if len(significant) > _SECONDS_DIGITS_MAX:
        return RETRY_AFTER_MAX
    return min(timedelta(seconds=int(significant or "0")), RETRY_AFTER_MAX)


def _parsed(text: str, now: datetime) -> datetime | None:
    for form in _DATES:
        if match := form.fullmatch(text):
            return _date(match, now)
    return None


def _date(match: re.Match[str], now: datetime) -> datetime | None:
    year, second = _year(match["year"], now), int(match["second"])
    month = _MONTHS.index(match["month"]) + 1
    try:
        minute = datetime(
            year, month, int(match["day"]), int(match["hour"]), int(match["minute"]), tzinfo=UTC
        )
    except ValueError:
        return None
    if second > _LEAP_SECOND:
        return None
    try:
        return minute + timedelta(seconds=second)
    except OverflowError:
        # The date is the leap second at the end of the year 9999. Return the start of its minute,
        # because Python cannot represent the leap second.
        return minute


def _year(digits: str, now: datetime) -> int:
    """Return the year of an HTTP date, which may be written with its last two digits only.

    A year with two digits that would be more than 50 years ahead is taken as a year of the past
    century (RFC 9110).
    """
    if len(digits) > len("99"):
        return int(digits)
    year = now.year - now.year % _CENTURY + int(digits)
    return year - _CENTURY if year > now.year + _YEARS_AHEAD_MAX else year
