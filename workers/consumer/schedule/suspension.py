"""Nothing is begun for a subscription that is suspended, or is to be."""

from typing import Protocol

from app.domain.catalogue.subscription import Subscription


class Suspensions(Protocol):
    """Suspends subscriptions."""

    def suspend(self, subscription: Subscription, reason: str) -> None:
        """See to it that it is suspended, as long as nobody else changes it meanwhile."""


class Suspension:
    """Knows whether a consumer may begin anything, and suspends its subscription when it must not.

    It counts at once, however long it takes to reach the database, and until its owner changes the
    subscription.
    """

    def __init__(self, subscription: Subscription, suspensions: Suspensions) -> None:
        self._suspensions = suspensions
        self._subscription = subscription
        # The change of the subscription as which it is to be suspended.
        self._change: int | None = None
        self.holds = False
        self.configure(subscription)

    def configure(self, subscription: Subscription) -> None:
        """Its settings from now on."""
        self._subscription = subscription
        # Its cursors are closed right after this, and must not begin anything in between.
        self.holds = subscription.rests or self._change == subscription.change

    def suspend(self, sent_as: Subscription, reason: str) -> None:
        """Begin nothing more, unless it was changed since the message was `sent_as` that."""
        if sent_as.change != self._subscription.change or self._change == sent_as.change:
            return
        self._change = sent_as.change
        self.holds = True
        self._suspensions.suspend(sent_as, reason)
