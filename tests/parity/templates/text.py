"""Texts and binaries."""

from __future__ import annotations

import pyarrow as pa

from tests.parity.columns import draw, one_of, text

_CARDS = ["79927398713", "79927398714", "8112189876", "", "0", "4111111111111111", "1a", " 0"]

COLUMNS = {
    "card": (pa.string(), draw(_CARDS, lambda rng: str(rng.randint(0, 10**12)))),
    "csvs": (pa.string(), draw(["a,b,c", ",", "", "a,,b"], text)),
    "b64": (
        pa.string(),
        one_of("U3Bhcms=", "AA==", "", "////", "QQ", "QUI", "Q Q==", "+/+/", "abcd"),
    ),
    "hexs": (pa.string(), one_of("", "0", "537061726B", "zz", "fF", "abc", "0x12", " 12")),
    "utf": (pa.binary(), one_of(b"abc", b"\xff", b"a\xc3\xa9", b"\xe2\x82", b"\xed\xa0\x80b", b"")),
}

TEMPLATES = {
    "upper": ["upper(s)", "ucase(s)"],
    "lower": ["lower(s)", "lcase(s)"],
    "initcap": ["initcap(s)"],
    "length": ["length(s)", "length(bin)", "char_length(s)", "character_length(s)", "len(s)"],
    "octet_length": ["octet_length(s)", "octet_length(bin)"],
    "bit_length": ["bit_length(s)", "bit_length(bin)"],
    "concat": ["concat(s, s2)", "concat(bin, bin2)", "concat(s, i)", "concat()"],
    "||": ["s || s2", "bin || bin2", "s || i || p"],
    "concat_ws": ["concat_ws(',', s, s2)", "concat_ws(c, s, i)", "concat_ws('-')"],
    "trim": ["trim(s)", "trim(BOTH 'ab ' FROM s)", "trim(c FROM s)"],
    "ltrim": ["ltrim(s)", "ltrim('ab', s)", "trim(LEADING c FROM s)"],
    "rtrim": ["rtrim(s)", "rtrim('ab', s)", "trim(TRAILING c FROM s)"],
    "btrim": ["btrim(s)", "btrim(s, 'ab ')", "btrim(s, c)", "btrim(dec)"],
    "lpad": [
        "lpad(s, 8, 'xy')",
        "lpad(s, n)",
        "lpad(s, n, c)",
        "lpad(bin, 4, X'01')",
        "lpad(bin, n)",
    ],
    "rpad": [
        "rpad(s, 8, 'xy')",
        "rpad(s, n)",
        "rpad(s, n, c)",
        "rpad(bin, 4, X'01')",
        "rpad(bin, n)",
    ],
    "repeat": ["repeat(s, 2)", "repeat(s, n)"],
    "space": ["space(n)", "length(space(n))"],
    "reverse": ["reverse(s)"],
    "replace": ["replace(s, 'a', 'bb')", "replace(s, c, s2)", "replace(s, 'a')", "replace(s, c)"],
    "translate": ["translate(s, 'abc', 'x')", "translate(s, c, s2)", "translate(s, 'é😀', 'e')"],
    "substring": [
        *("substring(s, 2, 3)", "substr(s, n, m)", "substring(s, -3)", "substring(bin, 2, 3)"),
        *("substring(s, i, i2)", "substr(s, n)", "substring(s FROM 2 FOR 2)", "substring(bin, n)"),
    ],
    "left": ["left(s, 3)", "left(s, n)", "left(bin, 2)"],
    "right": ["right(s, 3)", "right(s, n)", "right(s, i)"],
    "substring_index": ["substring_index(s, 'a', 1)", "substring_index(s, c, n)"],
    "instr": ["instr(s, 'a')", "instr(s, c)"],
    "locate": ["locate('a', s)", "locate(c, s, n)", "position(c, s)", "position(c IN s)"],
    "startswith": ["startswith(s, 'a')", "startswith(s, c)", "startswith(bin, X'61')"],
    "endswith": ["endswith(s, 'c')", "endswith(s, c)", "endswith(bin, bin2)"],
    "contains": ["contains(s, 'b')", "contains(s, c)", "contains(bin, X'ff')"],
    "ascii": ["ascii(s)"],
    "chr": ["chr(l)", "char(n * 20)"],
    "overlay": [
        *("overlay(s placing s2 from n)", "overlay(s, s2, 2, n)", "overlay(bin, bin2, n)"),
        "overlay(s, c, i, i2)",
    ],
    "split": ["split(s, 'a')", "split(s, '[a-c]')", "split(s, ',', n)", "split(s, '')"],
    "split_part": ["split_part(s, 'a', 1)", "split_part(s, c, n)", "split_part(s, c, 0)"],
    "find_in_set": ["find_in_set('a', csvs)", "find_in_set(c, csvs)"],
    "soundex": ["soundex(s)"],
    "levenshtein": ["levenshtein(s, s2)", "levenshtein(s, s2, n)", "levenshtein(s, s2, 3)"],
    "elt": ["elt(n, s, s2)", "elt(1, s)", "elt(n, bin, bin2)", "elt(m, s, c)"],
    "mask": [
        *(
            "mask(s)",
            "mask(s, 'Q')",
            "mask(s, 'Q', 'q', 'd', 'o')",
            "mask(s, null, null, null, '*')",
        ),
        "mask(s, 'Q', null)",
    ],
    "luhn_check": ["luhn_check(card)", "luhn_check(s)"],
    "quote": ["quote(s)"],
    "base64": ["base64(bin)", "base64(s)"],
    "unbase64": ["unbase64(b64)", "unbase64(base64(bin))"],
    "encode": [
        f"encode(s, '{name}')"
        for name in ("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16BE", "UTF-16LE", "UTF-16", "UTF-32")
    ],
    "decode": [
        *(
            "decode(encode(s, 'UTF-16'), 'UTF-16')",
            "decode(utf, 'UTF-8')",
            "decode(bin, 'ISO-8859-1')",
        ),
        *("decode(utf, 'US-ASCII')", "decode(bin, 'UTF-16BE')", "decode(bin, 'utf-16le')"),
        *("decode(i, 1, 'a', 2, 'b')", "decode(s, 'a', i, null, i2, n)", "decode(bin, 'UTF-32')"),
    ],
    "to_binary": [
        *(
            "to_binary(hexs)",
            "to_binary(hexs, 'hex')",
            "to_binary(s, 'utf-8')",
            "to_binary(s, 'UTF8')",
        ),
        "to_binary(b64, 'base64')",
    ],
    "try_to_binary": [
        *("try_to_binary(hexs)", "try_to_binary(b64, 'base64')", "try_to_binary(s, 'utf-8')"),
        "try_to_binary(s)",
    ],
    "is_valid_utf8": ["is_valid_utf8(s)", "is_valid_utf8(utf)"],
    "make_valid_utf8": ["make_valid_utf8(s)", "make_valid_utf8(utf)"],
    "validate_utf8": ["validate_utf8(s)", "validate_utf8(utf)"],
    "try_validate_utf8": ["try_validate_utf8(s)", "try_validate_utf8(utf)"],
    "format_number": [
        *(
            "format_number(x, 2)",
            "format_number(i, 0)",
            "format_number(l, 3)",
            "format_number(dec, 1)",
        ),
        *("format_number(x, n)", "format_number(float(x), 3)"),
        *("format_number(big, 4)", "format_number(h, 2)"),
    ],
    "format_string": [
        *("format_string('%s-%s', s, i)", "format_string('%d|%5d|%-5d|%05d', i, i, i, i)"),
        *(
            "format_string('%.2f %e', x, x)",
            "printf('%x %X %o', i, l, i)",
            "printf('%5s|%-5s|', s, s)",
        ),
        *(
            "printf('%%')",
            "printf('%2$s %1$s', s, s2)",
            "printf('%b|%b%n', i, t)",
            "printf('%,d', l)",
        ),
        *(
            "printf('%s %s %s', t, l, s)",
            "printf('%S', s)",
            "printf('%.3s', s)",
            "printf('%10.3f', x)",
        ),
    ],
    "to_char": [
        *("to_char(dt, 'yyyy-MM-dd')", "to_char(bin, 'hex')", "to_char(bin, 'base64')"),
        *("to_char(utf, 'utf-8')", "to_char(ts, 'HH:mm')"),
        *("to_char(dec, 'S99,999,999.99')", "to_char(i, '$999,999MI')", "to_char(n, '09PR')"),
    ],
    "collation": ["collation(s)", "collation('a')"],
}
