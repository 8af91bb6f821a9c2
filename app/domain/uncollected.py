"""Switches off the garbage collector while values without cycles are created."""

import gc


class Uncollected:
    """Switches off the garbage collector in a `with` block.

    While many values are created, the collector would check each of these values several times.
    """

    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        """Switch the collector off, and remember whether it was on."""
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_raised: object) -> None:
        """Switch the collector on again, if it was on before the block."""
        if self._was_enabled:
            gc.enable()
