"""Encrypts secrets that are stored: AES-256-GCM with the operator's keys.

Each encrypted text has the form `v1.{key id}.{nonce and ciphertext in base64}`, and is bound to its
place: table, row and field. It cannot be decrypted for another place. So somebody who can write to
the database cannot move a secret to a place where it is shown, or sent to another host. The first
key encrypts, and all keys decrypt. So keys can be changed without an interruption.

Code that stores a secret gets the process's vault from its database session
(`app.storage.sealing.vault_of`).
"""

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from app.domain.errors import SecretKeyMissingError, SecretUnreadableError

if TYPE_CHECKING:
    from app.ciphers import Cipher

KEY_BYTES: Final = 32
KEYS_MAX: Final = 16

_VERSION: Final = "v1"
_NONCE_BYTES: Final = 12
_KEY: Final = re.compile(r"[A-Za-z0-9+/_-]{43}=?")

HOW_TO_SET: Final = (
    "set ANGELIA_SECRET_KEY, the same for all processes, to a key made by `openssl rand -base64 32`"
)


class Vault:
    """Encrypts and decrypts secrets with the raw keys in `keys`. The first key encrypts.

    Without keys, nothing can be encrypted. Creating a vault raises ValueError if a key is not
    KEY_BYTES long, if a key is given twice, or if there are more than KEYS_MAX keys.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        if not all(len(key) == KEY_BYTES for key in keys):
            raise ValueError(f"each key must be {KEY_BYTES} bytes in base64")
        if len(keys) > KEYS_MAX:
            raise ValueError(f"there must be at most {KEYS_MAX} keys")
        self._raw = {_id_of(key): key for key in keys}
        # The ciphers by key id. A cipher is created when its key is first used.
        self._ciphers: dict[str, Cipher] = {}
        self._first = next(iter(self._raw), None)
        if len(self._raw) < len(keys):
            raise ValueError("a key is given twice")

    @classmethod
    def of(cls, text: str) -> "Vault":
        """Return the vault with the keys in `text`: base64, separated by commas.

        Raises:
            ValueError: The keys are not valid. The error contains no part of a key.
        """
        keys = [_key(item.strip()) for item in text.split(",") if item.strip()]
        if not keys:
            raise ValueError("there is no key in it")
        return cls(keys)

    @property
    def key_ids(self) -> Sequence[str]:
        """The ids of the keys, the encrypting key's id first. An id reveals nothing of its key."""
        return tuple(self._raw)

    def seal(self, text: str, location: Sequence[str]) -> str:
        """Return `text`, encrypted for `location`, in printable ASCII.

        `location` has the table, row and field, such as `("oauth_providers", name,
        "client_secret")`.

        Raises:
            SecretKeyMissingError: The vault has no key.
        """
        if self._first is None:
            raise SecretKeyMissingError(f"No secret can be stored: {HOW_TO_SET}")
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._cipher(self._first).encrypt(nonce, text.encode(), _bound_to(location))
        encoded = base64.urlsafe_b64encode(nonce + sealed).rstrip(b"=").decode("ascii")
        return f"{_VERSION}.{self._first}.{encoded}"

    def open(self, sealed: str, location: Sequence[str]) -> str:
        """Return the text that was encrypted for `location`.

        Raises:
            SecretUnreadableError: The key is unknown, or the text was encrypted for another place.
        """
        key_id = key_id_of(sealed)
        if key_id not in self._raw:
            raise SecretUnreadableError(
                f"A secret is stored under the key {key_id}, which is not in ANGELIA_SECRET_KEY"
            )
        try:
            raw = _decoded(sealed.rpartition(".")[2])
            nonce, ciphertext = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:]
            text = self._cipher(key_id).decrypt(nonce, ciphertext, _bound_to(location))
        except ValueError as exc:
            # The error has only the place of the secret, because its content could not be
            # decrypted.
            raise SecretUnreadableError(
                f"The secret {'/'.join(location)} is not as it was stored"
            ) from exc
        return text.decode()

    def derived(self, use: str) -> Mapping[str, bytes]:
        """Return keys for the purpose `use`, by key id: one derived from each key of the vault.

        The keys have the same order as the vault's keys. They are derived by HKDF-SHA256 (RFC
        5869), have KEY_BYTES, and reveal nothing of other keys.
        """
        return {key_id: self._cipher(key_id).derived(f"angelia/{use}") for key_id in self._raw}

    def is_current(self, sealed: str) -> bool:
        """Return whether the text was encrypted with the current key, the first one."""
        return self._first is not None and key_id_of(sealed) == self._first

    def _cipher(self, key_id: str) -> "Cipher":
        from app.ciphers import Cipher  # noqa: PLC0415 - 8 MB, needed only for stored secrets

        if key_id not in self._ciphers:
            self._ciphers[key_id] = Cipher(self._raw[key_id])
        return self._ciphers[key_id]


def new_key() -> str:
    """Return a new random key in the form that `Vault.of` reads."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode("ascii")


def key_id_of(sealed: str) -> str:
    """Return the id of the key with which a text was encrypted.

    Raises:
        SecretUnreadableError: The text does not have the form of an encrypted text.
    """
    version, _, rest = sealed.partition(".")
    key_id, dot, _ = rest.partition(".")
    if version != _VERSION or not dot:
        raise SecretUnreadableError("A stored secret is of no known form")
    return key_id


def _key(text: str) -> bytes:
    if not _KEY.fullmatch(text):
        raise ValueError(f"each key must be {KEY_BYTES} bytes in base64 (openssl rand -base64 32)")
    return _decoded(text)


def _decoded(text: str) -> bytes:
    standard = text.translate(_STANDARD).rstrip("=")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except binascii.Error as exc:
        raise ValueError("it is no base64") from exc


_STANDARD: Final = str.maketrans("-_", "+/")


def _id_of(key: bytes) -> str:
    return hashlib.sha256(b"angelia secret key\0" + key).hexdigest()[:12]


def _bound_to(location: Sequence[str]) -> bytes:
    # Write the place of a secret as JSON, so that two different places never give the same text.
    return json.dumps(list(location)).encode("ascii")
