"""Secrets do not get into what people read."""

from __future__ import annotations

import pytest

from engine.base.redaction import redact, shown


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('{"user": "ann", "password": "x y"}', '{"user": "ann", "password": ***}'),
        ('{"password": "a\\"b", "n": 1}', '{"password": ***, "n": 1}'),
        ('{"apiKey":12,"n":1}', '{"apiKey":***,"n":1}'),
        ("token=abc&n=1", "token=***&n=1"),
        ("db.access_key = abc, n", "db.access_key = ***, n"),
        ("fs.azure.account.key.me.net=abc", "fs.azure.account.key.me.net=***"),
        ("fs.s3a.encryption.key: abc", "fs.s3a.encryption.key: ***"),
        ("{'Client-Secret': 'x'}", "{'Client-Secret': ***}"),
        ('{"password": "cut off here', '{"password": ***'),
        ("jdbc:pg://ann:x%2Fy@db:5432/t?u=1", "jdbc:pg://ann:***@db:5432/t?u=1"),
        ("amqp://u:p@ss@host/x", "amqp://u:***@host/x"),
        ("http://host:8080/?mail=a@b", "http://host:8080/?mail=a@b"),
        ("s3://my_conn@bucket/a:b@c", "s3://my_conn@bucket/a:b@c"),
        ('{"monkey": 5, "secretly" 6}', '{"monkey": 5, "secretly" 6}'),
    ],
)
def test_what_is_assigned_to_a_secret_is_hidden(text: str, clean: str) -> None:
    assert redact(text) == clean


def test_a_record_is_cut_after_it_was_redacted() -> None:
    assert shown("x" * 300) == "x" * 200 + "..."
    assert "hidden" not in shown("y" * 190 + ' "password": "hidden"')
