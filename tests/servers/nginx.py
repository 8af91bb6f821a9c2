"""nginx in front of a server of the tests, as it is often set up.

`python -m tests.servers.nginx install` installs it as root with apt-get, and elsewhere says the
line that does. Nothing here is skipped when it is missing: it fails with that line.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.servers.kafka import MissingError

INSTALL_PACKAGES: Final = "apt-get update && apt-get install -y --no-install-recommends nginx"
# Distributions keep it where only root looks.
_PLACES: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"

# What its manual has for WebSockets; `$connection` is what it says to the server.
_CONFIGURATION: Final = """
daemon off;
worker_processes 1;
pid {home}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {home}/body;
  proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi;
  uwsgi_temp_path {home}/uwsgi;
  scgi_temp_path {home}/scgi;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  upstream api {{ server {server}; keepalive 1; }}
  server {{
    listen {listen};
    location / {{
      proxy_pass http://api;
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection {connection};
    }}
  }}
}}
"""


def install() -> str:
    """Make sure that nginx is there, and return its path; MissingError with the line to run."""
    if _found() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["/bin/sh", "-c", INSTALL_PACKAGES], check=False)
    found = _found()
    if found is None:
        message = f"The tests need nginx: {INSTALL_PACKAGES}"
        raise MissingError(message)
    return found


def _found() -> str | None:
    return shutil.which("nginx", path=_PLACES)


@asynccontextmanager
async def nginx_before(server: str, home: Path, *, connection: str) -> AsyncIterator[str]:
    """The URL of an nginx that passes all on to `server` (host:port) by one connection kept open.

    `connection` is the header `Connection` that it sends: "upgrade", or $connection_upgrade.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listen = f"127.0.0.1:{listening.getsockname()[1]}"
        file = home / "nginx.conf"
        file.write_text(
            _CONFIGURATION.format(home=home, server=server, listen=listen, connection=connection)
        )
        # It takes over this socket, as from an nginx that is upgraded: what comes early waits.
        process = await asyncio.create_subprocess_exec(
            install(),
            *("-p", str(home), "-c", str(file)),
            env={"NGINX": f"{listening.fileno()};"},
            pass_fds=(listening.fileno(),),
        )
        try:
            yield f"http://{listen}"
        finally:
            process.terminate()
            await process.wait()


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tests.servers.nginx install")
    try:
        print(install())  # noqa: T201 - this is a command
    except MissingError as error:
        sys.exit(str(error))
