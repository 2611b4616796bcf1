from __future__ import annotations

import pytest

from engine.base.connector_options import Options
from engine.base.options import EngineOptions
from engine.base.reasons import Reasons
from engine.errors import ConfigError


def test_values_are_taken_in_any_case_of_the_name() -> None:
    options = Options("sink x", {"ROWSperSecond": " 7 ", "header": "TRUE", "Path": "/a b"})
    assert options.integer("rowsPerSecond", 1, minimum=1) == 7
    assert options.boolean("header", False) is True
    assert options.required("path", example="/data") == "/a b"
    assert options.integer("other", 3, minimum=1) == 3
    options.refuse_others()


@pytest.mark.parametrize("text", ["", "x", "1.5", "0", "-1", "11", "1e3"])
def test_a_number_out_of_bounds_names_option_value_and_bounds(text: str) -> None:
    options = Options("source x", {"limit": text})
    with pytest.raises(ConfigError) as error:
        options.integer("limit", 1, minimum=1, maximum=10)
    for part in ("limit", "source x", repr(text), "from 1 up to 10"):
        assert part in str(error.value)


@pytest.mark.parametrize("text", ["yes", "1", ""])
def test_a_boolean_is_true_or_false(text: str) -> None:
    with pytest.raises(ConfigError, match="one of true, false"):
        Options("x", {"flag": text}).boolean("flag", False)


@pytest.mark.parametrize(("text", "expected"), [("\\t", "\t"), (";", ";")])
def test_a_character(text: str, expected: str) -> None:
    assert Options("x", {"sep": text}).character("sep", ",") == expected


@pytest.mark.parametrize("text", ["", "ab", "\n", "é"])
def test_no_character(text: str) -> None:
    with pytest.raises(ConfigError, match="a single ASCII character"):
        Options("x", {"sep": text}).character("sep", ",")


def test_a_missing_option_says_how_to_set_it() -> None:
    with pytest.raises(ConfigError, match=r'option\("path", "/data"\)'):
        Options("x", {"path": "  "}).required("path", example="/data")


def test_unknown_options_are_refused_with_the_nearest_name() -> None:
    options = Options("source rate", {"rowPerSecond": "1"})
    options.integer("rowsPerSecond", 1, minimum=1)
    with pytest.raises(ConfigError, match=r"no option 'rowpersecond'.*Did you mean rowsPerSecond"):
        options.refuse_others()


def test_options_are_listed_once_however_often_they_were_taken() -> None:
    options = Options("source tail", {"fileformt": "json"})
    for name in ("delimiter", "header", "delimiter", "fileFormat"):
        options.text(name)
    with pytest.raises(ConfigError, match="There are delimiter, fileFormat, header") as caught:
        options.refuse_others()
    assert "Did you mean fileFormat?" in str(caught.value)


def test_the_nearest_name_may_be_the_engines_at_a_sink_alone() -> None:
    for owner, is_told in (("sink parquet", True), ("source tail", False)):
        options = Options(owner, {"minEpochsToRetian": "7"})
        options.text("path")
        with pytest.raises(ConfigError, match="no option 'minepochstoretian'") as caught:
            options.refuse_others()
        assert ("Did you mean minEpochsToRetain?" in str(caught.value)) is is_told
    with pytest.raises(ConfigError, match="Did you mean retrySinkFor"):
        Options("sink noop", {"retrySinksFor": "7"}).refuse_others()


def test_what_the_engine_and_spark_hand_in_is_not_refused() -> None:
    given = {"__x": "1", "checkpointLocation": "/c", "queryName": "q"}
    Options("sink noop", given).refuse_others()
    with pytest.raises(ConfigError, match="has no options"):
        Options("sink noop", {"path": "/x"}).refuse_others()


