"""Names of groups, topics and subscriptions: the allowed characters and lengths."""

import re
from typing import Final

from app.domain.errors import ValidationFailedError

# The maximum length of a name. The longest name in the log is namespace + topic + "_" +
# subscription + "_retransmission", and Kafka allows 249 characters.
NAME_LENGTH_MAX: Final = 100

_NAME = re.compile(r"[a-zA-Z0-9_.-]+")
_GROUP = re.compile(r"[a-zA-Z0-9.]+")
# The names "." and ".." are not allowed, because clients remove such parts from the paths of URLs.
_DOTS: Final = frozenset({".", ".."})


def topic_name(text: str, *, path: str = "name") -> str:
    """Return `text`, if it is a full topic name: `group.topic`.

    Raises:
        ValidationFailedError: The text is not a full topic name (field `path`).
    """
    checked = _checked(text, path)
    group, dot, topic = checked.rpartition(".")
    if not (dot and group and topic) or group in _DOTS:
        raise ValidationFailedError.of(path, "must be qualified by its group: group.topic")
    return checked


def is_topic_name(text: str) -> bool:
    """Whether a topic may have this name."""
    try:
        return bool(topic_name(text))
    except ValidationFailedError:
        return False


def subscription_name(text: str, *, path: str = "name") -> str:
    """Return `text`, if a subscription may have this name.

    Raises:
        ValidationFailedError: The name is not allowed (field `path`).
    """
    if text in _DOTS:
        raise ValidationFailedError.of(path, "must not be only dots")
    return _checked(text, path)


def is_group_name(text: str) -> bool:
    """Whether a group may have this name (Hermes: letters, digits and dots)."""
    fits = len(text) <= NAME_LENGTH_MAX and text not in _DOTS
    return fits and _GROUP.fullmatch(text) is not None


def is_plain_name(text: str) -> bool:
    """Whether `text` is 1 to NAME_LENGTH_MAX letters, digits, '_', '.' or '-'."""
    return len(text) <= NAME_LENGTH_MAX and _NAME.fullmatch(text) is not None


def group_of(topic: str) -> str:
    """Return the group of a full topic name: everything before its last dot."""
    return topic.rpartition(".")[0]


def _checked(text: str, path: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValidationFailedError.of(path, "must be letters, digits, '_', '.' or '-'")
    if len(text) > NAME_LENGTH_MAX:
        raise ValidationFailedError.of(path, f"must be at most {NAME_LENGTH_MAX} characters")
    return text
