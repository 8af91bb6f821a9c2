"""What is said of a server that does not take us: which it is, why, and what to set."""

from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import text

from app.domain.errors import StorageUnavailableError
from app.storage.database import open_database
from app.storage.migrate import upgrade
from app.storage.notices import CHANGES, listen
from tests.fakes.authority import Authority
from tests.servers.debian_postgres import CERTIFIED, TLS_ONLY, USER, DebianPostgres

IN_URL: Final = "ANGELIA_DATABASE_URL"


async def said_of(url: str) -> str:
    """What is said of the server, without the words that say that it failed."""
    async with open_database(url) as database:
        with pytest.raises(StorageUnavailableError) as caught:
            await database.ping()
    return caught.value.message.removeprefix("The database failed: ")


async def test_a_server_with_tls_and_a_password_is_used(
    debian_postgres: DebianPostgres, debian_database: str
) -> None:
    async with open_database(debian_postgres.verified(debian_database)) as database:
        assert await database.migrated()
        async with database.transaction() as session:
            assert await session.scalar(
                text("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
            )


async def test_a_wrong_password_or_user_is_named(debian_postgres: DebianPostgres) -> None:
    place = f"localhost:{debian_postgres.port}"
    for user in ("angelia:wr0ng", "reader:wr0ng"):
        said = await said_of(debian_postgres.url("postgres", credentials=user, sslmode="require"))
        assert place in said
        assert f"does not take the password of the user {user.partition(':')[0]}: check" in said
        assert "wr0ng" not in said
    said = await said_of(debian_postgres.url("postgres", credentials=USER))
    assert f"wants a password: give it in {IN_URL}, ANGELIA_DATABASE_PASSWORD or a .pgpass" in said
    said = await said_of(debian_postgres.url("postgres", credentials="stranger:x"))
    assert "does not let the user stranger into postgres from here: change its pg_hba.conf" in said


async def test_a_host_that_is_not_known_or_not_there_is_named() -> None:
    said = await said_of("postgresql://u:hush@nowhere.invalid/d")
    assert said == (f"nowhere.invalid:5432 is not known by that name: check the host in {IN_URL}")
    assert await said_of("postgresql://u:hush@127.0.0.1:1/d") == (
        "127.0.0.1:1 accepts no connections"
    )


async def test_each_of_several_servers_is_named() -> None:
    said = await said_of("postgresql://u@127.0.0.1:1,127.0.0.1:2/d")
    assert said == "127.0.0.1:1 accepts no connections; 127.0.0.1:2 accepts no connections"


async def test_a_database_that_is_missing_is_named(debian_postgres: DebianPostgres) -> None:
    assert f"has no database nowhere: check {IN_URL}" in await said_of(
        debian_postgres.url("nowhere")
    )


async def test_tls_that_is_wanted_or_refused_is_named(debian_postgres: DebianPostgres) -> None:
    said = await said_of(debian_postgres.url(TLS_ONLY, sslmode="disable"))
    assert f"does not let the user {USER} into {TLS_ONLY} without TLS" in said
    assert f"set sslmode=verify-full in {IN_URL}" in said
    with debian_postgres.pgbouncer() as port:
        said = await said_of(f"postgresql://u@127.0.0.1:{port}/d?sslmode=require")
    assert said == f"127.0.0.1:{port} has no TLS, which sslmode in {IN_URL} wants"


async def test_certificates_that_cannot_be_trusted_are_named(
    debian_postgres: DebianPostgres, tmp_path: Path
) -> None:
    other = Authority(tmp_path).ca_file
    said = await said_of(debian_postgres.verified("postgres", sslrootcert=str(other)))
    assert "has a certificate of an authority that is not known" in said
    assert f"check sslrootcert in {IN_URL}" in said
    missing = tmp_path / "nowhere.pem"
    said = await said_of(debian_postgres.verified("postgres", sslrootcert=str(missing)))
    assert f"cannot be verified without {missing}: set sslrootcert in {IN_URL}" in said
    said = await said_of(debian_postgres.verified("postgres", host="127.0.0.1"))
    assert "has a certificate for localhost, and not for 127.0.0.1" in said


async def test_a_certificate_of_ours_is_shown_and_missed(
    debian_postgres: DebianPostgres, tmp_path: Path
) -> None:
    said = await said_of(debian_postgres.verified(CERTIFIED))
    assert f"wants a certificate of ours: set sslcert and sslkey in {IN_URL}" in said
    ours = debian_postgres.authority.client(USER)
    chain, key = tmp_path / "ours.pem", tmp_path / "ours.key"
    chain.write_text(ours.chain)
    key.write_text(ours.private_key)
    key.chmod(0o600)
    url = debian_postgres.verified(CERTIFIED, sslcert=str(chain), sslkey=str(key))
    async with open_database(url) as database:
        await database.ping()


async def test_rights_that_are_missing_are_named(
    debian_postgres: DebianPostgres, debian_database: str
) -> None:
    url = debian_postgres.url(debian_database).replace(f"//{USER}:", "//reader:")
    async with open_database(url) as database:
        with pytest.raises(StorageUnavailableError, match="permission denied for table"):
            await database.migrated()
    empty = debian_postgres.url(CERTIFIED).replace(f"//{USER}:", "//reader:")
    empty = empty.replace(CERTIFIED, "postgres")
    with pytest.raises(StorageUnavailableError) as caught:
        upgrade(empty)
    assert "its user must own the tables, and may CREATE in the schema public" in str(caught.value)


async def test_what_takes_no_changes_is_named(
    debian_postgres: DebianPostgres, debian_database: str
) -> None:
    read_only = debian_postgres.url(debian_database, options="-cdefault_transaction_read_only=on")
    async with open_database(read_only) as database:
        with pytest.raises(StorageUnavailableError, match="takes no changes: it is read-only"):
            await database.ping()
        with pytest.raises(StorageUnavailableError, match="takes no changes: it is read-only"):
            async with database.transaction() as session:
                await session.execute(text("DELETE FROM topics"))


async def test_listening_says_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    async with listen("postgresql://u:hush@nowhere.invalid/d", [CHANGES]) as notices:
        assert not await notices.connect()
    written = capsys.readouterr().out
    assert "nowhere.invalid:5432 is not known by that name" in written
    assert "hush" not in written
