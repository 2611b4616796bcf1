"""Functions of DOUBLE with the very bits of Java's ``StrictMath``, on arrays.

Java defines them by the algorithms of the C library fdlibm 5.3, whose results are not always the
nearest DOUBLE: ``exp(1.0)`` is 2.7182818284590455. NumPy's own functions differ in the last bits.
Where fdlibm branches, all branches are computed and one is chosen.

Source: fdlibm 5.3; ``java.lang.FdLibm``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_LN2_HI: Final = 6.93147180369123816490e-01
_LN2_LO: Final = 1.90821492927058770002e-10
_INV_LN2: Final = 1.44269504088896338700e00
_EXP_MAX: Final = 7.09782712893383973096e02
_EXP_MIN: Final = -7.45133219101941108420e02
_P: Final = (
    1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05,
    -1.65339022054652515390e-06, 4.13813679705723846039e-08,
)  # fmt: skip
_LG: Final = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip
_Q: Final = (
    1.0, -3.33333333333331316428e-02, 1.58730158725481460165e-03, -7.93650757867487942473e-05,
    4.00821782732936239552e-06, -2.01099218183624371326e-07,
)  # fmt: skip


def _bits(x: Any) -> Any:
    return np.ascontiguousarray(x, np.float64).view(np.int64)


def _double(bits: Any) -> Any:
    return np.ascontiguousarray(bits, np.int64).view(np.float64)


def _high(x: Any) -> Any:
    """The upper 32 bits."""
    return _bits(x) >> 32


def _cut(x: Any) -> Any:
    """Without the lower 32 bits."""
    return _double(_bits(x) & ~0xFFFFFFFF)


def _at(high: int) -> float:
    """The number with these upper 32 bits."""
    return float(_double(np.array([high << 32]))[0])


def _scaled(x: Any, exponent: Any) -> Any:
    """Times a power of two, in the bits of the exponent."""
    return _double(_bits(x) + (np.asarray(exponent).astype(np.int64) << 52))


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """By Horner's scheme, from the constant on."""
    result = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = coefficient + x * result
    return result


