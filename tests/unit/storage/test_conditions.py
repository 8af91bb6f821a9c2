import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import ValidationFailedError
from app.filtering.regexes import Regex
from app.storage.catalogue.conditions import like_pattern


@pytest.mark.parametrize(
    ("regex", "pattern"),
    [
        ("shop", "shop"),
        ("shop.*", "shop%"),
        (".*shop.*", "%shop%"),
        (r"shop\.orders", "shop.orders"),
        ("shop.orders", "shop%orders"),
        ("^shop$", "%shop%"),
        ("ab*c", "a%c"),
        ("ab?c", "a%c"),
        ("ab+?c", "a%c"),
        ("ab+c", "ab%c"),
        ("100%_/", "100/%/_//"),
        (".*", None),
        ("", None),
        ("a|b", None),
        ("(?i)shop", None),
        ("[ab]c", None),
        ("a{2}", None),
        (r"\d+x", None),
        ("x\\", None),
    ],
)
def test_of_a_regex_what_every_match_has_is_looked_for(regex: str, pattern: str | None) -> None:
    assert like_pattern(regex) == pattern


@given(st.text(alphabet="ab.*+?\\^$%_/", max_size=8), st.text(alphabet="ab.%_/", max_size=6))
def test_a_text_that_a_regex_matches_is_always_looked_for(regex: str, text: str) -> None:
    try:
        matches = Regex(regex).is_match
    except ValidationFailedError:
        return
    pattern = like_pattern(regex)
    assert not matches(text) or pattern is None or is_like(text, pattern)


def is_like(text: str, pattern: str) -> bool:
    """As LIKE does it, with / before what is meant as it is."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return is_like(text, pattern[1:]) or (bool(text) and is_like(text[1:], pattern))
    literal, rest = (pattern[1], pattern[2:]) if pattern[0] == "/" else (pattern[0], pattern[1:])
    return text[:1] == literal and is_like(text[1:], rest)
