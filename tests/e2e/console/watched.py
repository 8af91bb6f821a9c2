"""Problems of a page that a person does not see."""

from http import HTTPStatus

from playwright.sync_api import ConsoleMessage, Error, Page, Request, Response

# Chromium reports each request that it ended itself, because its page was left, as failed.
_LEFT = "net::ERR_ABORTED"


class Watched:
    """Collects the problems of a page: script errors, violations of its policy, failed requests.

    Chromium writes each violation of the Content-Security-Policy to the page's log as an error.
    """

    def __init__(self, page: Page) -> None:
        self.problems: list[str] = []
        page.on("console", self._on_log)
        page.on("pageerror", self._on_error)
        page.on("requestfailed", self._on_failure)
        page.on("response", self._on_response)

    def _on_log(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(f"log: {message.text}")

    def _on_error(self, error: Error) -> None:
        self.problems.append(f"script: {error.message}")

    def _on_failure(self, request: Request) -> None:
        if request.failure != _LEFT:
            self.problems.append(f"request: {request.url}: {request.failure}")

    def _on_response(self, response: Response) -> None:
        if response.status >= HTTPStatus.BAD_REQUEST:
            self.problems.append(f"response: {response.url}: {response.status}")
