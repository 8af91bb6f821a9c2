import pytest

from app.domain.catalogue.filters import FILTERS_MAX, Filter, FilterType
from app.domain.catalogue.query import CONDITIONS_MAX, parsed_query
from app.domain.errors import InvalidQueryError, ValidationFailedError
from app.domain.message import Message, Partition, Record
from app.filtering.bodies import ParsedBodies
from app.filtering.matching import FilterChain, check_filters
from app.filtering.queries import compiled
from app.filtering.regexes import Regex, Regexes

EXPENSIVE = r"\d{1,1000}" * 9
LARGE = r"\d{1,1000}"


def filters(*regexes: str) -> list[Filter]:
    return [Filter(type=FilterType.JSONPATH, path="$.a", matcher=each) for each in regexes]


@pytest.mark.parametrize(
    "pattern",
    [
        "|".join(f"word{number}" for number in range(1_000)),
        ".{1,1000}",
        r"\d{1,1000}\d{1,1000}",
        r"\d{1000}" * 9,
        r"https?://[^/]{1,253}(/.{0,500})?",
        r"[\w.+-]{1,64}@[\w-]{1,63}(\.[\w-]{1,63}){1,5}",
        r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        r"[\p{Lu}\p{Lt}][\p{L}\p{M}' -]*",
        r"\pL" * 10,
        "x?" * 500,
    ],
)
def test_usual_and_large_regexes_are_compiled(pattern: str) -> None:
    Regex(pattern)


@pytest.mark.parametrize(
    "pattern", [EXPENSIVE, LARGE * 3, r"\d{0,100}" * 21, r"\pL" * 41, r"(?i)[\P{L}]" * 41]
)
def test_a_regex_that_takes_long_to_compile_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        Regex(pattern)
    (problem,) = refused.value.details
    assert problem.path == "matcher"
    assert "x{0,100}" in problem.message


def test_the_largest_number_of_usual_regexes_is_compiled_together() -> None:
    regexes = Regexes()
    words = "|".join(f"word{number}" for number in range(120))
    for number in range(CONDITIONS_MAX):
        regexes.compiled(f"{words}|{number}")


@pytest.mark.parametrize("large", [LARGE, "(?:.?){1000}", r"\pL?" * 10])
def test_many_large_filters_are_refused_together(large: str) -> None:
    given = filters(*(f"{large}{number}" for number in range(FILTERS_MAX)))
    check_filters(given[:8])
    with pytest.raises(ValidationFailedError) as refused:
        check_filters(given)
    assert refused.value.details[-1].path == f"filters.{FILTERS_MAX - 1}.matcher"
    assert "together" in refused.value.details[-1].message


def test_many_large_conditions_of_a_query_are_refused_together() -> None:
    parts = [{"name": {"like": f"{LARGE}{number}"}} for number in range(CONDITIONS_MAX - 1)]
    compiled(parsed_query({"query": {"or": parts[:8]}}))
    with pytest.raises(InvalidQueryError, match=r"name: like .* together"):
        compiled(parsed_query({"query": {"or": parts}}))


def test_a_stored_filter_that_is_now_too_expensive_matches_no_message() -> None:
    chain = FilterChain(filters(EXPENSIVE), ParsedBodies())
    message = Message(Record(0, 0, None, b'{"a":123456789}', []), Partition("shop.orders", 0))
    assert not chain.judge(message).wanted
    assert chain.problem.startswith("filters.0.matcher ")