def test_an_interval_of_the_engine() -> None:
    own, rest = EngineOptions.take(
        {"retrySinkFor": "90 minutes", "SLOTTIMEOUT": "2 minutes 500 ms"}
    )
    assert (own.retry_sink_for_ms, own.slot_timeout_ms, rest) == (5_400_000, 120_500, {})
    assert EngineOptions().slot_timeout_ms is None
    with pytest.raises(ConfigError, match="Option retrySourceFor: 'soon' cannot be used"):
        EngineOptions.take({"retrySourceFor": "soon"})


@pytest.mark.parametrize("culprit", ["Infrastructure", "Source", "Sink"])
def test_a_count_of_restarts_is_refused_and_names_what_to_set(culprit: str) -> None:
    with pytest.raises(
        ConfigError, match=rf'no option restarts{culprit}.*"retry{culprit}For", "1 ho'
    ):
        EngineOptions.take({f"restarts{culprit}": "5"})
    assert EngineOptions.take({"restartsUser": "5"})[0].restarts_user == 5


def test_the_engine_takes_its_own() -> None:
    given = {"ALLOWchangedQuery": "True", "minEpochsToRetain": "7", "path": "/out"}
    own, rest = EngineOptions.take(given)
    assert (own.allow_changed_query, own.min_epochs_to_retain) == (True, 7)
    assert rest == {"path": "/out"}
    assert EngineOptions().allow_changed_query is False
    with pytest.raises(ConfigError, match="allowChangedQuery: 'yes' is none of true, false"):
        EngineOptions.take({"allowChangedQuery": "yes"})


@pytest.mark.parametrize(
    ("interval_ms", "epochs"), [(0, 300), (20, 15_000), (1_000, 300), (60_000, 10)]
)
def test_a_late_task_may_hold_up_five_minutes_by_default(interval_ms: int, epochs: int) -> None:
    assert EngineOptions().backlog_max(interval_ms) == epochs
    assert EngineOptions(epoch_backlog_max=7).backlog_max(interval_ms) == 7


def test_ports_are_one_or_a_range() -> None:
    for text, ports in [("0", (0, 0)), ("7100", (7100, 7100)), ("7100 - 7199", (7100, 7199))]:
        assert EngineOptions.take({"coordinatorPort": text})[0].ports == ports


@pytest.mark.parametrize("text", ["", "x", "-1", "0-9", "70000", "7199-7100", "1-2-3", "7100-"])
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="coordinatorPort"):
        EngineOptions.take({"coordinatorPort": text})


def test_where_metrics_are_served() -> None:
    assert EngineOptions().metrics_ports is None
    options, _ = EngineOptions.take({"METRICSPORT": "9464-9499", "metricsHost": "0.0.0.0"})
    assert options.metrics_ports == (9464, 9499)
    assert options.metrics_host == "0.0.0.0"


@pytest.mark.parametrize("port", ["x", "0-9", "70000", "9499-9464"])
def test_no_port_for_metrics(port: str) -> None:
    with pytest.raises(ConfigError, match="metricsPort"):
        EngineOptions.take({"metricsPort": port})


def test_an_address_for_metrics_needs_a_port() -> None:
    with pytest.raises(ConfigError, match="there is no metricsPort"):
        EngineOptions.take({"metricsHost": "0.0.0.0"})


def test_all_wrong_options_of_the_engine_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        EngineOptions.take(
            {"minEpochsToRetain": "x", "onBadRecord": "maybe", "refreshInterval": "soon"}
        )
    told = str(caught.value)
    assert "for 3 reasons" in told
    assert all(name in told for name in ("minEpochsToRetain", "onBadRecord", "refreshInterval"))


@pytest.mark.parametrize(
    "wrong", [{"onBadRecord": "maybe", "deadLetterPath": "/l"}, {"onLateRecord": "dead-letter"}]
)
def test_a_wrong_option_is_one_reason_and_leaves_the_others_as_they_are(
    wrong: dict[str, str],
) -> None:
    reasons = Reasons()
    given = {**wrong, "reducers": "2", "path": "/x"}
    own, rest = EngineOptions.take(given, reasons)
    assert len(reasons.errors) == 1
    assert own == EngineOptions(reducers=2)
    assert rest == {"path": "/x"}
