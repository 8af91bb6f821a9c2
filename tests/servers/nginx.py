"""An nginx in front of a server of the tests, set up as its manual suggests for WebSockets.

`python -m tests.servers.nginx install`, run as root, installs nginx with apt-get. For other users,
or without apt-get, the command prints the line to run. Without nginx the tests fail with that line:
they are not skipped.
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

from tests.servers.jars import MissingError

INSTALL_PACKAGES: Final = "apt-get update && apt-get install -y --no-install-recommends nginx"
# Search these folders too: distributions install nginx in a folder that is only in root's PATH.
_PLACES: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"

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
{servers}
}}
"""
# The configuration that nginx's manual has for WebSockets. `connection` is the value of the header
# `Connection` in requests to the server.
_PROXY: Final = """
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
"""
_HTTP2_SERVER: Final = """
  server {{
    listen {listen} ssl http2;
    ssl_certificate {chain};
    ssl_certificate_key {key};
    keepalive_requests {requests_max};
    location / {{ return 200 "ok"; }}
  }}
"""


def install() -> str:
    """Make sure that nginx is installed, and return its path.

    Raises:
        MissingError: There is no nginx; the message has the line that installs it.
    """
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
async def nginx_with_http2(
    home: Path, chain: Path, key: Path, *, requests_max: int
) -> AsyncIterator[str]:
    """Run an nginx that answers 200 by HTTP/2, and yield its URL.

    The nginx ends a connection after about `requests_max` requests, which is 1000 by default.
    """
    server = _HTTP2_SERVER.format(
        chain=chain, key=key, requests_max=requests_max, listen="{listen}"
    )
    async with _running(home, server) as listen:
        yield f"https://{listen}/"


@asynccontextmanager
async def nginx_before(server: str, home: Path, *, connection: str) -> AsyncIterator[str]:
    """Run an nginx that passes all requests to `server` (host:port), and yield nginx's URL.

    The nginx keeps one connection to the server open. `connection` is the value of the header
    `Connection` that nginx sends to the server: "upgrade", or nginx's variable $connection_upgrade.
    """
    proxy = _PROXY.format(server=server, connection=connection, listen="{listen}")
    async with _running(home, proxy) as listen:
        yield f"http://{listen}"


@asynccontextmanager
async def _running(home: Path, servers: str) -> AsyncIterator[str]:
    """Run an nginx with these servers, and yield its address as host:port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listen = f"127.0.0.1:{listening.getsockname()[1]}"
        file = home / "nginx.conf"
        file.write_text(
            _CONFIGURATION.format(home=home, servers=servers.replace("{listen}", listen))
        )
        # Let nginx take over this socket, as it does when nginx is upgraded. So connections that
        # come before nginx is ready wait.
        process = await asyncio.create_subprocess_exec(
            install(),
            *("-p", str(home), "-c", str(file)),
            env={"NGINX": f"{listening.fileno()};"},
            pass_fds=(listening.fileno(),),
        )
        try:
            yield listen
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
