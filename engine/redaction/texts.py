"""What may not be read, told by how it looks: passwords, keys and tokens in any text.

Texts of others (a driver's error, a traceback, a URL) are not ours to trust. What is hidden:

- what is assigned to a name like a secret's: ``"password": "x"``, ``token=x``, ``secret -> x``,
  ``("secret", "x")``, ``--api-key x``, ``<password>x</password>``, ``name="password" value="x"``;
  Spark's own pattern for settings (``secret``, ``password``, ``token``, ``access.key``) is among
  the names;
- the password of a URL, ``//user:x@host``, and of an Oracle JDBC URL, ``user/x@``;
- ``Authorization`` headers and bearer tokens;
- keys that are known by their form: AWS, GitHub, Slack, Google, JSON web tokens, PEM blocks.

Whatever :func:`redact` does not know it does not hide: secrets belong where no text can show them.
This file imports nothing, so that everything can use it; :mod:`engine.redaction.logs` has what logs
and records need.
"""

from __future__ import annotations

import re

HIDDEN = "***"
SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase|code|key)|pass(?![a-z])|pwd|secret|token|credential|authorization"
    r"|cookie|jaas|shared[._-]?access|(?<![a-z])(?:sas|sig|auth)(?![a-z])|signature"
    r"|(?:api|access|account|private|encryption|shared|signing|master|client|storage|keystore)"
    r"[._-]?key|catalog\.header\.",
    re.IGNORECASE,
)
"""Names of fields and options whose values nobody may read."""

PRIVATE_KEY = r"-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----"
"""Where a private key begins; it goes over several lines, up to an ``-----END``."""

# Lengths are bounded: whoever writes a text must not decide how long it is looked at.
_NAME = rf"[\w.-]*(?:{SECRET_NAME.pattern})[\w.-]{{0,64}}"
_QUOTE = r"""(?:\\{0,8}["'])"""
_PREFIX = "[bruf]{0,2}"  # of a text in Python
# Quoted, if need be by quotes that are quoted themselves, as in JSON within JSON; a list up to its
# end; or up to the next separator. Not beyond the line: a quote that is cut off would take the rest
# of a log with it.
_VALUE = (
    rf'{_PREFIX}"(?:[^"\\\n]|\\.)*"?'
    rf"|{_PREFIX}'(?:[^'\\\n]|\\.)*'?"
    r'|(?P<escaped>\\{1,8}["\'])(?:(?!(?P=escaped)).)*(?:(?P=escaped))?'
    r"|\{[^}\n]*\}?|\[[^\]\n]*\]?|\([^)\n]*\)?"
    r"|(?:[^\s,;}&)\]<>/]|/(?!>))+"
)
_LISTED = r"\w{0,32}(?:\[[^\]\n]*\]?|\([^)\n]*\)?)"
"""Values of one header: as Python, Java or, ``List(x)``, Scala show them."""
_ASSIGNED = "[=-]>|:?=|:"
_NO_ENTRY = rf"(?!{_QUOTE}value{_QUOTE}\s*[:=])"
"""Of the entry ``"name": "password", "value": "x"`` a pair would hide a word, not the secret."""
_ERROR = r"[\w.]{0,128}(?:(?-i:Error|Exception)|(?-i:(?:Expired|Invalid)Token)): "
"""A class of errors, or a code of AWS's, before what it says: ``NoCredentialsError: Unable``."""
_BEHIND = rf"\g<kept>{HIDDEN}"
_URL_USER = r"""(?P<kept>://[^/\s:@'"]{0,256}:)"""
# Without a way back into it, which would take long; Python 3.10 has no other word for that.
_UNQUOTED = r"""(?=(?P<unquoted>[^\s'"]{1,512}))(?P=unquoted)"""
_PORT = r"\d{1,5}[/?#,;)\]]"


_WORDS = (
    *("pass", "pwd", "secret", "token", "credential", "auth", "cookie", "jaas"),
    *("access", "key", "sas", "sig", "catalog.header"),
)
"""Every secret's name has one of them. Looking for words is cheap, and most texts have none."""


class _Rule:
    """:param words: a text without all of them has nothing for this rule; lower case.
    :param instead: what a secret is replaced by.
    """

    def __init__(self, words: tuple[str, ...], pattern: str, instead: str = _BEHIND) -> None:
        self.words = words
        self.pattern = re.compile(pattern, re.IGNORECASE)
        self.instead = instead


