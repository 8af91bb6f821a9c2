"""The regexes of users (RE2), and the work of matching a text with them."""

from functools import lru_cache
from typing import Any, Final

from app.domain.errors import ValidationFailedError
from app.filtering.budget import Budget

# The memory limit of a compiled regex, which is a program of RE2. The time of a match is in
# proportion to the length of the text and depends on the size of the program. So a limit for the
# size limits the time.
_MEMORY_MAX: Final = 1 << 18
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

    __slots__ = ("_fullmatch", "_remembered", "_work")

    def __init__(self, pattern: str) -> None:
        """Compile the regex.

        Raises:
            ValidationFailedError: The regex is not valid (field `matcher`).
        """
        compiled = _compiled(pattern)
        fullmatch = self._fullmatch = compiled.fullmatch
        self._remembered = lru_cache(maxsize=_REMEMBERED_MAX)(
            lambda text: fullmatch(text) is not None
        )
        # Compute the units of work to match a hundred characters.
        small = 100 // _SMALL_CHARACTERS_PER_WORK
        size: int = compiled.programsize
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
