"""Stops a consumer as soon as its subscription is suspended, before the suspension is stored."""

from typing import Protocol

from app.domain.catalogue.subscription import Subscription


class Suspensions(Protocol):
    """Suspends subscriptions."""

    def suspend(self, subscription: Subscription, reason: str) -> None:
        """Suspend the subscription, if no user has changed it since the version `subscription`."""


class Suspension:
    """Knows whether a consumer may start requests, and suspends its subscription if needed.

    A suspension takes effect immediately, before the database stores it. It lasts until the
    subscription is changed.
    """

    def __init__(self, subscription: Subscription, suspensions: Suspensions) -> None:
        self._suspensions = suspensions
        self._subscription = subscription
        # The version of the subscription that must be suspended, as its change number.
        self._change: int | None = None
        self.holds = False
        self.configure(subscription)

    def configure(self, subscription: Subscription) -> None:
        """Use the settings in `subscription` from now on."""
        self._subscription = subscription
        # Stop sending immediately if the subscription is suspended. Its cursors are closed right
        # after this call, and must start nothing before.
        self.holds = subscription.rests or self._change == subscription.change

    def suspend(self, sent_as: Subscription, reason: str) -> None:
        """Suspend the subscription, unless it has changed since the version `sent_as`."""
        if sent_as.change != self._subscription.change or self._change == sent_as.change:
            return
        self._change = sent_as.change
        self.holds = True
        self._suspensions.suspend(sent_as, reason)
