"""A worker whose status page has no place ends with one line that names the setting."""

import pytest
from structlog.testing import capture_logs

from app.config import Settings
from tests.servers.ports import free_port
from workers.telemetry.status_address import Address, listening, require_status_address


def problem(address: str, *, number: int = 1) -> str:
    """What the worker says before it ends."""
    settings = Settings.model_validate({"worker_address": address})
    with capture_logs() as logs, pytest.raises(SystemExit) as ended:
        require_status_address(settings, number=number)
    assert ended.value.code == 1
    (line,) = logs
    return str(line["problem"])


def test_a_port_that_is_in_use_is_named() -> None:
    with listening(Address("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for number in (1, 2):
            said = problem(f"127.0.0.1:{port + 1 - number}", number=number)
            where = f"worker {number} cannot listen on port {port} of 127.0.0.1"
            assert said == f"ANGELIA_WORKER_ADDRESS: {where}: the port is in use"


def test_a_host_of_another_machine_and_a_port_beyond_the_last_are_named() -> None:
    assert problem("192.0.2.1:9400").endswith("192.0.2.1: Cannot assign requested address")
    assert problem("127.0.0.1:65535", number=2).endswith(": ports end at 65535")


def test_a_worker_whose_page_has_a_place_starts() -> None:
    for address in (None, "127.0.0.1:0", f"127.0.0.1:{free_port()}"):
        require_status_address(Settings.model_validate({"worker_address": address}), number=1)
