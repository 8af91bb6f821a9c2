"""`/groups`."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.dependencies import GroupName, ServicesOf
from app.api.documented import answers, errors, takes
from app.api.media import AnswerNotes, answer, json_request
from app.api.schemas.group import GroupBody, ignored_in_group, new_group

router = APIRouter(prefix="/groups", tags=["groups"])


@router.get("", responses=answers(None) | errors())
async def list_groups(services: ServicesOf) -> list[str]:
    """All groups, by name."""
    return list(await services.groups.names())


@router.post(
    "",
    status_code=201,
    responses=answers(GroupBody, status=201) | errors(400, 413, 415),
    openapi_extra=takes(GroupBody, {"groupName": "shop"}),
)
async def create_group(request: Request, services: ServicesOf) -> Response:
    """Create a group."""
    asked = await json_request(request)
    name = new_group(asked.body, strict=asked.strict)
    await services.groups.create(name)
    notes = AnswerNotes(ignored=ignored_in_group(asked.body), extra={"Location": f"/groups/{name}"})
    return answer(GroupBody(group_name=name), 201, notes)


@router.get("/{group}", responses=answers(GroupBody) | errors(404))
async def get_group(group: GroupName, services: ServicesOf) -> Response:
    """One group."""
    await services.groups.require(group)
    return answer(GroupBody(group_name=group))


@router.put(
    "/{group}",
    status_code=204,
    responses=answers(None, status=204) | errors(400, 404, 413, 415),
    openapi_extra=takes(GroupBody, {"groupName": "shop"}),
)
async def change_group(request: Request, group: GroupName, services: ServicesOf) -> Response:
    """Accepted as in Hermes: a group has nothing but its name, which stays."""
    asked = await json_request(request)
    new_group({"groupName": group, **asked.body}, strict=asked.strict, fixed=group)
    await services.groups.require(group)
    return answer(None, 204, AnswerNotes(ignored=ignored_in_group(asked.body)))


@router.delete("/{group}", responses=answers(None) | errors(403, 404))
async def delete_group(group: GroupName, services: ServicesOf) -> Response:
    """Delete a group that has no topics."""
    await services.groups.delete(group)
    return answer()
