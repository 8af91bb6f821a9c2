"""`angelia migrate`."""

from app.cli import output
from app.cli.quiet import quiet_logs
from app.cli.settings import settings_with
from app.storage.embedded.configured import database_url
from app.storage.migrate import head, upgrade


def migrate() -> None:
    """Bring the database to this version's schema, unless it has this schema or a newer one."""
    quiet_logs()
    with database_url(settings_with()) as url:
        revision = upgrade(url)
    output.write_text(_summary(revision))


def _summary(revision: str) -> str:
    if revision == head():
        return "The database is up to date."
    return f"The tables are of a newer version ({revision}, this one has {head()}): they stay."
