"""Makes the pictures of docs/console.md from the screenshots of `make test-long`.

`python -m tests.e2e.console.pictures`, after `make test-long ARGS="-k in_each_look"`.
"""

from pathlib import Path
from typing import Final

from PIL import Image

ROOT: Final = Path(__file__).parents[3]
SHOTS: Final = ROOT / "build" / "console"
PICTURES: Final = ROOT / "docs" / "images"
# Each picture, its screenshot, and the part of the height that it shows.
SHOWN: Final = (
    ("console-subscription.png", "subscription-light.png", 1_150),
    ("console-trace.png", "delivered-message-dark.png", 640),
    ("console-failures.png", "failures-light.png", 760),
    ("console-simulation.png", "simulation-light.png", 860),
    ("console-phone.png", "now-phone.png", 844),
)
COLOURS: Final = 48


def main() -> None:
    """Write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    for picture, shot, height in SHOWN:
        with Image.open(SHOTS / shot) as image:
            part = image.convert("RGB").crop((0, 0, image.width, min(height, image.height)))
        part.quantize(COLOURS, dither=Image.Dither.NONE).save(PICTURES / picture, optimize=True)


if __name__ == "__main__":
    main()
