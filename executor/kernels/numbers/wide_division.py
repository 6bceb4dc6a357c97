"""Quotients of 64-bit integers that need up to 128 bits, for decimals with 16 digits after the point and more.

Long division: the whole part, then as many digits at a time as fit 64 bits next to the divisor.

    quotient = whole * 10**shift + digits        as `limbs` has 128-bit integers
"""

from __future__ import annotations

import numpy as np

from ....model.types import DataType
from ....model.vectors.arrow_values import decimal_from_limbs
from ....model.vectors.vector import Array, Vector, Wide
from .bounded_integers import INT64, fits, limits_of
from .limbs import negated, scaled

MOST_DIGITS = 18
"""Digits that fit 64 bits."""


def divide_wide(
    type_: DataType, numerator: Array, denominator: Array, validity: Array | None, shift: int
) -> Vector | None:
    """Compute numerator * 10**shift / denominator, rounded half away from zero; None if the result may not fit `type_`.

    The absolute value of `denominator` is below 10**17, and not zero if `validity` is True; numerators are above
    -2**63.
    """
    if not 0 <= shift <= MOST_DIGITS or (type_.precision or 0) <= MOST_DIGITS:
        return None
    divisor = np.abs(np.where(denominator == 0, 1, denominator))
    rest = np.abs(numerator)
    whole = rest // divisor
    rest -= whole * divisor
    most = (int((whole if validity is None else np.where(validity, whole, 0)).max(initial=0)) + 1) * 10**shift
    if not fits((-most, most), limits_of(type_)):
        return None
    digits = fraction_digits(rest, divisor, shift)
    digits += 2 * rest >= divisor
    high, low = scaled(whole.view(np.uint64), 10**shift, digits.view(np.uint64))
    high, low = negated(high, low, (numerator < 0) != (denominator < 0))
    return Wide(type_, decimal_from_limbs(type_, high.view(np.int64), low, validity))


def fraction_digits(rest: Array, divisor: Array, shift: int) -> Array:
    """Return the first `shift` digits after the point of rest / divisor; `rest` becomes the remainder."""
    # 10**step * remainder stays within 64 bits, and so does twice a remainder at the end.
    step = max(1, len(str(INT64[1] // max(2, int(divisor.max(initial=1))))) - 1)
    digits = np.zeros(len(rest), np.int64)
    while shift > 0:
        taken = min(step, shift)
        rest *= 10**taken
        more = rest // divisor
        rest -= more * divisor
        digits = digits * 10**taken + more
        shift -= taken
    return digits
