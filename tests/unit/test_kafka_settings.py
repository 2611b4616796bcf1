"""Settings of Kafka's Java client, said to librdkafka."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError
from pyspark.sql.types import StringType, StructField, StructType

from engine.clients.kafka import client_settings, made_client, without_effect
from engine.clients.kafka_complaints import Complaints
from engine.errors import ConfigError
from engine.pipeline.described import describe_connector
from engine.pipeline.fingerprint import fingerprint
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.kafka.data_source import KafkaSink
from engine.sources.kafka.data_source import KafkaDataSource
from engine.sources.kafka.rows import SCHEMA
from engine.sources.kafka.topics import consumer_settings

PASSWORD = "c0rrect-h0rse"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def settings(**given: str) -> dict[str, str]:
    named = {f"kafka.{name.replace('__', '.')}": value for name, value in given.items()}
    found = client_settings("source kafka", {"kafka.bootstrap.servers": "b:9092", **named})
    assert found.pop("bootstrap.servers") == "b:9092"
    return found


def refused(**given: str) -> str:
    with pytest.raises(ConfigError) as error:
        settings(**given)
    return str(error.value)


def test_settings_of_the_same_name_are_passed_on() -> None:
    assert settings(client__id="me", security__protocol="SSL", fetch__min__bytes="7") == {
        "client.id": "me", "security.protocol": "SSL", "fetch.min.bytes": "7",
    }  # fmt: skip


def test_names_are_in_any_case_and_options_without_the_prefix_are_not_settings() -> None:
    given = {"KAFKA.Bootstrap.Servers": "b:9092", "subscribe": "orders"}
    assert client_settings("source kafka", given) == {"bootstrap.servers": "b:9092"}


def test_settings_of_another_name_are_translated() -> None:
    found = settings(fetch__max__wait__ms="50", send__buffer__bytes="9", buffer__memory="1048576")
    assert found == {
        "fetch.wait.max.ms": "50", "socket.send.buffer.bytes": "9",
        "queue.buffering.max.kbytes": "1024",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "meant"),
    [(r"x\\y", r"x\y"), (r"\\", "\\"), (r"\\\"", '\\"'), (r"a\$b", "a$b"), (r"a\tb", "a\tb"),
     (r"\101\60\4008", "A0 08")],
)  # fmt: skip
def test_a_backslash_in_a_login_is_read_as_java_reads_it(text: str, meant: str) -> None:
    found = settings(sasl__jaas__config=f'{PLAIN} required username="me" password="{text}";')
    assert found["sasl.password"] == meant


@pytest.mark.parametrize("module", [PLAIN, SCRAM])
def test_a_login_is_a_user_and_a_password(module: str) -> None:
    text = f'{module} required\n  username="me" password="a;b \\"c\\" d" ;'
    assert settings(sasl__jaas__config=text) == {
        "sasl.username": "me", "sasl.password": 'a;b "c" d',
    }  # fmt: skip


def test_a_login_with_tokens_fetches_them() -> None:
    text = f'{OAUTH} required clientId="me" clientSecret="{PASSWORD}" scope="orders";'
    found = settings(
        sasl__jaas__config=text,
        sasl__oauthbearer__token__endpoint__url="https://idp/token",
        sasl__login__callback__handler__class="org.apache.kafka.common.security.oauthbearer."
        "OAuthBearerLoginCallbackHandler",
    )
    assert found == {
        "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": PASSWORD, "sasl.oauthbearer.scope": "orders",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    }  # fmt: skip


def test_tokens_are_fetched_where_java_would_fetch_them() -> None:
    """KIP-1139: without a login module's text."""
    assert settings(
        sasl__mechanism="OAUTHBEARER", sasl__oauthbearer__token__endpoint__url="https://idp/token",
        sasl__oauthbearer__client__credentials__client__id="me",
        sasl__oauthbearer__client__credentials__client__secret=PASSWORD,
    ) == {
        "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": PASSWORD,
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", f"{PLAIN} required;", f'{PLAIN} required username="me";',
     'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;'],
)  # fmt: skip
def test_a_login_that_is_not_understood_is_refused(text: str) -> None:
    assert "kafka.sasl.jaas.config" in refused(sasl__jaas__config=text)


def test_a_refused_login_does_not_tell_the_password() -> None:
    said = refused(sasl__jaas__config=f'x.MyLogin required password="{PASSWORD}";')
    assert PASSWORD not in said
    assert "MyLogin" in said


def test_code_of_java_is_refused() -> None:
    handler = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    assert handler in refused(sasl__client__callback__handler__class=handler)


def test_what_steers_the_java_client_alone_is_left_out_and_named() -> None:
    assert settings(max__poll__records="5") == {}
    assert without_effect({"Kafka.max.poll.records": "5", "kafka.client.id": "x"}) == (
        "Kafka.max.poll.records",
    )


def test_certificates_are_pem_files() -> None:
    found = settings(
        ssl__truststore__type="PEM", ssl__truststore__location="/ca.pem",
        ssl__keystore__type="PEM", ssl__keystore__location="/me.pem",
    )  # fmt: skip
    assert found == {
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
    }


