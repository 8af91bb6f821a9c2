"""A real browser for the tests of pages: Debian's Chromium without a window, driven by Playwright.

`python -m tests.servers.browser install` installs it as root with apt-get, and elsewhere says the
line that does. Nothing here is skipped when it is missing: it fails with that line.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from tests.servers.kafka import MissingError

INSTALL_PACKAGES: Final = (
    "apt-get update && apt-get install -y --no-install-recommends chromium-headless-shell"
)
# The first one that is there is used: other distributions have only the whole browser.
PROGRAMS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def install() -> str:
    """Make sure that a browser is there, and return its path.

    Raises:
        MissingError: There is none; the message has the line to run.
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

    While it is open, no test in the same process may run an event loop: Playwright has one.

    Raises:
        MissingError: There is none; the message has the line that installs it.
    """
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not work for root, nor in most containers. The pages are ours.
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
