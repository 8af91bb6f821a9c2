"""Retransmissions in the trail of changes."""

from app.domain.audit import Action, Change
from app.domain.retransmission import Retransmission


def change_of(action: Action, item: Retransmission) -> Change:
    """That this was done to a retransmission."""
    selection = item.request.selection
    said = {"id": item.id, "only": selection.only.value, "dryRun": item.request.dry_run}
    name = f"{item.topic}/{item.subscription}"
    return Change(action=action, kind="retransmission", name=name, after=said)