def test_a_java_keystore_is_refused() -> None:
    assert "kafka.ssl.ca.location" in refused(ssl__truststore__location="/trust.jks")
    assert "keystores of type 'JKS'" in refused(ssl__keystore__type="JKS")


def test_what_java_writes_is_what_the_client_takes() -> None:
    """By making a client: it refuses what it does not know."""
    text = f'{SCRAM} required username="me" password="x";'
    found = settings(
        security__protocol="SASL_PLAINTEXT", sasl__mechanism="SCRAM-SHA-512", group__id="g",
        sasl__jaas__config=text, ssl__endpoint__identification__algorithm="HTTPS",
        isolation__level="read_committed", reconnect__backoff__max__ms="500",
    )  # fmt: skip
    consumer = made_client(Consumer, {"bootstrap.servers": "127.0.0.1:1", **found}, "source kafka")
    consumer.close()


def test_damaged_records_are_seen_unless_the_user_does_not_want_it() -> None:
    assert consumer_settings({})["check.crcs"] == "true"
    assert consumer_settings({"check.crcs": "false"})["check.crcs"] == "false"


@pytest.mark.parametrize(
    ("given", "least", "most"),
    [({"reconnect__backoff__ms": "2000"}, "2000", "2000"),
     ({"reconnect__backoff__ms": "20000"}, "20000", "20000"),
     ({"reconnect__backoff__ms": "50"}, "50", "1000"),
     ({"reconnect__backoff__max__ms": "200"}, "200", "200"),
     ({"reconnect__backoff__max__ms": "5000"}, "500", "5000"),
     ({"reconnect__backoff__ms": "70", "reconnect__backoff__max__ms": "80"}, "70", "80")],
)  # fmt: skip
def test_a_pause_that_the_user_has_set_counts_alone(
    given: dict[str, str], least: str, most: str
) -> None:
    """Without the other one, of which ours is less or more than the user's."""
    own = consumer_settings(
        {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", **settings(**given)}
    )
    assert (own["reconnect.backoff.ms"], own["reconnect.backoff.max.ms"]) == (least, most)
    made_client(Consumer, own, "source kafka").close()


def test_a_pause_alone_is_taken_by_source_and_sink(caplog: pytest.LogCaptureFixture) -> None:
    for text in ("20000", "20"):
        name = "kafka.reconnect.backoff.ms" if text == "20000" else "kafka.reconnect.backoff.max.ms"
        given = {"kafka.bootstrap.servers": "b:9092", name: text}
        source = KafkaDataSource({**given, "subscribe": "orders"})
        source.continuousReader(source.schema())
        KafkaSink({**given, "topic": "orders"}).streamWriter(
            StructType([StructField("value", StringType())]), overwrite=False
        )
    assert not caplog.records


def test_a_pause_that_is_no_number_is_refused() -> None:
    given = {"bootstrap.servers": "b:9092", "group.id": "g", **settings(reconnect__backoff__ms="x")}
    with pytest.raises(ConfigError, match=r"reconnect\.backoff\.ms"):
        made_client(Consumer, consumer_settings(given), "source kafka")


def test_a_setting_that_the_client_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"source kafka: .*no\.such\.setting"):
        made_client(Consumer, {"group.id": "g", "no.such.setting": "1"}, "source kafka")


def test_no_secret_is_in_what_people_read_or_in_the_checkpoint() -> None:
    given = {
        "kafka.bootstrap.servers": "b:9092",
        "subscribe": "orders",
        "kafka.sasl.password": PASSWORD,
        "kafka.sasl.jaas.config": f'{PLAIN} required username="me" password="{PASSWORD}";',
        "kafka.sasl.oauthbearer.client.secret": PASSWORD,
        "kafka.sasl.oauthbearer.client.credentials.client.secret": PASSWORD,
        "kafka.ssl.key.password": PASSWORD,
        "kafka.ssl.keystore.password": PASSWORD,
        "kafka.ssl.key.pem": KEY,
        "kafka.ssl.keystore.key": KEY,
    }
    source = KafkaDataSource(given)
    reader = source.continuousReader(source.schema())
    pipeline = Pipeline(SourceRelation("kafka", given, SCHEMA), (), SCHEMA)
    kept = fingerprint(
        [(pipeline, reader.tuningOptions)], sink_format="noop", sink_options={}, sink_tuning=()
    )
    for text in (describe_connector("kafka", given), str(kept)):
        assert "orders" in text
        assert PASSWORD not in text
        assert "MIIE" not in text


# -- reasons --------------------------------------------------------------------------------------


def test_reasons_are_kept_until_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints()
    for text in ("refused (1 ms)", "refused (2 ms)"):
        complaints(KafkaError(KafkaError._TRANSPORT, text))
    complaints(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert str(complaints) == "refused (2 ms)"
    assert not complaints.is_for_people
    assert len(caplog.records) == 1
    complaints.clear()
    assert str(complaints) == ""
    assert complaints.since_s is None


def test_a_wrong_password_is_for_people() -> None:
    complaints = Complaints()
    complaints(KafkaError(KafkaError._AUTHENTICATION, f"wrong password={PASSWORD}"))
    assert complaints.is_for_people
    assert PASSWORD not in str(complaints)
