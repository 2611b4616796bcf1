"""``python -m tests.parity.java_regexes --patterns N --seed S``; exits with 1 if some differ."""

from __future__ import annotations

import argparse
import sys

from tests.parity.java_regexes.comparing import compare
from tests.spark.conftest import start

parser = argparse.ArgumentParser(prog="python -m tests.parity.java_regexes")
parser.add_argument("--patterns", type=int, default=20_000, help="how many")
parser.add_argument("--seed", type=int, default=1, help="gives all patterns")
options = parser.parse_args()
session = start()
outcome = compare(session._jvm, options.seed, options.patterns)
session.stop()
print(*outcome.differences, dict(outcome.counts), sep="\n")
sys.exit(1 if outcome.differences else 0)
