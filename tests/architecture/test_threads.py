"""What FastAPI calls for a request runs on the event loop: plain functions go to a thread each."""

from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from app.api.management.application import ROUTERS
from app.api.management.health import status

ROUTES = [
    route
    for router in (status.router, *ROUTERS)
    for route in router.routes
    if isinstance(route, APIRoute)
]


def called(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    if dependant.call is not None:
        yield dependant.call
    for each in dependant.dependencies:
        yield from called(each)


def waits(call: Callable[..., Any]) -> bool:
    return iscoroutinefunction(call) or iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004 - the function is looked at, not whether there is one


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{min(route.methods)} {route.path}")
def test_nothing_of_a_request_is_done_on_a_thread(route: APIRoute) -> None:
    assert [call for call in called(route.dependant) if not waits(call)] == []
