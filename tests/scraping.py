"""Metrics as those get them who scrape them."""

from __future__ import annotations

import urllib.request
from typing import Any

from prometheus_client.parser import text_string_to_metric_families


class Scrape:
    """The exposition of an endpoint, by the client's own parser.

    :ivar kinds: the type of each metric by its name, without ``_total``.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        host, port = address
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as answer:
            self.text: str = answer.read().decode()
        families = list(text_string_to_metric_families(self.text))
        self.kinds = {family.name: family.type for family in families}
        samples = [sample for family in families for sample in family.samples]
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value for sample in samples
        }
        assert len(self.samples) == len(samples), "a series is there twice"

    def value(self, name: str, query: str, **labels: Any) -> float | None:
        """Of one series; None if there is none."""
        wanted = {"query": query, **{key: str(each) for key, each in labels.items()}}
        return self.samples.get((name, frozenset(wanted.items())))

    @property
    def names(self) -> set[str]:
        """Of all series."""
        return {name for name, _ in self.samples}
