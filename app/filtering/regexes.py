"""The regexes of users (RE2), and the work of matching a text with them."""

import re
from functools import lru_cache
from typing import Any, Final

from app.domain.errors import ValidationFailedError
from app.filtering.budget import Budget

# The memory limit of a compiled regex, which is a program of RE2. The time of a match is in
# proportion to the length of the text and depends on the size of the program. So a limit for the
# size limits the time.
_MEMORY_MAX: Final = 1 << 18
# The cost of compiling a regex, in units of about 1 to 2 microseconds, and its limits for one regex
# and for all regexes of a request. A request is handled while the process waits.
_COST_MAX: Final = 2_000
_COST_OF_ALL_MAX: Final = 20_000
# A repetition that may be left out, such as 9 of the 10 in `x{1,10}`, costs one unit. The time
# grows with the square of their number: `\d{1,1000}` takes 1.5 ms, nine of them take 90 ms.
_OPTIONAL: Final = re.compile(r"\{([0-9]{1,4}),([0-9]{1,4})\}")
# A class of Unicode, such as `\pL`, has hundreds of ranges, which RE2 parses again each time.
_UNICODE_CLASS: Final = re.compile(r"\\[pP]")
_UNICODE_CLASS_COST: Final = 50
# A class of characters, such as `[^a-z]`. Before it come the forms that quote characters, because a
# bracket in them begins no class.
_CLASS: Final = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|(\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])", re.DOTALL
)
_QUOTED: Final = re.compile(r"\\.", re.DOTALL)
# The size of a program that costs one unit.
_SIZE_PER_COST: Final = 10
# The results of a regex for texts up to this length are cached, because most fields have few
# different values.
_REMEMBERED_LENGTH_MAX: Final = 128
# The number of cached results of a regex.
_REMEMBERED_MAX: Final = 512
# The size of a compiled regex (a program of RE2) up to which a match takes the same time. A match
# of a larger program takes longer, in proportion to its size.
_SMALL: Final = 32
# The number of characters that a compiled regex of small size matches with one unit of work.
_SMALL_CHARACTERS_PER_WORK: Final = 25
# The units of work that a large compiled regex takes for each character of a text are its size
# divided by this number.
_SIZE_PER_WORK: Final = 100
# The units of work that each match takes in addition, even for a short text.
_CALL_WORK: Final = 5


class Regex:
    """A regex that must match the whole text."""

    __slots__ = ("_fullmatch", "_remembered", "_work", "size")

    def __init__(self, pattern: str) -> None:
        """Compile the regex.

        Raises:
            ValidationFailedError: The regex is not valid, or takes too long to compile (field
                `matcher`).
        """
        if _cost(pattern) > _COST_MAX:
            raise ValidationFailedError.of("matcher", _EXPENSIVE)
        compiled = _compiled(pattern)
        fullmatch = self._fullmatch = compiled.fullmatch
        self._remembered = lru_cache(maxsize=_REMEMBERED_MAX)(
            lambda text: fullmatch(text) is not None
        )
        # Compute the units of work to match a hundred characters.
        small = 100 // _SMALL_CHARACTERS_PER_WORK
        size: int = compiled.programsize
        self.size = size
        self._work = small if size <= _SMALL else 100 * size // _SIZE_PER_WORK

    def matches(self, text: str, budget: Budget) -> bool:
        """Whether the whole text matches.

        Raises:
            ExhaustedError: The match takes too much work.
        """
        budget.spend(_CALL_WORK + len(text) * self._work // 100)
        return self.is_match(text)

    def is_match(self, text: str) -> bool:
        """Whether the whole text matches, without a limit of work."""
        if len(text) <= _REMEMBERED_LENGTH_MAX:
            return self._remembered(text)
        return self._fullmatch(text) is not None


class Regexes:
    """Compiles the regexes of one request or subscription, which together have a limited cost."""

    def __init__(self) -> None:
        self._left = _COST_OF_ALL_MAX

    def compiled(self, pattern: str) -> Regex:
        """Compile the regex.

        Raises:
            ValidationFailedError: The regex is not valid, or takes too long to compile after those
                before it (field `matcher`).
        """
        # A regex that is refused costs time too.
        self._left -= _cost(pattern)
        if self._left < 0:
            raise ValidationFailedError.of("matcher", _TOO_MANY)
        regex = Regex(pattern)
        self._left -= regex.size // _SIZE_PER_COST
        return regex


def intersects_classes(pattern: str) -> bool:
    """Whether the regex has `&&` in a class, as in `[a-z&&[^b]]`.

    In Java this is an intersection. RE2 has none, and reads the two characters `&`. The regex must
    be one that RE2 accepts; for others this may take long.
    """
    if "&&" not in pattern:
        return False
    classes = (found[1] or "" for found in _CLASS.finditer(pattern))
    return any("&&" in _QUOTED.sub("", each) for each in classes)


_EXPENSIVE: Final = (
    f"takes too long to compile: repetitions such as x{{0,100}} that can be left out, plus "
    f"{_UNICODE_CLASS_COST} for each Unicode class, must be at most {_COST_MAX:,}"
)
_TOO_MANY: Final = "takes too long to compile, together with the regexes before it"


def _cost(pattern: str) -> int:
    """Return the part of the cost that is known before the regex is compiled."""
    optional = sum(max(0, int(most) - int(least)) for least, most in _OPTIONAL.findall(pattern))
    return optional + _UNICODE_CLASS_COST * len(_UNICODE_CLASS.findall(pattern))


def _compiled(pattern: str) -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - needed only with a regex

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY_MAX
    try:
        return re2.compile(pattern, options=options)
    except re2.error as exc:
        problem = exc.args[0].decode() if isinstance(exc.args[0], bytes) else exc
        raise ValidationFailedError.of("matcher", f"is not a regex of RE2: {problem}") from exc
