"""`python -m app`: the API process, with the settings of the environment."""

from app.lean_start import start_lean

start_lean()

from app.config import Settings  # noqa: E402 - imported after the lean start
from app.main import serve  # noqa: E402 - imported after the lean start

if __name__ == "__main__":
    serve(Settings())
