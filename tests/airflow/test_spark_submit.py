"""The exact command line for each kind of cluster, and where secrets go instead."""

from __future__ import annotations

import base64
import json
import stat
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_continuous.deploy import cluster
from airflow_provider_continuous.deploy.cluster import Cluster
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.plan import APPLICATION, Plan, make_plan
from airflow_provider_continuous.deploy.shipping import zip_modules
from airflow_provider_continuous.deploy.submission import Submission
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.errors import ConfigError

SECRET = "correct-horse-battery"
HOSTS = {
    "standalone": {"host": "spark://master", "port": 7077},
    "yarn": {"host": "yarn"},
    "kubernetes": {"host": "k8s://https://api:6443"},
}


def connection(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(content))


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Spark provider asks for the Kubernetes provider only to delete pods later."""
    from airflow.providers.apache.spark.hooks import spark_submit as theirs

    monkeypatch.setattr(theirs, "kube_client", SimpleNamespace(), raising=False)


@pytest.fixture
def submission(spec: dict[str, Any], tmp_path: Path) -> Submission:
    spec["conf"] = {"spark.master": "local[2]", "spark.executor.cores": 2, "spark.a.flag": True}
    spec["conf"]["spark.hadoop.fs.s3a.secret.key"] = SECRET
    return Submission(spec, tmp_path / "logs", variables={"TOKEN": SECRET, "REGION": "eu"})


def plan(
    monkeypatch: pytest.MonkeyPatch, submission: Submission, manager: str, mode: str, **given: Any
) -> Plan:
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)  # a session of another test sets it
    extra = {"deploy-mode": mode, **given.pop("extra", {})}
    connection(monkeypatch, "a_cluster", conn_type="spark", **HOSTS[manager], extra=extra)
    options = SubmitOptions.read(given)
    return make_plan(submission, Cluster.find("a_cluster", options), options)


def expected(submission: Submission, plan: Plan, template: str) -> list[str]:
    """The words of a template, with the paths of the submission's files."""
    (engine,) = (submission.log_dir / "sent").glob("engine-*.zip") if "ENGINE" in template else "-"
    paths = {
        "SUBMIT": plan.command[0],
        "SPEC": str(submission.path(".spec.json")),
        "SPEC_NAME": submission.path(".spec.json").name,
        "PROPERTIES": str(submission.path(".properties")),
        "ENGINE": str(engine),
        "APPLICATION": str(APPLICATION),
        "JAR": str(plan.command[-1]),
    }
    return [paths.get(word, word) for word in template.split()]


CONF = "--conf spark.executor.cores=2 --conf spark.a.flag=true"


@pytest.mark.parametrize(
    ("manager", "master"),
    [
        ("standalone", "spark://master:7077"),
        ("yarn", "yarn"),
        ("kubernetes", "k8s://https://api:6443"),
    ],
)
def test_client_mode(
    monkeypatch: pytest.MonkeyPatch,
    kubernetes: None,
    submission: Submission,
    manager: str,
    master: str,
) -> None:
    made = plan(monkeypatch, submission, manager, "client")

    assert made.command == expected(
        submission,
        made,
        f"SUBMIT --load-spark-defaults --master {master} {CONF} --properties-file PROPERTIES "
        "--py-files ENGINE --name numbers --deploy-mode client APPLICATION --forget SPEC",
    )
    assert made.environment["TOKEN"] == SECRET
    assert made.environment["PYSPARK_DRIVER_PYTHON"] == sys.executable


@pytest.mark.parametrize(
    ("manager", "master", "extra", "wait", "more"),
    [
        ("yarn", "yarn", {"queue": "streams"}, "spark.yarn.submit", "--queue streams"),
        (
            "kubernetes",
            "k8s://https://api:6443",
            {"namespace": "streams"},
            "spark.kubernetes.submission",
            "--conf spark.kubernetes.namespace=streams",
        ),
    ],
)
def test_cluster_mode(
    monkeypatch: pytest.MonkeyPatch,
    kubernetes: None,
    submission: Submission,
    manager: str,
    master: str,
    extra: dict[str, str],
    wait: str,
    more: str,
) -> None:
    made = plan(monkeypatch, submission, manager, "cluster", extra=extra)

    queue, namespace = (more, "") if manager == "yarn" else ("", more)
    assert made.command == expected(
        submission,
        made,
        f"SUBMIT --load-spark-defaults --master {master} {CONF} "
        f"--conf {wait}.waitAppCompletion=false {namespace} --properties-file PROPERTIES "
        f"--files SPEC --py-files ENGINE --name numbers {queue} --deploy-mode cluster "
        "APPLICATION SPEC_NAME",
    )
    prefix = {"yarn": "spark.yarn.appMasterEnv", "kubernetes": "spark.kubernetes.driverEnv"}
    properties = submission.path(".properties").read_text()
    assert f"{prefix[manager]}.TOKEN={SECRET}" in properties
    assert f"{prefix[manager]}.REGION=eu" in properties
    assert "PYSPARK_DRIVER_PYTHON" not in made.environment


