"""The encryption behind `app.vault`.

It is a separate module, so that only processes that store or read secrets import it.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


class Cipher:
    """AES-256-GCM with one key, and keys that are derived from it."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._aes = AESGCM(key)

    def encrypt(self, nonce: bytes, text: bytes, bound_to: bytes) -> bytes:
        """Return the text, encrypted and authenticated together with `bound_to`."""
        return self._aes.encrypt(nonce, text, bound_to)

    def decrypt(self, nonce: bytes, ciphertext: bytes, bound_to: bytes) -> bytes:
        """Return the decrypted text. `bound_to` must be the same as in `encrypt`.

        Raises:
            ValueError: The ciphertext was made with another key, nonce or `bound_to`, or was
                changed.
        """
        try:
            return self._aes.decrypt(nonce, ciphertext, bound_to)
        except InvalidTag as exc:
            raise ValueError("the ciphertext is not as it was made") from exc

    def derived(self, use: str) -> bytes:
        """Return a key of the same length for another use, by HKDF-SHA256 (RFC 5869)."""
        algorithm = SHA256()
        return HKDF(
            algorithm=algorithm, length=len(self._key), salt=None, info=use.encode()
        ).derive(self._key)
