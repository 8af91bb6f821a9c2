"""`/groups`."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.access import CallerOf, requires
from app.api.dependencies import GroupName, ServicesOf
from app.api.documented import answers, errors, names_listed, takes
from app.api.idempotency import RepeatableRoute
from app.api.management.catalogue.group_bodies import GroupBody, ignored_in_group, new_group
from app.api.media import AnswerNotes, answer, json_request
from app.api.pages import NamePageOf, names_answer
from app.domain.access.keys import Role
from app.domain.errors import GroupExistsError, GroupNameInvalidError, GroupNotEmptyError

router = APIRouter(prefix="/groups", tags=["groups"], route_class=RepeatableRoute)


@router.get("", dependencies=[requires(Role.ANY)], responses=names_listed() | errors(400))
async def list_groups(request: Request, services: ServicesOf, page: NamePageOf) -> Response:
    """Return all groups, by name."""
    return names_answer(request, await services.groups.names(page), page)


@router.post(
    "",
    dependencies=[requires(Role.CREATOR)],
    status_code=201,
    responses=answers(GroupBody, status=201)
    | errors(400, 413, 415, GroupExistsError, GroupNameInvalidError),
    openapi_extra=takes(GroupBody, {"groupName": "shop"}),
)
async def create_group(request: Request, services: ServicesOf, caller: CallerOf) -> Response:
    """Create a group, as an admin or one of its owners."""
    requested = await json_request(request)
    name = new_group(requested.body, strict=requested.strict)
    services.access.require_new_group(caller, name)
    await services.groups.create(name)
    notes = AnswerNotes(
        ignored=ignored_in_group(requested.body), extra={"Location": f"/groups/{name}"}
    )
    return answer(GroupBody(group_name=name), 201, notes)


@router.get(
    "/{group}", dependencies=[requires(Role.ANY)], responses=answers(GroupBody) | errors(404)
)
async def get_group(group: GroupName, services: ServicesOf) -> Response:
    """Return one group."""
    await services.groups.require(group)
    return answer(GroupBody(group_name=group))


@router.put(
    "/{group}",
    dependencies=[requires(Role.ADMIN)],
    status_code=204,
    responses=answers(None, status=204) | errors(400, 404, 413, 415),
    openapi_extra=takes(GroupBody, {"groupName": "shop"}, patch=True),
)
async def change_group(request: Request, group: GroupName, services: ServicesOf) -> Response:
    """Change nothing: a group has only its name, which cannot change."""
    requested = await json_request(request)
    new_group({"groupName": group, **requested.body}, strict=requested.strict, fixed=group)
    await services.groups.require(group)
    return answer(None, 204, AnswerNotes(ignored=ignored_in_group(requested.body)))


@router.delete(
    "/{group}",
    dependencies=[requires(Role.GROUP_OWNER)],
    responses=answers(None) | errors(404, GroupNotEmptyError),
)
async def delete_group(group: GroupName, services: ServicesOf) -> Response:
    """Delete a group that has no topics."""
    await services.groups.delete(group)
    return answer()
