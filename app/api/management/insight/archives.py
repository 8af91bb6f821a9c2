"""`/topics/{topic}/archive`: the messages of a topic outside of the log."""

from fastapi import APIRouter
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf, TopicName
from app.api.documented import answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.insight.archive_bodies import ArchiveRead, archive_read
from app.api.media import answer
from app.domain.access.keys import Role

router = APIRouter(tags=["topics"], route_class=LazyRoute)


@router.get(
    "/topics/{topic}/archive",
    dependencies=[requires(Role.ANY)],
    responses=answers(ArchiveRead) | errors(404),
)
async def get_archive(topic: TopicName, services: ServicesOf) -> Response:
    """Return where the valid Parquet files are, and how far the topic is archived.

    The setting `offlineStorage` gives a topic an archive; jobs of kind `ARCHIVE` write it.
    """
    return answer(archive_read(await services.archives.get(topic)))
