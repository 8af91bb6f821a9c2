import base64
import hmac

import pytest

from app.domain.errors import SecretKeyMissingError, SecretUnreadableError
from app.vault import KEYS_MAX, Vault, new_key
from tests.fakes.keys import KEY, OTHER_KEY, VAULT

PLACE = ("providers", "google", "client_secret")


def test_what_is_sealed_opens_again_in_its_place() -> None:
    for text in ("", "s3cret", "Müller 🔑", "x" * 10_000):
        assert VAULT.open(VAULT.seal(text, PLACE), PLACE) == text


def test_a_sealed_text_tells_nothing_and_is_never_the_same_twice() -> None:
    first, second = VAULT.seal("s3cret", PLACE), VAULT.seal("s3cret", PLACE)
    assert first != second
    assert "s3cret" not in first
    assert first.isascii()
    assert first.startswith(f"v1.{VAULT.key_ids[0]}.")


@pytest.mark.parametrize(
    "elsewhere",
    [
        ("subscriptions", "google", "client_secret"),
        ("providers", "other", "client_secret"),
        ("providers", "google", "password"),
        ("providers", "googleclient", "_secret"),
        ("providers", 'google", "client_secret'),
    ],
)
def test_a_sealed_text_does_not_open_in_another_place(elsewhere: tuple[str, ...]) -> None:
    with pytest.raises(SecretUnreadableError, match="is not as it was stored"):
        VAULT.open(VAULT.seal("s3cret", PLACE), elsewhere)


@pytest.mark.parametrize("at", [0, 12, 20, -1])
def test_a_sealed_text_that_was_tampered_with_does_not_open(at: int) -> None:
    version, key_id, encoded = VAULT.seal("s3cret", PLACE).split(".")
    raw = bytearray(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    raw[at] ^= 1
    forged = base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")
    with pytest.raises(SecretUnreadableError, match="is not as it was stored"):
        VAULT.open(f"{version}.{key_id}.{forged}", PLACE)


@pytest.mark.parametrize("sealed", ["", "s3cret", "v2.abc.def", "v1", "v1.abc"])
def test_what_nobody_sealed_does_not_open(sealed: str) -> None:
    with pytest.raises(SecretUnreadableError, match="no known form"):
        VAULT.open(sealed, PLACE)


@pytest.mark.parametrize("rest", ["", "A", "AAAA", "!!!!", "ü"])
def test_a_torn_text_does_not_open(rest: str) -> None:
    with pytest.raises(SecretUnreadableError, match="is not as it was stored"):
        VAULT.open(f"v1.{VAULT.key_ids[0]}.{rest}", PLACE)


def test_the_first_key_seals_and_every_key_opens() -> None:
    old = VAULT.seal("s3cret", PLACE)
    both = Vault.of(f"{OTHER_KEY}, {KEY}")
    assert both.open(old, PLACE) == "s3cret"
    assert not both.is_current(old)
    new = both.seal("s3cret", PLACE)
    assert both.is_current(new)
    assert Vault.of(OTHER_KEY).open(new, PLACE) == "s3cret"


def test_a_key_that_is_not_there_is_named_by_its_id() -> None:
    with pytest.raises(SecretUnreadableError) as refused:
        Vault.of(OTHER_KEY).open(VAULT.seal("s3cret", PLACE), PLACE)
    assert VAULT.key_ids[0] in refused.value.message
    assert "ANGELIA_SECRET_KEY" in refused.value.message


def test_without_a_key_nothing_is_sealed_and_the_refusal_says_how_to_make_one() -> None:
    with pytest.raises(SecretKeyMissingError) as refused:
        Vault().seal("s3cret", PLACE)
    assert "ANGELIA_SECRET_KEY" in refused.value.message
    assert "openssl rand -base64 32" in refused.value.message


@pytest.mark.parametrize("form", ["{}", "{}\n", " {} ,", "{},"])
def test_a_key_may_have_spaces_and_commas_around_it(form: str) -> None:
    assert Vault.of(form.format(KEY)).key_ids == VAULT.key_ids


def test_both_alphabets_of_base64_and_no_padding_are_the_same_key() -> None:
    raw = b"\xfb\xff" * 16
    standard = base64.b64encode(raw).decode("ascii")
    safe = base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")
    assert standard != safe
    assert Vault.of(standard).key_ids == Vault.of(safe).key_ids


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no key in it"),
        (" , ", "no key in it"),
        ("password", "32 bytes in base64"),
        (KEY[:-4], "32 bytes in base64"),
        (KEY + KEY, "32 bytes in base64"),
        ("ü" * 43, "32 bytes in base64"),
        (f"{KEY},{KEY}", "given twice"),
        (",".join(new_key() for _ in range(KEYS_MAX + 1)), "at most"),
    ],
)
def test_what_is_no_key_is_refused_without_being_quoted(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        Vault.of(text)
    assert text == "" or text not in str(refused.value)


def test_a_new_key_is_another_one_each_time() -> None:
    assert Vault.of(new_key()).key_ids != Vault.of(new_key()).key_ids


def test_keys_for_another_use_are_of_these_keys_and_of_that_use() -> None:
    both = Vault.of(f"{OTHER_KEY},{KEY}")
    derived = both.derived("use")
    assert tuple(derived) == tuple(both.key_ids)
    assert derived[VAULT.key_ids[0]] == VAULT.derived("use")[VAULT.key_ids[0]]
    others = [*VAULT.derived("other").values(), base64.b64decode(KEY)]
    assert not set(derived.values()) & set(others)
    assert Vault().derived("use") == {}
    # As RFC 5869 has it, worked out by hand: extract with a salt of zeros, expand once.
    extracted = hmac.digest(bytes(32), base64.b64decode(KEY), "sha256")
    expanded = hmac.digest(extracted, b"angelia/use\x01", "sha256")
    assert VAULT.derived("use") == {VAULT.key_ids[0]: expanded}