def test_cluster_mode_on_a_standalone_cluster(
    monkeypatch: pytest.MonkeyPatch, submission: Submission
) -> None:
    """Spark itself refuses Python programs there: Spark's own class runs it on the worker."""
    monkeypatch.setenv("SOMETHING_OF_THE_WORKER", "private")
    made = plan(
        monkeypatch, submission, "standalone", "cluster", driver_memory="1g", executor_memory="2g"
    )

    (jar,) = [word for word in made.command if word.endswith(".jar")]
    assert made.command == expected(
        submission,
        made,
        "SUBMIT --master spark://master:7077 "
        "--conf spark.standalone.submit.waitAppCompletion=false "
        "--conf spark.master.rest.enabled=false --driver-memory 1g --name numbers "
        f"--class org.apache.spark.deploy.SparkSubmit --deploy-mode cluster {jar} "
        f"--master spark://master:7077 {CONF} --executor-memory 2g --driver-memory 1g "
        "--name numbers --deploy-mode client APPLICATION env:CONTINUOUS_SPECIFICATION",
    )
    document = json.loads(made.environment["CONTINUOUS_SPECIFICATION"])
    assert document["source"] == submission.document["source"]
    assert document["conf"] == {"spark.hadoop.fs.s3a.secret.key": SECRET}
    assert made.environment["TOKEN"] == SECRET
    assert "SOMETHING_OF_THE_WORKER" not in made.environment
    assert not submission.log_dir.exists()


@pytest.mark.parametrize(
    ("name", "file"), [("Größe", "Gr-e"), ("--forget", "forget"), ("数", "query"), ("a.b", "a.b")]
)
def test_java_may_know_ascii_alone(
    monkeypatch: pytest.MonkeyPatch, submission: Submission, name: str, file: str
) -> None:
    """So it is where no locale is set: it writes ? for any other letter, also of a file's name."""
    submission.document["name"] = name  # type: ignore[index]

    sent = plan(monkeypatch, submission, "yarn", "cluster").command[-1]
    by_environment = plan(monkeypatch, submission, "standalone", "cluster").environment

    assert sent.startswith(f"{file}-2")
    assert by_environment["CONTINUOUS_SPECIFICATION"].isascii()
    assert json.loads(by_environment["CONTINUOUS_SPECIFICATION"])["name"] == name


@pytest.mark.parametrize("manager", ["standalone", "yarn", "kubernetes"])
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_no_secret_on_the_command_line_or_in_readable_files(
    monkeypatch: pytest.MonkeyPatch,
    kubernetes: None,
    submission: Submission,
    capfd: pytest.CaptureFixture[str],
    manager: str,
    mode: str,
) -> None:
    keytab = base64.b64encode(SECRET.encode()).decode()
    extra = {"keytab": keytab, "principal": "streams@REALM"} if manager == "yarn" else {}
    made = plan(monkeypatch, submission, manager, mode, extra=extra)

    assert SECRET not in " ".join(made.command)
    assert not any(SECRET in text for text in capfd.readouterr())
    for path in submission.log_dir.glob("*.*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    if manager == "yarn":
        written = Path(made.command[made.command.index("--keytab") + 1])
        assert written.read_text() == SECRET
        assert written.parent == submission.log_dir / "sent"
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
        assert made.command[made.command.index("--principal") + 1] == "streams@REALM"


PRIVATE = f"https://reader:{SECRET}@packages.example/spark"


@pytest.mark.parametrize("manager", ["standalone", "yarn", "kubernetes"])
@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("repositories", "spark.jars.repositories"),
        ("jars", "spark.jars"),
        ("files", "spark.files"),
        ("py_files", "spark.submit.pyFiles"),
        ("archives", "spark.archives"),
    ],
)
def test_a_password_within_an_address(
    monkeypatch: pytest.MonkeyPatch,
    kubernetes: None,
    submission: Submission,
    manager: str,
    option: str,
    key: str,
) -> None:
    given: dict[str, Any] = {option: ["a.zip", PRIVATE]}
    mode = "client" if manager == "standalone" else "cluster"

    made = plan(monkeypatch, submission, manager, mode, **given)

    assert SECRET not in " ".join(made.command)
    (line,) = [
        line
        for line in submission.path(".properties").read_text().splitlines()
        if line.startswith(f"{key}=")
    ]
    written = line.partition("=")[2].encode().decode("unicode_escape")
    assert written.endswith(f"a.zip,{PRIVATE}")
    assert f"--{option.replace('_', '-')}" not in made.command


