"""Answers to publishers, counted by topic and status."""

from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.metrics.publishing import PublishCounts
from app.services.directory import TopicDirectory

NamedBy = Callable[[Scope], str | None]


def topic_in_path(scope: Scope) -> str | None:
    """The topic that the router found in the path."""
    name: str = scope["path_params"]["topic"]
    return name


class Counted:
    """`route`, whose answers are counted; `named_by` says which topic a request is for."""

    def __init__(
        self,
        route: ASGIApp,
        counts: PublishCounts,
        directory: TopicDirectory,
        *,
        named_by: NamedBy,
    ) -> None:
        self._route = route
        self._counts = counts
        self._directory = directory
        self._named_by = named_by

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Asked now: the request may have been the first to name its topic here.
                topic = self._directory.known(self._named_by(scope) or "")
                self._counts.answered(topic, message["status"])
            await send(message)

        await self._route(scope, receive, noted)
