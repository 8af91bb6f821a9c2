"""How a subscription's rate follows its subscriber, ours beside Hermes': figures and curves.

Simulated time. The figures of ours are asserted in tests/integration/sending/test_rate_figures.py;
the plot goes to build/bench/rate.png.
"""

from itertools import product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import matplotlib as mpl
import pytest

from tests.benchmarks import rate_figures
from tests.benchmarks.rate_figures import LIMIT, Makers, PartialTrouble
from tests.benchmarks.rate_hermes import HermesRate
from tests.benchmarks.rate_makers import OURS
from tests.benchmarks.rate_model import Curve, Subscriber, simulate

mpl.use("Agg")
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERMES = Makers(
    new=HermesRate,
    warm=lambda limit: HermesRate(limit, warm=True),
    settled_s=40.0,
    patience_s=1_000.0,
)
BOTH = {"Angelia": OURS, "Hermes": HERMES}
# The limit, and how many runs: chance matters where attempts are few.
PARTIAL = [
    ("Angelia", 10, 100),
    ("Angelia", 100, 10),
    ("Angelia", 400, 3),
    ("Angelia", 5_000, 1),
    ("Hermes", 400, 1),
]
PATIENCE_S = {"Angelia": 25.0, "Hermes": 600.0}
SHARES = (0.1, 0.3, 1.0)
LENGTHS_S = (10.0, 28.0, 120.0)
PLOT = Path("build/bench/rate.png")


def test_figures_of_both() -> None:
    print(f"\nA limit of {LIMIT}/s; simulated time")
    for name, makers in BOTH.items():
        print(f"{name}")
        print(f"  new subscription: 90 % of the limit after {rate_figures.start(makers):.0f} s")
        for length in (60.0, 600.0):
            figures = rate_figures.outage(makers, length)
            print(
                f"  outage of {length:.0f} s: {figures.requests} requests during it,"
                f" {figures.per_second:.2f}/s after the first 5 s;"
                f" 90 % again {figures.recovery_s:.0f} s after its end"
            )
        # Hermes has its rate only after minutes.
        since = 20.0 if makers is OURS else 600.0
        for share in (0.5, 0.25, 0.05):
            found = rate_figures.capacity(makers, share, since_s=since)
            print(
                f"  subscriber takes {LIMIT * share:.0f}/s: from second {since:.0f} on"
                f" {found.used:.1%} of that used, {found.refused:.1%} of requests refused;"
                f" {found.wasted} wasted since the start"
            )


@pytest.mark.parametrize(("name", "limit", "seeds"), PARTIAL)
def test_partial_troubles(name: str, limit: int, seeds: int) -> None:
    print("\nA share of all attempts fails at random: seconds until 90 % are taken again, at most,")
    print("and the part of the limit that is sent meanwhile; simulated time")
    for share, length in product(SHARES, LENGTHS_S):
        case = PartialTrouble(limit=limit, share=share, length_s=length)
        found = [
            rate_figures.partial(BOTH[name], case, seed=seed, patience_s=PATIENCE_S[name])
            for seed in range(seeds)
        ]
        recovery, sent = max(each.recovery_s for each in found), median(each.sent for each in found)
        print(
            f"  {name:8} limit {limit:5}/s, {share:4.0%} fail for {length:3.0f} s:"
            f" {recovery:6.1f} s; {sent:.0%}"
        )


def test_curves_of_both() -> None:
    figure, rows = plt.subplots(3, 1, figsize=(10, 11), constrained_layout=True)
    for name, makers in BOTH.items():
        new = simulate(makers.new(LIMIT), Subscriber(), seconds=480)
        _draw(rows[0], name, new, span=(0, 480))
        down = int(makers.settled_s)
        subscriber = Subscriber(outages=[(down, down + 60.0)])
        after = simulate(makers.warm(LIMIT), subscriber, seconds=down + 470)
        _draw(rows[1], name, after, span=(down - 10, down + 470))
        small = simulate(makers.new(LIMIT), Subscriber(capacity=LIMIT / 4), seconds=480)
        _draw(rows[2], name, small, span=(0, 480))
    titles = (
        "A new subscription",
        "An outage of 60 s, from second 10",
        f"A subscriber that takes {LIMIT // 4}/s (thin: sent, thick: taken)",
    )
    for axes, title in zip(rows, titles, strict=True):
        axes.set(title=f"{title}; limit {LIMIT}/s", xlabel="s", ylabel="requests/s")
        axes.legend()
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, dpi=110)
    plt.close(figure)
    print(f"\ncurves: {PLOT}")


def _draw(axes: "Axes", name: str, curve: Curve, *, span: tuple[int, int]) -> None:
    sent, taken = (values[span[0] : span[1]] for values in curve.per_second(span[1]))
    (line,) = axes.plot(taken, label=name, linewidth=1.8)
    axes.plot(sent, color=line.get_color(), linewidth=0.5)
