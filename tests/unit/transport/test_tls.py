"""TLS sessions, with both ends of the handshake here."""

import ssl
from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from workers.transport.tls import PLAIN, SESSION_KEPT_S, TlsContext

NAME = "shop.test"


class Ends:
    """Two ends of a connection that have shaken hands, and the client has heard of tickets."""

    def __init__(self, ours: TlsContext, theirs: ssl.SSLContext) -> None:
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = ours.wrap_bio(to_client, to_server, server_hostname=NAME)
        server = theirs.wrap_bio(to_server, to_client, server_side=True)
        waiting = [self.client, server]
        while waiting:
            for end in tuple(waiting):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                waiting.remove(end)
        server.write(b"x")
        assert self.client.read(1) == b"x"


class Clock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_resumed_until_the_certificate_is_to_be_seen_again(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    authority, clock = Authority(tmp_path), Clock()
    theirs = authority.server(NAME)
    theirs.minimum_version = theirs.maximum_version = version
    ours = TlsContext.of(PLAIN, authority.ca_file, clock=clock)
    first = Ends(ours, theirs)
    assert not first.client.session_reused
    ours.learn(NAME, first.client)
    for _ in range(3):
        clock.now += SESSION_KEPT_S / 4
        again = Ends(ours, theirs)
        assert again.client.session_reused
        # Resumed ones do not make it last longer.
        ours.learn(NAME, again.client)
    clock.now += SESSION_KEPT_S / 4
    assert not Ends(ours, theirs).client.session_reused


def test_a_session_that_was_forgotten_is_not_resumed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    theirs = authority.server(NAME)
    ours = TlsContext.of(PLAIN, authority.ca_file)
    ours.learn(NAME, Ends(ours, theirs).client)
    ours.forget(NAME)
    assert not Ends(ours, theirs).client.session_reused
