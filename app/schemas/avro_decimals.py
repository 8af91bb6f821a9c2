"""Converts decimals: from a JSON number or text to the integer that Avro stores, and back.

Avro stores a decimal without its point, as an unscaled integer: 1.20 with the scale 2 is 120.
"""

from decimal import Decimal, InvalidOperation
from typing import Final

# The maximum number of digits of a decimal, and also the maximum number of its digits after the
# point.
DIGITS_MAX: Final = 1_000
# The maximum number of digits of an unscaled integer: of digits before the point, zeros that an
# exponent adds, and digits after the point.
LIMIT_MAX: Final = 3 * DIGITS_MAX
_LIMIT: Final = 10**LIMIT_MAX
# The steps of work (see avro_work.py) to convert any decimal.
_STEPS: Final = 0.5
# The additional steps of work for a decimal that is given as a text or a float.
_TEXT_STEPS: Final = 2
# How many digits of a decimal's text one step converts.
_DIGITS_PER_STEP: Final = 8
# How many zeros one step appends to a decimal's integer.
_ZEROS_PER_STEP: Final = 32
# The additional steps for a decimal that has other characters than digits, a point and a minus.
_ODD_STEPS: Final = 4
# How many digits of a decimal with such characters one step converts.
_ODD_DIGITS_PER_STEP: Final = 3
_KINDS: Final = (int, float, str)


def limit_of(precision: int) -> int:
    """Return the first unscaled integer that has more digits than `precision`."""
    return int(10 ** min(precision, LIMIT_MAX))


def unscaled(value: object, scale: int) -> tuple[int | None, float]:
    """Return `value` times 10 to the power of `scale`; None if the result is not an integer.

    The second result is the work of the conversion, in steps (avro_work.py).
    """
    if isinstance(value, bool) or not isinstance(value, _KINDS) or scale > DIGITS_MAX:
        return None, _STEPS
    steps = _STEPS + scale // _ZEROS_PER_STEP
    if isinstance(value, int):
        return value * 10**scale, steps
    # The shortest text of a float is converted, so that the float 1.1 becomes the decimal 1.1.
    text = value if isinstance(value, str) else repr(value)
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    length, more = len(text), scale - len(fraction)
    steps += _TEXT_STEPS + length // _DIGITS_PER_STEP
    if more >= 0 and length <= DIGITS_MAX and (whole.removeprefix("-") + fraction).isdecimal():
        return int(whole + fraction) * 10**more, steps
    return _odd(text, scale), steps + _ODD_STEPS + length // _ODD_DIGITS_PER_STEP


def decimal_text(unscaled: int, scale: int) -> str:
    """Return the decimal `unscaled` with its point, and with all its digits.

    Raises:
        ValueError: The decimal has too many digits.
    """
    if abs(unscaled) >= _LIMIT:
        raise ValueError(f"it has a decimal of more than {LIMIT_MAX} digits")
    if not scale:
        return str(unscaled)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _odd(text: str, scale: int) -> int | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or abs(exponent) > DIGITS_MAX or len(digits) > DIGITS_MAX:
        return None
    found = int("".join(map(str, digits)))
    shift = exponent + scale
    if shift < 0:
        found, rest = divmod(found, 10**-shift)
        if rest:
            return None
    else:
        found *= int(10**shift)
    return -found if sign else found