def exp(x: Any) -> Any:
    """``StrictMath.exp``."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    k = np.trunc(_INV_LN2 * x + np.copysign(0.5, x))
    k = np.where(size < _at(0x3FF0A2B2), np.copysign(1.0, x), k)
    k = np.where(size < _at(0x3FD62E43), 0.0, k)
    inside = np.isfinite(x) & (x <= _EXP_MAX) & (x >= _EXP_MIN)
    k = np.where(inside, k, 0.0)
    high, low = x - k * _LN2_HI, k * _LN2_LO
    r = np.where(k == 0, x, high - low)
    t = r * r
    c = r - t * _polynomial(t, _P)
    y = np.where(
        k == 0, 1.0 - ((r * c) / (c - 2.0) - r), 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    )
    tiny = k < -1021
    y = _scaled(y, np.where(tiny, k + 1000, k))
    y = np.where(tiny, y * 9.33263618503218878990e-302, y)
    y = np.where(size < _at(0x3E300000), 1.0 + x, y)
    y = np.where(x > _EXP_MAX, np.inf, np.where(x < _EXP_MIN, 0.0, y))
    return np.where(np.isnan(x), x, y)


def _normal(x: Any) -> tuple[Any, Any]:
    """Subnormal numbers times 2 to the power of 54, and the exponent that this takes away."""
    small = x < 2.2250738585072014e-308
    return np.where(small, x * 18014398509481984.0, x), np.where(small, -54, 0)


def log(x: Any) -> Any:
    """``StrictMath.log``."""
    original = np.asarray(x, np.float64)
    x = np.where(np.isfinite(original) & (original > 0), original, 1.0)
    x, k = _normal(x)
    high = _high(x)
    k = k + (high >> 20) - 1023
    high = high & 0xFFFFF
    carry = (high + 0x95F64) & 0x100000
    x = _double((_bits(x) & 0xFFFFFFFF) | ((high | (carry ^ 0x3FF00000)) << 32))
    dk = (k + (carry >> 20)).astype(np.float64)
    f = x - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    r = z * _polynomial(w, _LG[0::2]) + w * _polynomial(w, _LG[1::2])
    half = 0.5 * f * f
    middle = ((high - 0x6147A) | (0x6B851 - high)) > 0
    y = np.where(
        middle,
        np.where(
            dk == 0,
            f - (half - s * (half + r)),
            dk * _LN2_HI - ((half - (s * (half + r) + dk * _LN2_LO)) - f),
        ),
        np.where(dk == 0, f - s * (f - r), dk * _LN2_HI - ((s * (f - r) - dk * _LN2_LO) - f)),
    )
    r = f * f * (0.5 - 0.33333333333333333 * f)
    near_one = np.where(dk == 0, f - r, dk * _LN2_HI - ((r - dk * _LN2_LO) - f))
    near_one = np.where(f == 0, dk * _LN2_HI + dk * _LN2_LO, near_one)
    y = np.where(((2 + high) & 0xFFFFF) < 3, near_one, y)
    y = np.where(original == np.inf, original, y)
    y = np.where(original == 0, -np.inf, y)
    return np.where(np.isnan(original) | (original < 0), np.nan, y)


def log10(x: Any) -> Any:
    """``StrictMath.log10``."""
    original = np.asarray(x, np.float64)
    x = np.where(np.isfinite(original) & (original > 0), original, 1.0)
    x, k = _normal(x)
    k = k + (_high(x) >> 20) - 1023
    below = (k < 0).astype(np.int64)
    x = _double((_bits(x) & 0xFFFFFFFFFFFFF) | ((0x3FF - below) << 52))
    y = (k + below).astype(np.float64)
    z = y * 3.69423907715893078616e-13 + 4.34294481903251816668e-01 * log(x)
    z = z + y * 3.01029995663611771306e-01
    z = np.where(original == np.inf, original, z)
    z = np.where(original == 0, -np.inf, z)
    return np.where(np.isnan(original) | (original < 0), np.nan, z)


def log1p(x: Any) -> Any:
    """``StrictMath.log1p``."""
    original = np.asarray(x, np.float64)
    x = np.where(np.isfinite(original) & (original > -1), original, 0.0)
    direct = (x > -_at(0x3FD2BEC4)) & (x < _at(0x3FDA827A))
    huge = x >= _at(0x43400000)
    u = np.where(direct, 1.0, np.where(huge, x, 1.0 + x))
    high = _high(u)
    k = (high >> 20) - 1023
    c = np.where(k > 0, 1.0 - (u - x), x - (u - 1.0)) / u
    c = np.where(huge, 0.0, c)
    high = high & 0xFFFFF
    lower = high < 0x6A09E
    bits = (_bits(u) & 0xFFFFFFFF) | ((high | np.where(lower, 0x3FF00000, 0x3FE00000)) << 32)
    k = np.where(lower, k, k + 1)
    high = np.where(lower, high, (0x00100000 - high) >> 2)
    f = np.where(direct, x, _double(bits) - 1.0)
    dk = np.where(direct, 0, k).astype(np.float64)
    c, high = np.where(direct, 0.0, c), np.where(direct, 1, high)
    half = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    r = z * _polynomial(z, _LG)
    low = dk * _LN2_LO + c
    y = np.where(
        dk == 0, f - (half - s * (half + r)), dk * _LN2_HI - ((half - (s * (half + r) + low)) - f)
    )
    r = half * (1.0 - 0.66666666666666666 * f)
    flat = np.where(dk == 0, f - r, dk * _LN2_HI - ((r - low) - f))
    flat = np.where(f == 0, dk * _LN2_HI + (c + dk * _LN2_LO), flat)
    y = np.where(high == 0, flat, y)
    size = np.abs(x)
    y = np.where(size < _at(0x3E200000), x - x * x * 0.5, y)
    y = np.where(size < _at(0x3C900000), x, y)
    y = np.where(original == np.inf, original, y)
    y = np.where(original == -1, -np.inf, y)
    return np.where(np.isnan(original) | (original < -1), np.nan, y)


def expm1(x: Any) -> Any:
    """``StrictMath.expm1``."""
    original = np.asarray(x, np.float64)
    outside = ~np.isfinite(original) | (original > _EXP_MAX) | (original <= -_at(0x4043687A))
    x = np.where(outside, 0.0, original)
    size = np.abs(x)
    k = np.trunc(_INV_LN2 * x + np.copysign(0.5, x))
    k = np.where(size < _at(0x3FF0A2B2), np.copysign(1.0, x), k)
    k = np.where(size < _at(0x3FD62E43), 0.0, k)
    high, low = x - k * _LN2_HI, k * _LN2_LO
    r = np.where(k == 0, x, high - low)
    c = (high - r) - low
    half = 0.5 * r
    square = r * half
    r1 = _polynomial(square, _Q)
    t = 3.0 - r1 * half
    e = square * ((r1 - t) / (6.0 - r * t))
    plain = r - (r * e - square)
    e = (r * (e - c) - c) - square
    whole = k.astype(np.int64)
    far = _scaled(1.0 - (e - r), whole) - 1.0
    near = _double((0x3FF00000 - (0x200000 >> np.clip(whole, 0, 31))) << 32)
    near = _scaled(near - (e - r), whole)
    middle = _scaled((r - (e + _double((0x3FF - whole) << 52))) + 1.0, whole)
    y = np.where(k < 20, near, middle)
    y = np.where((k <= -2) | (k > 56), far, y)
    y = np.where(k == 1, np.where(r < -0.25, -2.0 * (e - (r + 0.5)), 1.0 + 2.0 * (r - e)), y)
    y = np.where(k == -1, 0.5 * (r - e) - 0.5, y)
    y = np.where(k == 0, plain, y)
    y = np.where(size < _at(0x3C900000), x, y)
    y = np.where(original > _EXP_MAX, np.inf, y)
    y = np.where(original <= -_at(0x4043687A), -1.0, y)
    return np.where(np.isnan(original), original, y)


_HYPERBOLIC_MAX: Final = 710.4758600739439


def sinh(x: Any) -> Any:
    """``StrictMath.sinh``."""
    x = np.asarray(x, np.float64)
    size, half = np.abs(x), np.copysign(0.5, x)
    t = expm1(np.minimum(size, 30.0))
    y = np.where(size < 1, half * (2.0 * t - t * t / (t + 1.0)), half * (t + t / (t + 1.0)))
    y = np.where(size >= 22, half * exp(size), y)
    root = exp(0.5 * size)
    y = np.where(size >= _at(0x40862E42), (half * root) * root, y)
    y = np.where((size < _at(0x3E300000)) | ~np.isfinite(x), x, y)
    return np.where((size > _HYPERBOLIC_MAX), np.copysign(np.inf, x), y)


def cosh(x: Any) -> Any:
    """``StrictMath.cosh``."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    t = expm1(np.minimum(size, 1.0))
    w = 1.0 + t
    small = np.where(size < _at(0x3C800000), w, 1.0 + (t * t) / (w + w))
    power = exp(size)
    y = np.where(size < 22, 0.5 * power + 0.5 / power, 0.5 * power)
    root = exp(0.5 * size)
    y = np.where(size >= _at(0x40862E42), (0.5 * root) * root, y)
    y = np.where(size < _at(0x3FD62E43), small, y)
    return np.where(size > _HYPERBOLIC_MAX, np.inf, np.where(np.isnan(x), x, y))


