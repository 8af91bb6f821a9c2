"""What brokers say when they are asked for a producer id."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.log.kafka.bridge import IoThread
from app.log.kafka.client import Client
from app.log.kafka.producer_ids import new_producer_id
from app.log.kafka.sequences import IdRefusedError, NoIdsError, ProducerId

OK, UNKNOWN_ERROR, LOADING, NO_RIGHT, NO_CLUSTER_RIGHT, TOO_OLD = 0, -1, 14, 29, 31, 35


class Io(IoThread):
    """Waits for nothing."""

    def __init__(self) -> None:
        """Begin no thread."""

    async def sleep(self, seconds: float) -> None:
        """Return at once."""


class Brokers(Client):
    """Answer with one code after the other."""

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)
        self.closed = False

    async def send_any(self, request: object) -> Any:  # noqa: ANN401 - kafka has no types
        del request
        return SimpleNamespace(error_code=self._codes.pop(0), producer_id=7, producer_epoch=0)


@pytest.mark.parametrize("code", [UNKNOWN_ERROR, LOADING])
async def test_a_broker_that_fails_is_asked_again(code: int) -> None:
    assert await new_producer_id(Io(), Brokers(code, OK)) == ProducerId(7, 0)


@pytest.mark.parametrize(
    ("code", "error"),
    [(NO_RIGHT, IdRefusedError), (NO_CLUSTER_RIGHT, IdRefusedError), (TOO_OLD, NoIdsError)],
)
async def test_only_old_brokers_are_told_from_those_that_may_allow_it_later(
    code: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await new_producer_id(Io(), Brokers(code))
