"""``healthy.py URL [TEXT]``: exits with 0 if the page answers with 200 and has the text in it.

The health check of the containers; the image has no curl.
"""

from __future__ import annotations

import sys
import urllib.request

TIMEOUT_S = 5.0


def main(url: str, text: str = "") -> int:
    """Look once; say on standard error what is wrong."""
    # Whatever proxy the environment names, the page is one of this network.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            body = answer.read().decode(errors="replace")
    except OSError as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1
    if text not in body:
        print(f"{url} does not say {text!r}: {body[:500]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