@pytest.mark.parametrize(
    ("mode", "option"), [("cluster", "jars"), ("cluster", "application"), ("client", "application")]
)
def test_a_password_that_only_a_command_line_could_take(
    monkeypatch: pytest.MonkeyPatch, submission: Submission, mode: str, option: str
) -> None:
    with pytest.raises(ConfigError, match=rf"spark_submit\.{option} ") as caught:
        plan(monkeypatch, submission, "standalone", mode, **{option: PRIVATE})

    assert SECRET not in str(caught.value)


def test_what_the_specification_still_says(
    monkeypatch: pytest.MonkeyPatch, submission: Submission
) -> None:
    """Its settings have become the submission's own."""
    plan(monkeypatch, submission, "standalone", "client")

    written = json.loads(submission.path(".spec.json").read_text())

    assert written == {key: value for key, value in submission.document.items() if key != "conf"}


def test_options_reach_the_command(monkeypatch: pytest.MonkeyPatch, submission: Submission) -> None:
    made = plan(
        monkeypatch,
        submission,
        "yarn",
        "cluster",
        application="local:///opt/application.py",
        ship_engine=False,
        py_files=["a.zip", "b.py"],
        files="lookup.csv",
        jars="kafka.jar",
        packages="org.example:thing:1",
        executor_memory="2g",
        driver_memory="1g",
        executor_cores=3,
        num_executors=4,
        yarn_queue="own",
        conf={"spark.memory.fraction": 0.5},
    )

    command = " ".join(made.command)
    for part in (
        "--py-files a.zip,b.py ",
        f"--files {submission.path('.spec.json')},lookup.csv ",
        "--jars kafka.jar ",
        "--packages org.example:thing:1 ",
        "--num-executors 4 --executor-cores 3 --executor-memory 2g --driver-memory 1g ",
        "--queue own ",
        "--conf spark.memory.fraction=0.5 ",
        f"local:///opt/application.py {submission.path('.spec.json').name}",
    ):
        assert part in command + " "


@pytest.mark.parametrize(
    ("manager", "ignored"),
    [
        ("standalone", ["num_executors", "yarn_queue"]),
        ("yarn", ["total_executor_cores"]),
        ("kubernetes", ["total_executor_cores", "yarn_queue"]),
    ],
)
def test_what_spark_does_not_look_at_is_told(
    monkeypatch: pytest.MonkeyPatch,
    kubernetes: None,
    submission: Submission,
    caplog: pytest.LogCaptureFixture,
    manager: str,
    ignored: list[str],
) -> None:
    given = {"num_executors": 2, "total_executor_cores": 4, "yarn_queue": "streams"}

    plan(monkeypatch, submission, manager, "client", **given)

    said = [each.getMessage() for each in caplog.records]  # a formatter alone makes a message
    told = [text for text in said if "does not look at" in text]
    assert [text.partition(":")[0] for text in told] == [f"spark_submit.{name}" for name in ignored]
    assert all(f"on {manager}" in text for text in told)


def test_without_secrets_there_is_no_properties_file(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], tmp_path: Path
) -> None:
    made = plan(monkeypatch, Submission(spec, tmp_path / "logs"), "yarn", "client")

    assert made.private_files == ()
    assert "--properties-file" not in made.command
    assert "--load-spark-defaults" not in made.command


def test_folders_of_code_are_sent_along(
    monkeypatch: pytest.MonkeyPatch, submission: Submission, tmp_path: Path
) -> None:
    package = tmp_path / "lib" / "orders"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("ANSWER = 42")
    (package / "data.bin").write_text("no code")
    submission.document["python_path"] = [str(tmp_path / "lib")]  # type: ignore[index]

    made = plan(monkeypatch, submission, "yarn", "client")

    engine, lib = made.command[made.command.index("--py-files") + 1].split(",")
    assert zipfile.ZipFile(lib).namelist() == ["orders/", "orders/__init__.py"]
    assert "engine/commands/command_line.py" in zipfile.ZipFile(engine).namelist()
    assert "python_path" not in json.loads(submission.path(".spec.json").read_text())
    before = Path(lib).stat().st_mtime_ns
    assert zip_modules(tmp_path / "lib", Path(lib).parent) == Path(lib)
    assert Path(lib).stat().st_mtime_ns == before
    (package / "__init__.py").write_text("ANSWER = 43")
    assert zip_modules(tmp_path / "lib", Path(lib).parent) != Path(lib)


