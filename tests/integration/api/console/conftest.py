import httpx
import pytest

from tests.integration.api.console.browser import Browser


@pytest.fixture
def browser(api: httpx.AsyncClient) -> Browser:
    """A reader of an API without access control."""
    return Browser(http=api)
