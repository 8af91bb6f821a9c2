"""`/settings`: the settings of this API process."""

from typing import Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.base import Schema
from app.api.dependencies import ServicesOf
from app.api.documented import answers, errors
from app.api.lazy_route import LazyRoute
from app.api.media import answer
from app.domain.access.keys import Role

router = APIRouter(tags=["operations"], route_class=LazyRoute)


class SettingRead(Schema):
    """A setting and its current value."""

    name: str
    value: str = Field(description="without secrets; empty if it is not set")
    from_: Literal["environment", "default"] = Field(alias="from")


@router.get(
    "/settings",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(SettingRead, many=True) | errors(),
)
async def list_settings(services: ServicesOf) -> Response:
    """Return the settings of the API process that answers."""
    return answer(
        [
            SettingRead.model_validate(
                {"name": each.name, "value": each.value, "from": each.source}
            ).answered()
            for each in services.settings
        ]
    )
