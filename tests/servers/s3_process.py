"""The server process of `tests.servers.s3`: it prints its port, and runs until its input ends."""

import sys

from moto.server import ThreadedMotoServer  # type: ignore[import-not-found]  # beside ours


def main() -> None:
    """Run the server until standard input ends."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    print(port, flush=True)  # noqa: T201 - for whoever started it
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
