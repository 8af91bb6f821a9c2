"""A real browser for the tests of pages: Debian's Chromium without a window, driven by Playwright.

`python -m tests.servers.browser install`, run as root, installs Chromium with apt-get. For other
users, or without apt-get, the command prints the line to run. Without Chromium the tests of pages
fail with that line: they are not skipped.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from tests.servers.jars import MissingError

INSTALL_PACKAGES: Final = (
    "apt-get update && apt-get install -y --no-install-recommends chromium-headless-shell"
)
# The names of the program, the preferred one first. Other distributions have only the whole
# browser.
PROGRAMS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def install() -> str:
    """Make sure that a browser is installed, and return its path.

    Raises:
        MissingError: There is no browser; the message has the line that installs it.
    """
    if _found() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["/bin/sh", "-c", INSTALL_PACKAGES], check=False)
    return _required()


def _required() -> str:
    found = _found()
    if found is None:
        message = f"The tests need Chromium: {INSTALL_PACKAGES}"
        raise MissingError(message)
    return found


def _found() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Yield a browser.

    While the browser is open, no test in the same process may run an event loop: Playwright runs
    one.

    Raises:
        MissingError: There is no browser; the message has the line that installs it.
    """
    with sync_playwright() as playwright:
        # Switch off Chromium's own sandbox, which works neither for root nor in most containers.
        # The pages are ours, so the browser needs no protection from them.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=_required(), args=arguments)
        yield browser
        browser.close()


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tests.servers.browser install")
    try:
        print(install())  # noqa: T201 - this is a command
    except MissingError as error:
        sys.exit(str(error))
