"""Functions of numbers: roots, angles, rounding, bits and bases."""

from __future__ import annotations

_FLOATING = ["cbrt", "exp", "expm1", "ln", "log10", "log1p", "log2", "sqrt", "rint", "signum"]
_FLOATING += ["sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "sinh", "cosh"]
_FLOATING += ["tanh", "asinh", "acosh", "atanh", "degrees", "radians"]

ULPS = {"sin": 1, "cos": 1, "tan": 1, "cot": 2, "sec": 2, "csc": 2}
"""Java leaves these to the processor."""
NEAR = dict.fromkeys(
    ("exp", "expm1", "ln", "log1p", "cbrt", "pow", "hypot", "asin", "acos", "atan"), 1
)
"""NumPy computes these."""

TEMPLATES = {
    **{name: [f"{name}({column})" for column in ("d", "x", "i")] for name in _FLOATING},
    "atan2": ["atan2(d, d2)", "atan2(x, d)", "atan2(i, i2)"],
    "pow": ["pow(d, d2)", "power(x, n)", "pow(i, n)", "pow(x, x * 7)"],
    "log": ["log(d, d2)", "log(x)", "log(2, l)"],
    "hypot": ["hypot(d, d2)", "hypot(x, i)"],
    "pi": ["pi()", "pi() * x"],
    "e": ["e()", "e() * x"],
    "round": [
        *("round(d)", "round(d, 2)", "round(x, 3)", "round(f, 1)", "round(i, -1)", "round(l, -3)"),
        *("round(b, -1)", "round(h, -2)", "round(dec, 1)", "round(dec, -2)", "round(big, 2)"),
        "round(p, -2)",
    ],
    "bround": ["bround(d, 1)", "bround(x, 2)", "bround(i, -1)", "bround(dec, 1)", "bround(f, 1)"],
    "ceil": [
        *("ceil(d)", "ceil(x)", "ceil(f)", "ceil(l)", "ceil(i)", "ceil(dec)", "ceil(d, 1)"),
        *("ceil(dec, 1)", "ceil(dec, -1)", "ceil(i, -1)"),
    ],
    "floor": [
        *("floor(d)", "floor(x)", "floor(f)", "floor(l)", "floor(dec)", "floor(d, 2)"),
        *("floor(dec, 1)", "floor(big)", "floor(i, -2)"),
    ],
    "sign": ["sign(d)", "sign(i)", "sign(dec)"],
    "factorial": ["factorial(n)", "factorial(i)", "factorial(m * 5)"],
    "width_bucket": [
        *("width_bucket(x, -3, 3, 10)", "width_bucket(d, d2, x, l)", "width_bucket(x, 3, -3, n)"),
        "width_bucket(x, x, 1, 5)",
    ],
    "bin": ["bin(l)", "bin(i)"],
    "hex": ["hex(l)", "hex(s)", "hex(bin)", "hex(i)"],
    "unhex": ["unhex(hex(bin))", "unhex(s)", "unhex(hex(l))"],
    "conv": ["conv(l, 10, 16)", "conv(s, 16, 10)", "conv(i, 10, -36)", "conv(s, 36, 2)"],
    "&": ["b & b2", "h & h2", "i & i2", "l & l2", "i & l"],
    "|": ["b | b2", "h | h2", "i | i2", "l | l2"],
    "^": ["b ^ b2", "h ^ h2", "i ^ i2", "l ^ l2"],
    "~": ["~ b", "~ h", "~ i", "~ l"],
    "shiftleft": ["shiftleft(i, n)", "shiftleft(l, i)", "i << 3", "l << n"],
    "shiftright": ["shiftright(i, n)", "shiftright(l, i)", "i >> 3"],
    "shiftrightunsigned": ["shiftrightunsigned(i, n)", "shiftrightunsigned(l, i)", "l >>> 3"],
    "bit_count": ["bit_count(b)", "bit_count(h)", "bit_count(i)", "bit_count(l)", "bit_count(t)"],
    "bit_get": ["bit_get(l, 3)", "bit_get(i, n)", "getbit(b, m)", "bit_get(h, n)"],
    "bitmap_bit_position": ["bitmap_bit_position(l)", "bitmap_bit_position(i)"],
    "bitmap_bucket_number": ["bitmap_bucket_number(l)", "bitmap_bucket_number(i)"],
    "bitmap_count": ["bitmap_count(bin)"],
}
