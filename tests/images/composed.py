"""The services of docker-compose.yml, run from the images, with servers and ports of the test."""

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.architecture.tree import ROOT
from tests.servers.images import Image
from tests.servers.ports import free_port

COMPOSE: Final[Mapping[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
# A machine that builds images is busy.
PATIENCE_S: Final = 900.0
_LOOK_EVERY_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """Containers that share our network: each port of Compose is another one here."""

    images: Mapping[str, Image]
    settings: dict[str, str]
    logs: Path
    api_port: int = field(default_factory=free_port)
    worker_port: int = field(default_factory=free_port)

    def run(self, service: str, *program: str) -> str:
        """Run a program in a container of that service to its end, and return what it wrote."""
        log = self.logs / f"{service}-{time.monotonic_ns()}.log"
        process = self._image(service).started(
            *program, environment=self.environment(service), log=log
        )
        status = process.wait(PATIENCE_S)
        assert status == 0, log.read_text()
        return log.read_text()

    def angelia(self, *arguments: str) -> str:
        """Run a command of the image of the API."""
        return self.run("api", *self._image("api").command(*arguments))

    @contextmanager
    def started(self, service: str, *program: str) -> Iterator[None]:
        """Run that service, or another program in it, for the block; it then ends when asked to."""
        log = self.logs / f"{service}.log"
        image = self._image(service)
        process = image.started(
            *(program or image.command(*COMPOSE["services"][service]["command"])),
            environment=self.environment(service),
            log=log,
        )
        try:
            yield
        except BaseException as error:
            error.add_note(log.read_text()[-4000:])
            raise
        finally:
            status = _ended(process)
        assert program or status == 0, log.read_text()[-4000:]

    def wait_until_healthy(self, service: str) -> None:
        """Wait until the health check that Compose has of it succeeds."""
        kind, *check = COMPOSE["services"][service]["healthcheck"]["test"]
        assert kind == "CMD"
        deadline, never = time.monotonic() + PATIENCE_S, threading.Event()
        while self._status(service, [self._moved(word) for word in check]):
            assert time.monotonic() < deadline, (self.logs / f"{service}.log").read_text()
            never.wait(_LOOK_EVERY_S)

    def environment(self, service: str) -> dict[str, str]:
        """What Compose sets, with the servers and ports of the test."""
        given = COMPOSE["services"][service]["environment"]
        moved = {name: self._moved(text) for name, text in given.items()}
        return moved | {"ANGELIA_PORT": str(self.api_port)} | self.settings

    def _status(self, service: str, program: list[str]) -> int:
        log = self.logs / f"{service}-health.log"
        environment = self.environment(service)
        return self._image(service).started(*program, environment=environment, log=log).wait()

    def _image(self, service: str) -> Image:
        return self.images[COMPOSE["services"][service]["build"]["target"]]

    def _moved(self, text: str) -> str:
        text = text.replace("8090", str(self.api_port)).replace("9400", str(self.worker_port))
        return re.sub(r"\$\{\w+:-(\w*)\}", r"\1", text)


def _ended(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(PATIENCE_S)
    finally:
        process.kill()
