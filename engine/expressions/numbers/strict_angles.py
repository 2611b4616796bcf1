"""``asin``, ``acos``, ``atan``, ``atan2`` with the very bits of Java's ``StrictMath``.

Source: fdlibm 5.3; ``java.lang.FdLibm``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.expressions.numbers.strict_math import _at, _cut, _high, _polynomial

_PI: Final = 3.14159265358979311600e00
_PI_LO: Final = 1.2246467991473531772e-16
_HALF_PI: Final = 1.57079632679489655800e00
_HALF_PI_LO: Final = 6.12323399573676603587e-17
_QUARTER_PI: Final = 7.85398163397448278999e-01
_PS: Final = (
    1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01,
    -4.00555345006794114027e-02, 7.91534994289814532176e-04, 3.47933107596021167570e-05,
)  # fmt: skip
_QS: Final = (
    1.0, -2.40339491173441421878e00, 2.02094576023350569471e00, -6.88283971605453293030e-01,
    7.70381505559019352791e-02,
)  # fmt: skip
_AT: Final = (
    3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01,
    -1.11111104054623557880e-01, 9.09088713343650656196e-02, -7.69187620504482999495e-02,
    6.66107313738753120669e-02, -5.83357013379057348645e-02, 4.97687799461593236017e-02,
    -3.65315727442169155270e-02, 1.62858201153657823623e-02,
)  # fmt: skip


def _ratio(t: Any) -> tuple[Any, Any]:
    return t * _polynomial(t, _PS), _polynomial(t, _QS)


def asin(x: Any) -> Any:
    """``StrictMath.asin``."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    p, q = _ratio(x * x)
    small = np.where(size < _at(0x3E400000), x, x + x * (p / q))
    t = (1.0 - size) * 0.5
    p, q = _ratio(t)
    s = np.sqrt(t)
    near_one = _HALF_PI - (2.0 * (s + s * (p / q)) - _HALF_PI_LO)
    w = _cut(s)
    c = (t - w * w) / (s + w)
    rest = 2.0 * s * (p / q) - (_HALF_PI_LO - 2.0 * c)
    y = _QUARTER_PI - (rest - (_QUARTER_PI - 2.0 * w))
    y = np.copysign(np.where(size >= _at(0x3FEF3333), near_one, y), x)
    y = np.where(size < 0.5, small, y)
    y = np.where(size == 1, x * _HALF_PI + x * _HALF_PI_LO, y)
    return np.where(size > 1, np.nan, y)


def acos(x: Any) -> Any:
    """``StrictMath.acos``."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    p, q = _ratio(x * x)
    small = _HALF_PI - (x - (_HALF_PI_LO - x * (p / q)))
    small = np.where(size < _at(0x3C600001), _HALF_PI + _HALF_PI_LO, small)
    z = (1.0 - size) * 0.5
    p, q = _ratio(z)
    s, r = np.sqrt(z), p / q
    below = _PI - 2.0 * (s + (r * s - _HALF_PI_LO))
    df = _cut(s)
    c = (z - df * df) / (s + df)
    y = np.where(x < 0, below, 2.0 * (df + (r * s + c)))
    y = np.where(size < 0.5, small, y)
    y = np.where(x == 1, 0.0, np.where(x == -1, _PI + 2.0 * _HALF_PI_LO, y))
    return np.where(size > 1, np.nan, y)


def atan(x: Any) -> Any:
    """``StrictMath.atan``."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    ranges = [size < 0.4375, size < 0.6875, size < 1.1875, size < 2.4375]
    r = np.select(
        ranges,
        [x, (2.0 * size - 1.0) / (2.0 + size), (size - 1.0) / (size + 1.0),
         (size - 1.5) / (1.0 + 1.5 * size)],
        -1.0 / size,
    )  # fmt: skip
    high = np.select(
        ranges, [0.0, 4.63647609000806093515e-01, _QUARTER_PI, 9.82793723247329054082e-01], _HALF_PI
    )
    low = np.select(
        ranges,
        [0.0, 2.26987774529616870924e-17, 3.06161699786838301793e-17, 1.39033110312309984516e-17],
        _HALF_PI_LO,
    )
    z = r * r
    w = z * z
    s1, s2 = z * _polynomial(w, _AT[0::2]), w * _polynomial(w, _AT[1::2])
    y = np.copysign(high - ((r * (s1 + s2) - low) - r), x)
    y = np.where(ranges[0], r - r * (s1 + s2), y)
    y = np.where(size < _at(0x3E200000), x, y)
    return np.where(size >= _at(0x44100000), np.copysign(_HALF_PI + _HALF_PI_LO, x), y)


def atan2(y: Any, x: Any) -> Any:
    """``StrictMath.atan2``."""
    y, x = np.broadcast_arrays(np.asarray(y, np.float64), np.asarray(x, np.float64))
    special = ~(np.isfinite(x) & np.isfinite(y)) | (x == 0) | (y == 0)
    y0, x0 = y, x
    y, x = np.where(special, 1.0, y), np.where(special, 1.0, x)
    k = (_high(np.abs(y)) - _high(np.abs(x))) >> 20
    z = atan(np.abs(y / x))
    z = np.where(k > 60, _HALF_PI + 0.5 * _PI_LO, np.where((x < 0) & (k < -60), 0.0, z))
    z = np.where(x > 0, z, _PI - (z - _PI_LO))
    z = np.where(x0 == 1, atan(np.abs(y)), z)
    return np.where(special, np.arctan2(y0, x0), np.copysign(z, y))
