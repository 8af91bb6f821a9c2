"""Signs one token with Amazon's package, for the region in its argument.

See `tests.servers.msk`.
"""

import asyncio
import sys
from typing import Any

import orjson

from app.log.kafka.tokens.signed_tokens import SignedTokens
from app.token_answers import TokenRequestError


async def _signed(region: str) -> dict[str, Any]:
    try:
        return (await SignedTokens(region).request())._asdict()
    except TokenRequestError as error:
        return {"reason": error.reason}


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(asyncio.run(_signed(sys.argv[1]))))
