"""`/owners/sources`: the registers of owners. The only register accepts any name of an owner."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from app.api.access import requires
from app.api.documented import answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.catalogue.owners_bodies import OwnerRead, OwnerSourceRead
from app.api.media import answer
from app.domain.access.keys import Role
from app.domain.errors import OwnerSourceNotFoundError, OwnerSourceNotSearchableError
from app.domain.owner import Owner

router = APIRouter(prefix="/owners/sources", tags=["access"], route_class=LazyRoute)

_PLAIN: Final = Owner().source

SourceName = Annotated[str, Path(description="name of the register", examples=[_PLAIN])]


@router.get(
    "",
    dependencies=[requires(Role.ANY)],
    responses=answers(OwnerSourceRead, many=True) | errors(),
)
async def list_sources() -> Response:
    """Return the registers of owners."""
    return answer([OwnerSourceRead(name=_PLAIN).answered()])


@router.get(
    "/{source}",
    dependencies=[requires(Role.ANY)],
    responses=answers(OwnerRead, many=True)
    | errors(400, OwnerSourceNotFoundError, OwnerSourceNotSearchableError),
)
async def search_owners(
    source: SourceName,
    search: Annotated[str | None, Query(description="part of a name")] = None,
) -> Response:
    """Refuse a search for owners: any text can be an owner, so no list of owners exists."""
    _require(source)
    del search
    raise OwnerSourceNotSearchableError(f"Owners of {source} cannot be searched: any text is one")


@router.get(
    "/{source}/{owner}",
    dependencies=[requires(Role.ANY)],
    responses=answers(OwnerRead) | errors(OwnerSourceNotFoundError),
)
async def get_owner(
    source: SourceName, owner: Annotated[str, Path(description="id of the owner")]
) -> Response:
    """Return an owner, by id."""
    _require(source)
    return answer(OwnerRead(id=owner, name=owner))


def _require(source: str) -> None:
    if source != _PLAIN:
        raise OwnerSourceNotFoundError(f"Owner source {source} does not exist")
