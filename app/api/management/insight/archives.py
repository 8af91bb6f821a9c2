"""`/topics/{topic}/archive`: what there is of a topic beside the log."""

from fastapi import APIRouter
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf, TopicName
from app.api.documented import answers, errors
from app.api.management.insight.archive_bodies import ArchiveRead, archive_read
from app.api.media import answer
from app.domain.access.keys import Role

router = APIRouter(tags=["topics"])


@router.get(
    "/topics/{topic}/archive",
    dependencies=[requires(Role.ANY)],
    responses=answers(ArchiveRead) | errors(404),
)
async def get_archive(topic: TopicName, services: ServicesOf) -> Response:
    """Where its Parquet files are that count, and how far it is archived.

    A topic has an archive by `offlineStorage`; jobs of kind `ARCHIVE` write it.
    """
    return answer(archive_read(await services.archives.get(topic)))
