"""Access tokens through the whole service: providers by REST, tokens by the worker."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from tests.e2e.service import running
from tests.fakes.keys import KEY
from tests.fakes.oauth import Login, TokenRequest
from tests.fakes.subscriber import Reply, Subscriber

TOPIC = "tokens.orders"


def issues_for(secret: str, login: Login) -> None:
    """Let it issue tokens to who has that secret, and to nobody else."""

    def reply(request: TokenRequest) -> Reply | None:
        known = request.form["client_secret"] == secret
        return None if known else Reply(status=401, body=b'{"error": "invalid_client"}')

    login.reply = reply


async def test_a_provider_is_created_changed_and_asked_and_no_secret_is_written_anywhere(
    on_embedded_log: Mapping[str, str], logs: Path
) -> None:
    configuration = {**on_embedded_log, "ANGELIA_SECRET_KEY": KEY}
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(configuration, logs, workers=1))
        login = await stack.enter_async_context(Login())
        receiver = await stack.enter_async_context(Subscriber(login.guarded()))
        issues_for("t0p-s3cret", login)
        provider = {
            "name": "login",
            "tokenEndpoint": f"{login.server.url}token",
            "clientId": "angelia",
            "clientSecret": "t0p-s3cret",
            # A test process that is busy for a second is no provider that hangs.
            "requestTimeout": 20_000,
            "socketTimeout": 20_000,
            "tokenRequestInitialDelay": 200,
            "tokenRequestMaxDelay": 500,
        }
        (await service.http.post("/oauth/providers", json=provider)).raise_for_status()
        await service.topic(TOPIC, partitions=2)
        path = await service.subscribe(TOPIC, "billing", receiver.url)
        policy = {
            "grantType": "password",
            "providerName": "login",
            "username": "me",
            "password": "hunter2",
        }
        changed = await service.http.put(path, json={"oAuthPolicy": policy})
        assert changed.raise_for_status().json()["oAuthPolicy"]["password"] == "******"
        await service.applied(path)
        for number in range(20):
            await service.publish(TOPIC, b"%d" % number)
        await service.accounted(path, 20)
        assert len(login.requests) == 1
        assert login.requests[0].form["password"] == "hunter2"
        # The provider's secret changes, and with it all tokens.
        issues_for("an0ther-s3cret", login)
        login.revoke()
        for number in range(20):
            await service.publish(TOPIC, b"%d" % number)
        await receiver.wait_until(lambda: any(r.retry_count == 0 for r in receiver.received[20:]))
        secret = {"clientSecret": "an0ther-s3cret"}
        put = await service.http.put("/oauth/providers/login", json=secret)
        put.raise_for_status()
        figures = await service.accounted(path, 40)
        assert (figures["delivered"], figures["discarded"]) == (40, 0)
        refused = await service.http.delete("/oauth/providers/login")
        assert (refused.status_code, "tokens.orders/billing" in refused.text) == (409, True)
    written = "".join(each.log.read_text(errors="replace") for each in service.processes)
    assert "token_issued" in written
    for secret_text in ("t0p-s3cret", "an0ther-s3cret", "hunter2", *login.issued):
        assert secret_text not in written
