"""The messages that a page shows after a form succeeded.

The URL of such a page has only a word for the message, and not the text of the message. So nobody
can make a link to a page that shows a false message.
"""

from collections.abc import Mapping
from typing import Final

FLASHES: Final[Mapping[str, str]] = {
    "created": "It is created.",
    "saved": "The change is saved. Workers apply it within a second.",
    "deleted": "It is deleted.",
    "suspended": "It is suspended. Messages wait in the log until you resume it.",
    "resumed": "It is resumed. Messages that wait are sent now.",
    "moved": "It is moved, and goes on from there.",
    "ended": "The secret signs no more.",
    "resent": "The messages are in the log again. They are sent at the subscription's rate.",
    "none_chosen": "No message was chosen.",
    "published": "The message is in the log. What happens to it appears here.",
    "requested": "It is requested. The next free Spark runner takes it.",
    "cancelled": "It is cancelled.",
    "resending": "It is requested. This page shows how far it is.",
    "mode": "The mode is changed.",
    "restored": "The topic is in the log.",
    "revoked": "The key is revoked. Programs that use it are refused.",
}