# -- what is missing --------------------------------------------------------------------------


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ContinuousQueryHook:
    extra = {"deploy-mode": "spark-submit", "spark-conn-id": "a_cluster"}
    connection(monkeypatch, "continuous_default", conn_type="continuous", extra=extra)
    return ContinuousQueryHook()


def test_the_button_says_what_would_be_done(
    hook: ContinuousQueryHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection(monkeypatch, "a_cluster", conn_type="spark", **HOSTS["yarn"])

    done, message = hook.test_connection()

    assert done
    assert "spark-submit submits queries to yarn, in client mode" in message


def test_the_connection_of_the_cluster_must_exist(hook: ContinuousQueryHook) -> None:
    done, message = hook.test_connection()

    assert not done
    assert "no connection 'a_cluster'" in message


def test_the_program_must_be_there(
    hook: ContinuousQueryHook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connection(monkeypatch, "a_cluster", conn_type="spark", **HOSTS["yarn"])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cluster.sys, "executable", str(tmp_path / "python"))

    done, message = hook.test_connection()

    assert not done
    assert "spark-submit was found neither on the PATH nor in" in message
    assert "[spark-submit]" in message, "pyspark alone would lie below the provider's client"


def test_kubernetes_needs_its_provider(
    hook: ContinuousQueryHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection(monkeypatch, "a_cluster", conn_type="spark", **HOSTS["kubernetes"])
    # As where it is not installed: the Spark provider has tried to import it then.
    hook_of_spark = "airflow.providers.apache.spark.hooks.spark_submit"
    monkeypatch.setattr(f"{hook_of_spark}.kube_client", None, raising=False)

    done, message = hook.test_connection()

    assert not done
    assert "apache-airflow-providers-cncf-kubernetes" in message


def test_what_cannot_be_submitted_leaves_no_secrets_behind(
    hook: ContinuousQueryHook,
    monkeypatch: pytest.MonkeyPatch,
    submission: Submission,
    tmp_path: Path,
) -> None:
    connection(monkeypatch, "a_cluster", conn_type="spark", **HOSTS["yarn"])
    document = hook.specification(submission.document)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cluster.sys, "executable", str(tmp_path / "python"))

    with pytest.raises(ConfigError):
        hook.submit(document)

    left = Path(document["checkpoint_location"] + ".logs").rglob("*")
    assert not any(SECRET in path.read_text("latin-1") for path in left if path.is_file())


def test_python_path_does_not_reach_a_driver_on_a_standalone_cluster(
    monkeypatch: pytest.MonkeyPatch, submission: Submission
) -> None:
    submission.document["python_path"] = ["/lib"]  # type: ignore[index]

    with pytest.raises(ConfigError, match="python_path cannot be sent"):
        plan(monkeypatch, submission, "standalone", "cluster")


def test_threads_have_no_cluster(
    hook: ContinuousQueryHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"deploy-mode": "cluster"}
    connection(monkeypatch, "a_cluster", conn_type="spark", host="local[2]", extra=extra)

    assert "local[2] in deploy mode 'cluster'" in hook.test_connection()[1]


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_variables_may_be_set_where_the_driver_runs(
    hook: ContinuousQueryHook, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], mode: str
) -> None:
    extra = {"deploy-mode": mode}
    connection(monkeypatch, "a_cluster", conn_type="spark", **HOSTS["yarn"], extra=extra)
    spec["source"]["options"]["topic"] = "${ONLY_ON_THE_CLUSTER}"

    if mode == "cluster":
        assert hook.specification(spec)["source"] == spec["source"]
    else:
        with pytest.raises(ConfigError, match="ONLY_ON_THE_CLUSTER is not set"):
            hook.specification(spec)


def test_a_spark_provider_that_has_changed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    connection(monkeypatch, "a_cluster", conn_type="spark", **HOSTS["standalone"], extra={})
    monkeypatch.delattr(SparkSubmitHook, "_build_spark_submit_command")
    with pytest.raises(ConfigError, match=r"no _build_spark_submit_command.*\[spark-submit\]"):
        Cluster.find("a_cluster", SubmitOptions.read({}))
