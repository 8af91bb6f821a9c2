import pytest

from app.console.api import ApiAnswer
from app.console.links import Links
from app.console.paging import next_after


@pytest.mark.parametrize(
    ("path", "root"),
    [("/", "./"), ("/topics", "./"), ("/topics/a", "../"), ("/topics/a/b/c", "../../../")],
)
def test_links_lead_to_the_start_whatever_prefix_a_proxy_has(path: str, root: str) -> None:
    assert Links(path).root == root
    assert Links(path)("topics", "shop.orders") == f"{root}topics/shop.orders"


def test_names_of_others_stay_one_part_of_the_path() -> None:
    assert Links("/")("topics", "a/../b?c#d") == "./topics/a%2F..%2Fb%3Fc%23d"


def test_empty_parameters_are_left_out() -> None:
    assert Links("/")("topics", q="", after=None, done="x y") == "./topics?done=x+y"


def test_the_next_page_is_where_the_api_says() -> None:
    link = {"link": '</query/topics?limit=2&after=shop.a%2Fb>; rel="next"'}
    assert next_after(ApiAnswer(200, link, [])) == "shop.a/b"
    assert next_after(ApiAnswer(200, {}, [])) is None
