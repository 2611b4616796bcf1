"""Secrets do not get into what people read."""

from __future__ import annotations

import pickle

import pytest

from engine.errors import ContinuousError, TaskLostError
from engine.redaction.logs import HIDDEN, redact, shown


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
        ("kafka.ssl.keystore.key -> abc", "kafka.ssl.keystore.key -> ***"),
        ("{'catalog.header.X-Tenant': 'x y'}", "{'catalog.header.X-Tenant': ***}"),
        ("ssl.keystore.location=/x, catalog.headers=x",) * 2,
        ("{'Client-Secret': 'x'}", "{'Client-Secret': ***}"),
        ('{"password": "cut off here', '{"password": ***'),
        ("jdbc:pg://ann:x%2Fy@db:5432/t?u=1", "jdbc:pg://ann:***@db:5432/t?u=1"),
        ("amqp://u:p@ss@host/x", "amqp://u:***@host/x"),
        ("http://host:8080/?mail=a@b", "http://host:8080/?mail=a@b"),
        ("s3://my_conn@bucket/a:b@c", "s3://my_conn@bucket/a:b@c"),
        # a password that begins like a port, and what only looks like one
        ("postgresql://ann:12345/x@db/t", "postgresql://ann:***@db/t"),
        ("postgresql://ann:4711?x@db:5432/t", "postgresql://ann:***@db:5432/t"),
        ("redis://default:0123#abc@db", "redis://default:***@db"),
        ("redis://default:12345)@db/t", "redis://default:***@db/t"),
        ("'redis://default:1,2@db', 'a'", "'redis://default:***@db', 'a'"),
        ("redis://default:1;2@db: refused", "redis://default:***@db: refused"),
        *(
            (text, text)
            for text in (
                "https://host:8080/a@b/c",
                "webhdfs://host:9870/home/ann@corp.org/c",
                "jdbc:postgresql://db:5432/t?user=ann@corp.org",
                "jdbc:sqlserver://db:1433;user=ann@corp.org",
                "redis://h1:6379,h2:6379/0 of ann@corp.org",
                '{"a":"redis://h:6379/0","b":"ann@corp.org"}',
            )
        ),
        ("amqp://h1:5672,amqp://u:p@h2:5672", "amqp://h1:5672,amqp://u:***@h2:5672"),
        ("postgresql://u:a'bc\"d@h", "postgresql://u:***@h"),
        (r'"postgresql://u:a\"bc@h", 1', r'"postgresql://u:***@h", 1'),
        ('{"a":"redis://h:p","b":"c@d"}', '{"a":"redis://h:p","b":"c@d"}'),
        ('{"monkey": 5, "secretly" 6}', '{"monkey": 5, "secretly" 6}'),
        # Spark's own pattern: (?i)secret|password|token|access[.]?key
        ("spark.hadoop.fs.s3a.access.key=abc", "spark.hadoop.fs.s3a.access.key=***"),
        ("spark.ssl.keyPassword abc, sslSecret:abc", "spark.ssl.keyPassword abc, sslSecret:***"),
        # connection texts
        (
            "jdbc:sqlserver://h:1;user=a;password={x;y};e=1",
            "jdbc:sqlserver://h:1;user=a;password=***;e=1",
        ),
        ("jdbc:oracle:thin:scott/tiger@//db:1521/x", "jdbc:oracle:thin:scott/***@//db:1521/x"),
        ("mongodb+srv://u:p/w@h1,h2/db", "mongodb+srv://u:***@h1,h2/db"),
        ("host=db password='x y' user=a", "host=db password=*** user=a"),
        ("AccountName=me;AccountKey=ab+/c==;x=1", "AccountName=me;AccountKey=***;x=1"),
        ("https://b/x?X-Amz-Signature=ab12&n=2", "https://b/x?X-Amz-Signature=***&n=2"),
        ("https://b/x?sv=1&sig=a%2Bb&se=2", "https://b/x?sv=1&sig=***&se=2"),
        ("SharedAccessSignature=sr", "SharedAccessSignature=***"),
        ("sasl.jaas.config=org.x required", "sasl.jaas.config=*** required"),
        # code, as tracebacks show it
        ('connect(host, password="x y")', "connect(host, password=***)"),
        ('f("user", "a").option("password", "x")', 'f("user", "a").option("password", ***)'),
        ("{'secret': None, b'token': b'abc'}", "{'secret': ***, b'token': ***}"),
        (r"{\"password\": \"x\", \"n\": 1}", r"{\"password\": ***, \"n\": 1}"),
        ("curl --api-key abc --verbose", "curl --api-key *** --verbose"),
        ("<password>x y</password>", "<password>***</password>"),
        ("Map(url -> x, password -> y z, n -> 1)", "Map(url -> x, password -> *** z, n -> 1)"),
        ("fs.s3a.secret.key->abc, n", "fs.s3a.secret.key->***, n"),
        ("password := abc", "password := ***"),
        ('f("password", b"x y", rb\'x\')', "f(\"password\", ***, rb'x')"),
        ("connect(password=b'x y', n=1)", "connect(password=***, n=1)"),
        ("passwords: ['x', 'y'], n: 1", "passwords: ***, n: 1"),
        ("tokens=('x', 'y') n", "tokens=*** n"),
        # entries
        ('{"name":"password","value":"x y"}', '{"name":"password","value":***}'),
        (r"{\"key\": \"token\", \"value\": \"x\"}", r"{\"key\": \"token\", \"value\": ***}"),
        (
            '{"name": "Authorization", "value": "Basic dTpw"}',
            '{"name": "Authorization", "value": ***}',
        ),
        (
            "Entry(name=ssl.key.password, value=x, n=1)",
            "Entry(name=ssl.key.password, value=***, n=1)",
        ),
        ('<property name="password" value="x y"/>', '<property name="password" value=***/>'),
        (
            "<name>fs.s3a.secret.key</name>\n <value>x</value>",
            "<name>fs.s3a.secret.key</name>\n <value>***</value>",
        ),
        ("- name: API_TOKEN\n  value: x", "- name: API_TOKEN\n  value: ***"),
        ('{"name":"n","value":"x"}', '{"name":"n","value":"x"}'),
        # headers and known forms
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("{'authorization': 'Basic dTpw'}", "{'authorization': ***}"),
        ("{b'Authorization': b'Basic dTpw', 1: 2}", "{b'Authorization': ***, 1: 2}"),
        ("[(b'authorization', b'Basic dTpw'), 1]", "[(b'authorization', ***), 1]"),
        ("[(b'Authorization', b'Bearer abc123')]", "[(b'Authorization', ***)]"),
        ('{"Authorization": ["Basic dTpw"], "n": 1}', '{"Authorization": ***, "n": 1}'),
        ("('authorization', ['Basic dTpw', 'Basic dTpx']) n", "('authorization', ***) n"),
        ("{Authorization=[Basic dTpw], n=[1]}", "{Authorization=***, n=[1]}"),
        ("Map(Authorization -> Basic dTpw==, x->1)", "Map(Authorization -> ***, x->1)"),
        ("Map(Authorization -> Basic dTpw)", "Map(Authorization -> ***)"),
        ("Map(Authorization -> List(Basic dTpw), x->1)", "Map(Authorization -> ***, x->1)"),
        ("authorization => Basic dTpw", "authorization => ***"),
        ("authorization := Basic dTpw", "authorization := ***"),
        (r"{\"authorization\": \"Basic dTpw\", \"n\": 1}", r"{\"authorization\": ***, \"n\": 1}"),
        ("got 401 with Bearer abcdefgh12", "got 401 with Bearer ***"),
        ("the key AKIAIOSFODNN7EXAMPLE is off", "the key *** is off"),
        ("aws_secret_access_key = wJalr/x+y", "aws_secret_access_key = ***"),
        ("with ghp_" + "a" * 36, "with ***"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.abc-_ end", "jwt *** end"),
        (
            "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY----- b",
            "a -----BEGIN RSA PRIVATE KEY-----*** b",
        ),
        ("-----BEGIN PRIVATE KEY-----\\nMIIE", "-----BEGIN PRIVATE KEY-----***"),
        ("IE+/\nab==\n-----END PRIVATE KEY-----\nb", "***-----END PRIVATE KEY-----\nb"),
        # what is none
        ("passengers: 5, passed=3, design: x", "passengers: 5, passed=3, design: x"),
        ("http://db:5432/t, user ann@db", "http://db:5432/t, user ann@db"),
        ("primary key (id), partition key: 3", "primary key (id), partition key: 3"),
        ("password authentication failed for user", "password authentication failed for user"),
        ("a bearer of news", "a bearer of news"),
        # errors that speak of secrets
        *(
            (text, text)
            for text in (
                "/metadata: NoCredentialsError: Unable to locate credentials.",
                "botocore.exceptions.TokenRetrievalError: Error when retrieving",
                "PasswordException: wrong",
                "ExpiredToken: The provided token has expired",
                "InvalidToken: it is malformed",
            )
        ),
        ("AuthError: token=abc", "AuthError: token=***"),
        ("passworderror: abc", "passworderror: ***"),
        ("SecretError=abc, NoCredentialsError:abc", "SecretError=***, NoCredentialsError:***"),
    ],
)
def test_what_is_assigned_to_a_secret_is_hidden(text: str, clean: str) -> None:
    assert redact(text) == clean
    assert redact(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "token",
        "://a:",
        "://a:1/",
        "://a:1/@",
        "://a:b'",
        '"password',
        "token\\",
        "'token', '",
        "authorization: ",
        "authorization: [",
        "authorization -> List(",
        "authorization, a",
        "\\'",
        "--token ",
        "name=token ",
        "name: 'token', ",
        "'token', 'value' ",
        "token=['",
        "a\n",
        "a\n-----END PRIVATE KEY",
        "-----BEGIN PRIVATE KEY-----\n",
    ],
)
def test_nobody_can_write_a_text_that_takes_long(text: str) -> None:
    """A search that takes the square of the length would not end here."""
    long = text * (500_000 // len(text))
    assert HIDDEN in redact(f"token=x value {long}")
    redact(f"{long} private key")  # as some secrets are looked for at the beginning only


def test_a_record_is_cut_after_it_was_redacted() -> None:
    assert shown("x" * 300) == "x" * 200 + "..."
    assert "hidden" not in shown("y" * 190 + ' "password": "hidden"')


def test_no_part_of_an_error_tells_a_secret() -> None:
    """Whoever shows the message alone, or the hint, needs to know nothing of secrets."""
    error = TaskLostError("password=hunter2 is wrong.", hint="Not jdbc:x://u:hunter2@h/db.")
    error.message = f"Lost. {error.message} Again: token=hunter2"
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(one, ContinuousError)
        for text in (one.message, one.hint, str(one), repr(one), *map(str, one.args)):
            assert "hunter2" not in str(text)
        assert one.message == "Lost. password=*** is wrong. Again: token=***"
        assert one.hint == "Not jdbc:x://u:***@h/db."


def test_what_is_no_utf8_is_shown_by_its_escape() -> None:
    """As the path of a file may be; logs, pages and files take nothing but UTF-8."""
    error = TaskLostError("cannot read /in/caf\udce9.log \U0001f600")
    assert str(error) == "cannot read /in/caf\\udce9.log \U0001f600"
    assert redact(str(error)) == str(error)
