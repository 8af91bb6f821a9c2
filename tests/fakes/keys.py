"""Keys that encrypt secrets in tests. They are no secrets themselves."""

import base64
from typing import Final

from app.vault import Vault

KEY: Final = base64.b64encode(bytes(range(32))).decode("ascii")
OTHER_KEY: Final = base64.b64encode(bytes(range(32, 64))).decode("ascii")
VAULT: Final = Vault.of(KEY)
