"""The collector of cycles left out while values are made that have none."""

import gc


class Uncollected:
    """Nothing is collected meanwhile: the collector would look at each of many values again."""

    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        """Keep the collector off, and remember whether it was on."""
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_raised: object) -> None:
        """Have it as it was."""
        if self._was_enabled:
            gc.enable()