def tanh(x: Any) -> Any:
    """``StrictMath.tanh``."""
    x = np.asarray(x, np.float64)
    size = np.minimum(np.abs(x), 30.0)
    t = expm1(np.where(size >= 1, 2.0 * size, -2.0 * size))
    z = np.where(size >= 1, 1.0 - 2.0 / (t + 2.0), -t / (t + 2.0))
    z = np.copysign(np.where(size >= 22, 1.0, z), x)
    return np.where(size < _at(0x3C800000), x * (1.0 + x), z)


def cbrt(x: Any) -> Any:
    """``StrictMath.cbrt``."""
    x = np.asarray(x, np.float64)
    finite = np.isfinite(x) & (x != 0)
    size = np.where(finite, np.abs(x), 1.0)
    small = size < 2.2250738585072014e-308
    large = np.where(small, size * 18014398509481984.0, size)
    third = _high(large) // 3
    t = _double(
        np.where(small, ((third + 696219795) << 32) | (_bits(large) & 0xFFFFFFFF),
                 (third + 715094163) << 32)
    )  # fmt: skip
    r = t * t / size
    s = 5.42857142857142815906e-01 + r * t
    t = t * (
        3.57142857142857150787e-01
        + 1.60714285714285720630e00
        / (s + 1.41428571428571436819e00 + -7.05306122448979611050e-01 / s)
    )
    t = _double((_high(t) + 1) << 32)
    s = t * t
    r = size / s
    r = (r - t) / (t + t + r)
    return np.where(finite, np.copysign(t + t * r, x), x)


def asinh(x: Any) -> Any:
    """Spark's ``asinh``, by ``StrictMath``."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    square = size * size
    y = log1p(size + square / (1.0 + np.sqrt(1.0 + square)))
    y = np.where(size > 2.0, log(2.0 * size + 1.0 / (np.sqrt(square + 1.0) + size)), y)
    y = np.where(size > _ASINH_LARGE, log(size) + float(log(np.array([2.0]))[0]), y)
    y = np.where(size < 1 / _ASINH_LARGE, size, y)
    return np.where(np.isnan(x), x, np.copysign(y, x))


_ASINH_LARGE: Final = 2.0**28


def acosh(x: Any) -> Any:
    """Spark's ``acosh``, by ``StrictMath``."""
    x = np.asarray(x, np.float64)
    t = x - 1.0
    y = log1p(t + np.sqrt(2.0 * t + t * t))
    y = np.where(x > 2.0, log(2.0 * x - 1.0 / (x + np.sqrt(x * x - 1.0))), y)
    y = np.where(x > _ASINH_LARGE, log(x) + float(log(np.array([2.0]))[0]), y)
    return np.where(x < 1, np.nan, y)
