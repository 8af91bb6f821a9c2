import pytest

from app.api.management.fields.endpoint import plain_endpoint
from app.domain.errors import ValidationFailedError
from app.domain.secrets import masked_url


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        ("http://h.test/x?y=1", "http://h.test/x?y=1"),
        ("http://user:secret@h.test:80/x", "http://user:*****@h.test:80/x"),
        ("http://user:se@cret@h.test/", "http://user:*****@h.test/"),
        ("http://user:se:cret@h.test/", "http://user:*****@h.test/"),
        ("http://user:@h.test/", "http://user:*****@h.test/"),
        ("http://:secret@h.test/", "http://:*****@h.test/"),
        ("http://user@h.test/", "http://user@h.test/"),
        ("https://u:p@[::1]:8443/?a=b#c", "https://u:*****@[::1]:8443/?a=b#c"),
        ("http://u:p@h.test/{a}?x={b.c}", "http://u:*****@h.test/{a}?x={b.c}"),
    ],
)
def test_a_password_is_never_shown(endpoint: str, shown: str) -> None:
    assert plain_endpoint(endpoint) == endpoint
    assert masked_url(endpoint) == shown


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "h.test",
        "ftp://h.test",
        "http://",
        "http://h.test:x/",
        "http://h.test:0/",
        "https://[127.0.0.1]",
        "https://[::1%lo]",
        "https://::1",
        "http://u:*****@h.test/",
        "http://{a}/",
        "http://h.{a}/",
        "http://h.test:{a}/",
        "http://{a}@h.test/",
        "http://h.test{a}",
        "{a}://h.test/",
        "http://h.test/#{a}",
        "http://h.test/{}",
        "http://h.test/{a b}",
        "http://h.test/{a..b}",
        "http://h.test/{a",
        "http://h.test/a}",
        "http://h.test/{{a}}",
        "http://h.test/{a?x=b}",
    ],
)
def test_what_cannot_be_posted_to_is_refused(endpoint: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        plain_endpoint(endpoint)
    assert refused.value.details[0].path == "endpoint"
