"""`angelia migrate`."""

from app.cli import output
from app.cli.quiet import quiet_logs
from app.cli.settings import settings_with
from app.storage.embedded.configured import database_url
from app.storage.migrate import upgrade


def migrate() -> None:
    """Bring the database to this version's schema; does nothing if it is there already."""
    quiet_logs()
    with database_url(settings_with()) as url:
        upgrade(url)
    output.write_text("The database is up to date.")
