"""Which headers an expression names."""

import pytest

from app.domain.catalogue.filters import Filter, FilterType
from app.filtering.header_names import headers_named


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("headers['x-a'] == '1' && headers.b == '2' && 'c' in headers", {"x-a", "b", "c"}),
        ('headers [ "y" ] == "1"', {"y"}),
        ("'a' == 'b' && 'k' in headers", {"k"}),
        ('"it\'s headers.x" == text || headers.z == "\\""', {"z"}),
        ("headers.size() > 0", set()),
        ('body.type == "headers.changed"', set()),
        ('"in headers" == text', set()),
        ("body.headers['q'] == '1'", set()),
        ('body.\n headers.x == "1"', set()),
    ],
)
def test_headers_are_told_from_texts_functions_and_members(
    expression: str, names: set[str]
) -> None:
    found = headers_named([Filter(type=FilterType.CEL, expression=expression)])
    assert found == names