_RULES = (
    _Rule(
        ("private key",),
        rf"(?P<kept>{PRIVATE_KEY})(?!\*)(?s:.*?)(?:-----END [A-Z ]*-----|\Z)",
    ),
    # The end of a key: the log that the text is from was cut within it.
    _Rule(
        ("private key",),
        r"\A(?:[\w+/=]*\r?\n)+(?P<kept>-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----)",
        rf"{HIDDEN}\g<kept>",
    ),
    # Up to the last @: a password may hold any character; a quote, if the text goes on behind it.
    # Digits up to a slash are a port.
    _Rule(
        ("://",),
        rf"""{_URL_USER}(?!{_PORT})(?:{_UNQUOTED}(?:["']\w[^\s'"]{{0,512}}){{1,3}}@"""
        r"""|[^\s'"]{1,512}@)""",
        rf"{_BEHIND}@",
    ),
    # They begin a password where a host is behind the last @, but for what has paths and parameters
    # with an @ in them.
    _Rule(
        ("://",),
        rf"""(?<!http)(?<!https)(?<!hdfs){_URL_USER}(?={_PORT})"""
        r"""(?![^\s'"@]{0,512}(?:[?;&][\w.-]{1,64}=|://))"""
        r"""[^\s'"]{1,512}@(?=[\w.-]{1,256}(?::\d{1,5})?(?:[/\s'",:;)\]}]|$))""",
        rf"{_BEHIND}@",
    ),
    _Rule(
        ("jdbc:oracle",),
        r"""(?P<kept>jdbc:oracle:\w+:[^/\s@'"]{1,256}/)[^\s'"]{1,512}@""",
        rf"{_BEHIND}@",
    ),
    _Rule(("bearer",), r"\b(?P<kept>Bearer\s+)[\w.~+/=-]{8,}"),
    _Rule(("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", HIDDEN),
    _Rule(("gh", "glpat"), r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,})", HIDDEN),
    _Rule(("xox", "aiza"), r"\b(?:xox[a-z]-[\w-]{10,}|AIza[\w-]{35})", HIDDEN),
    _Rule(("eyj",), r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", HIDDEN),
    # An entry: {"name": "password", "value": "x"}, name="password" value="x", and Hadoop's XML.
    _Rule(
        ("value",),
        rf"(?P<kept>\b(?:name|key){_QUOTE}?\s*[:=>]\s*{_QUOTE}?{_NAME}{_QUOTE}?\s*"
        rf"(?:,\s*|</(?:name|key)>\s*<)?{_QUOTE}?value{_QUOTE}?\s*[:=>]\s*)(?:{_VALUE})",
    ),
    _Rule(
        ("authorization",),
        rf"(?P<kept>authorization{_QUOTE}?\s*(?:{_ASSIGNED}|,)\s*{_NO_ENTRY})"
        rf"(?:{_LISTED}|(?P<quoted>{_PREFIX}{_QUOTE})?(?:[a-z][\w-]*\s+)?[^\s,;'\"}}\])\\]+)",
        rf"\g<kept>\g<quoted>{HIDDEN}",
    ),
    # A pair, as in code: option("password", "x").
    _Rule(
        _WORDS,
        rf"(?P<kept>(?P<name>{_QUOTE}){_NAME}(?P=name)\s*,\s*{_NO_ENTRY})"
        rf"{_PREFIX}(?P<value>{_QUOTE})(?:(?!(?P=value)|\n).)*(?:(?P=value))?",
    ),
    _Rule(_WORDS, rf"(?P<kept><{_NAME}>)[^<]+"),
    _Rule(_WORDS, rf"(?<![\w-])(?P<kept>--{_NAME}\s+)[^\s-]\S*"),
    _Rule(
        _WORDS,
        rf"(?<![\w.-])(?P<kept>(?!{_ERROR}){_QUOTE}?{_NAME}{_QUOTE}?\s*(?:{_ASSIGNED})\s*)"
        rf"(?:{_VALUE})",
    ),
)


def encodable(text: str) -> str:
    """What is no UTF-8, as a file's name may be, by its escape: nobody else can write it down."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def redact(text: str) -> str:
    """The text with everything hidden that looks like a secret, and :func:`encodable`. Doing it
    again changes nothing."""
    text = encodable(text)
    lowered = text.lower()
    for rule in _RULES:
        if any(word in lowered for word in rule.words):
            text = rule.pattern.sub(rule.instead, text)
    return text
