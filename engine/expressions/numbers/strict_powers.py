"""``pow`` and ``hypot`` with the very bits of Java's ``StrictMath``.

Source: fdlibm 5.3; ``java.lang.FdLibm``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.expressions.numbers.strict_math import _P, _at, _bits, _cut, _double, _high, _polynomial

_L: Final = (
    5.99999999999994648725e-01, 4.28571428578550184252e-01, 3.33333329818377432918e-01,
    2.72728123808534006489e-01, 2.30660745775561754067e-01, 2.06975017800338417784e-01,
)  # fmt: skip
_CP, _CP_H, _CP_L = (
    9.61796693925975554329e-01, 9.61796700954437255859e-01, -7.02846165095275826516e-09,
)  # fmt: skip
_LG2, _LG2_H, _LG2_L = (
    6.93147180559945286227e-01, 6.93147182464599609375e-01, -1.90465429995776804525e-09,
)  # fmt: skip
_INV_LN2, _INV_LN2_H, _INV_LN2_L = (
    1.44269504088896338700e00, 1.44269502162933349609e00, 1.92596299112661746887e-08,
)  # fmt: skip
_OVERFLOW: Final = 8.0085662595372944372e-0017


def pow(x: Any, y: Any) -> Any:
    """``StrictMath.pow``."""
    x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
    # 1 to the power of something undefined or infinite is 1 in C, and undefined in Java.
    undefined = (np.abs(x) == 1) & ~np.isfinite(y)
    special = np.where(undefined, np.nan, np.power(x, y))
    special = np.where(y == 2.0, x * x, special)
    special = np.where((y == 0.5) & (x >= -1.7976931348623157e308), np.sqrt(x + 0.0), special)
    special = np.where(y == -1.0, 1.0 / x, special)
    is_plain = np.isfinite(x) & np.isfinite(y) & (x != 0) & (np.abs(x) != 1) & (y != 0)
    is_plain &= ~np.isin(y, (1.0, -1.0, 2.0, 0.5)) & ((x > 0) | (y == np.floor(y)))
    size = np.where(is_plain, np.abs(x), 1.5)
    power = np.where(is_plain, y, 1.5)
    odd = (x < 0) & (np.abs(y) < 2.0**53) & (np.fmod(y, 2.0) != 0)
    result = _power(size, power)
    return np.where(is_plain, np.where(odd, -result, result), special)


def _power(x: Any, y: Any) -> Any:
    """Of a positive number that is not 1."""
    t1, t2 = _log2(x)
    huge = np.abs(y) > _at(0x41E00000) * (1 + 2.0**-20 - 2.0**-52)
    near = x - 1.0
    w = (near * near) * (0.5 - near * (0.3333333333333333333333 - near * 0.25))
    u, v = _INV_LN2_H * near, near * _INV_LN2_L - w * _INV_LN2
    cut = _cut(u + v)
    t1, t2 = np.where(huge, cut, t1), np.where(huge, v - (cut - u), t2)
    y1 = _cut(y)
    low, high = (y - y1) * t1 + y * t2, y1 * t1
    z = low + high
    too_large = (z > 1024) | ((z == 1024) & (low + _OVERFLOW > z - high))
    too_small = (z < -1075) | ((z == -1075) & (low <= z - high))
    outside = too_large | too_small
    z, low, high = (np.where(outside, 0.0, each) for each in (z, low, high))
    n = np.where(np.abs(z) >= _at(0x3FE00001), np.copysign(np.floor(np.abs(z) + 0.5), z), 0.0)
    high = high - n
    result = np.ldexp(_exp2(low, high), n.astype(np.int64))
    result = np.where(too_large, np.inf, np.where(too_small, 0.0, result))
    far = huge & ((x < _at(0x3FEFFFFF)) | (x > 1 + 2.0**-20 - 2.0**-52))
    return np.where(far, np.where((x > 1) == (y > 0), np.inf, 0.0), result)


def _log2(x: Any) -> tuple[Any, Any]:
    """In two parts."""
    small = x < 2.2250738585072014e-308
    x = np.where(small, x * 9007199254740992.0, x)
    bits = _high(x)
    n = (bits >> 20) - 0x3FF - np.where(small, 53, 0)
    j = bits & 0xFFFFF
    middle = (j > 0x3988E) & (j < 0xBB67A)
    above = j >= 0xBB67A
    n = n + above
    high = (j | 0x3FF00000) - np.where(above, 0x00100000, 0)
    x = _double((_bits(x) & 0xFFFFFFFF) | (high << 32))
    base = np.where(middle, 1.5, 1.0)
    u, v = x - base, 1.0 / (x + base)
    ss = u * v
    s_h = _cut(ss)
    t_h = _double((((high >> 1) | 0x20000000) + 0x00080000 + np.where(middle, 1 << 18, 0)) << 32)
    t_l = x - (t_h - base)
    s_l = v * ((u - s_h * t_h) - s_h * t_l)
    s2 = ss * ss
    r = s2 * s2 * _polynomial(s2, _L)
    r = r + s_l * (s_h + ss)
    s2 = s_h * s_h
    t_h = _cut(3.0 + s2 + r)
    t_l = r - ((t_h - 3.0) - s2)
    u, v = s_h * t_h, s_l * t_h + t_l * ss
    p_h = _cut(u + v)
    p_l = v - (p_h - u)
    dp_h = np.where(middle, 5.84962487220764160156e-01, 0.0)
    dp_l = np.where(middle, 1.35003920212974897128e-08, 0.0)
    z_h, z_l = _CP_H * p_h, _CP_L * p_h + p_l * _CP + dp_l
    t = n.astype(np.float64)
    t1 = _cut(((z_h + z_l) + dp_h) + t)
    return t1, z_l - (((t1 - t) - dp_h) - z_h)


def _exp2(low: Any, high: Any) -> Any:
    t = _cut(low + high)
    u = t * _LG2_H
    v = (low - (t - high)) * _LG2 + t * _LG2_L
    z = u + v
    w = v - (z - u)
    t = z * z
    t1 = z - t * _polynomial(t, _P)
    r = (z * t1) / (t1 - 2.0) - (w + z * w)
    return 1.0 - (r - z)


def hypot(x: Any, y: Any) -> Any:
    """``StrictMath.hypot``."""
    x, y = np.broadcast_arrays(np.abs(np.asarray(x, np.float64)), np.abs(np.asarray(y, np.float64)))
    swapped = _high(y) > _high(x)
    a, b = np.where(swapped, y, x), np.where(swapped, x, y)
    special = ~(np.isfinite(a) & np.isfinite(b)) | (_high(a) - _high(b) > 0x3C00000)
    a0, b0 = a, b
    a, b = np.where(special, 1.0, a), np.where(special, 1.0, b)
    down = a >= _at(0x5F300001)
    scale = np.where(down, 2.0**-600, 1.0)
    subnormal = ~down & (b < 2.2250738585072014e-308)
    scale = np.where(~down & (b < _at(0x20B00000)), 2.0**600, scale)
    scale = np.where(subnormal, 2.0**1022, scale)
    a, b = a * scale, b * scale
    w = a - b
    t1 = _cut(a)
    apart = np.sqrt(t1 * t1 - (b * (-b) - (a - t1) * (a + t1)))
    double, y1 = a + a, _cut(b)
    t1 = _cut(double)
    close = np.sqrt(t1 * y1 - (w * (-w) - (t1 * (b - y1) + (double - t1) * b)))
    result = np.where(w > b, apart, close) / scale
    result = np.where(special, a0 + b0, np.where(b == 0, a0, result))
    return np.where(np.isinf(a0) | np.isinf(b0), np.inf, result)
