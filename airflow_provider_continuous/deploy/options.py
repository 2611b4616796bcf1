"""What may be said about a submission besides the query: ``spark_submit: {...}``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any

from engine.errors import ConfigError
from engine.redaction.logs import redact

LEAD_TO_DRIVER = ("deploy_mode", "master_web")
"""Options that must be known to ask how a driver is."""
_AS_SETTINGS = {
    "files": "spark.files",
    "py_files": "spark.submit.pyFiles",
    "archives": "spark.archives",
    "jars": "spark.jars",
    "packages": "spark.jars.packages",
    "repositories": "spark.jars.repositories",
}
"""Options that may hold addresses, and the settings that say the same to spark-submit."""
_COUNT_ON = {
    "num_executors": ("yarn", "kubernetes"),
    "total_executor_cores": ("standalone",),
    "yarn_queue": ("yarn",),
}
"""Options that spark-submit passes over in silence elsewhere."""
_WORDS = ("application", "driver_jar", *_AS_SETTINGS)
SIZES = {
    "driver_memory": "spark.driver.memory",
    "executor_memory": "spark.executor.memory",
    "executor_cores": "spark.executor.cores",
    "num_executors": "spark.executor.instances",
    "total_executor_cores": "spark.cores.max",
}
"""Options that have settings of the same meaning, which spark-submit does not look at then."""
_MEMORY = ("driver_memory", "executor_memory")
_NO_TEXT = (
    *("conf", "ship_engine", "executor_cores", "total_executor_cores", "num_executors"),
    "deploy_mode",
)


@dataclass(frozen=True)
class SubmitOptions:
    """Options of a submission, named as those of the Spark provider's ``SparkSubmitHook``.

    Lists may be given as lists or as text with commas.

    :param conf: Spark's settings, over those of the connection and of the specification.
    :param deploy_mode: ``client`` or ``cluster``, over the Spark connection's own.
    :param application: our driver script where the driver runs, if not the one that is installed
        here: ``local:///...`` in an image, or any URL that Spark can read.
    :param ship_engine: send the engine's own code along. Switch it off where it is installed.
    :param driver_jar: standalone cluster mode alone: any jar at the same place on every worker.
    :param master_web: standalone cluster mode alone: the address of the master's web page, which
        tells how a driver is; without it, port 8080 of each master. Several with commas.
    """

    conf: Mapping[str, Any] = field(default_factory=dict, repr=False)
    deploy_mode: str | None = None
    application: str | None = None
    ship_engine: bool = True
    driver_jar: str | None = None
    master_web: str | None = None
    files: str | None = None
    py_files: str | None = None
    archives: str | None = None
    jars: str | None = None
    packages: str | None = None
    exclude_packages: str | None = None
    repositories: str | None = None
    driver_class_path: str | None = None
    properties_file: str | None = None
    driver_memory: str | None = None
    executor_memory: str | None = None
    executor_cores: int | None = None
    total_executor_cores: int | None = None
    num_executors: int | None = None
    yarn_queue: str | None = None
    keytab: str | None = None
    principal: str | None = None
    proxy_user: str | None = None

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> SubmitOptions:
        """Read the mapping.

        :raises ConfigError: a key or a value is unknown.
        """
        known = [option.name for option in fields(cls)]
        for key in given:
            if key not in known:
                close = get_close_matches(str(key).replace("-", "_"), known, n=1)
                raise ConfigError(
                    f"spark_submit has no option {key!r}.",
                    hint=f"Did you mean {close[0]}?" if close else f"It has {', '.join(known)}.",
                )
        values: dict[str, Any] = {
            key: ",".join(map(str, value)) if isinstance(value, list | tuple) else value
            for key, value in given.items()
            if value is not None
        }
        for name in _MEMORY:
            values[name] = _in_mebibytes(values.get(name))
        options = cls(**values)
        for name in known:
            value = getattr(options, name)
            if name not in _NO_TEXT and not isinstance(value, str | None):
                raise ConfigError(f"spark_submit.{name} is {value!r}.", hint="It is a text.")
        if options.deploy_mode not in (None, "client", "cluster"):
            raise ConfigError(
                f"spark_submit.deploy_mode is {options.deploy_mode!r}.",
                hint="It is client or cluster.",
            )
        if not isinstance(options.ship_engine, bool):
            raise ConfigError(
                f"spark_submit.ship_engine is {options.ship_engine!r}.",
                hint="It is true or false, without quotation marks.",
            )
        if not isinstance(options.conf, Mapping):
            raise ConfigError("spark_submit.conf is no mapping.")
        for name, setting in SIZES.items():
            if getattr(options, name) is not None and setting in options.conf:
                raise ConfigError(
                    f"spark_submit has {name}, and {setting} in its conf.", hint="Say one of them."
                )
        return options

    @property
    def given(self) -> list[str]:
        """Those that are given besides ``conf``."""
        unsaid = SubmitOptions(self.conf)
        names = [option.name for option in fields(self)]
        return [name for name in names if getattr(self, name) != getattr(unsaid, name)]

    def without_effect(self, manager: str) -> list[str]:
        """Return those that are given, and that Spark does not look at on this kind of cluster."""
        given = [name for name in _COUNT_ON if getattr(self, name) is not None]
        return [name for name in given if manager not in _COUNT_ON[name]]

    def with_settings(self, conf: Mapping[str, str]) -> tuple[SubmitOptions, dict[str, str]]:
        """Return the options with what settings say of the same, and the other settings.

        spark-submit looks at no setting that an option says as well.
        """
        both = {
            name: joined(getattr(self, name), conf.get(setting))
            for name, setting in _AS_SETTINGS.items()
        }
        others = {key: conf[key] for key in conf if key not in _AS_SETTINGS.values()}
        changed: dict[str, Any] = both
        return replace(self, **changed), others

    def private(self) -> tuple[SubmitOptions, dict[str, str]]:
        """Return those without addresses that hold a password, and these as settings.

        :raises ConfigError: Spark takes one of them on a command line alone.
        """
        found = {name: getattr(self, name) for name in self._private()}
        for name in found:
            if name not in _AS_SETTINGS:
                raise _readable_by_all(name)
        settings = {_AS_SETTINGS[name]: value for name, value in found.items()}
        without: dict[str, Any] = dict.fromkeys(found)
        return replace(self, **without), settings

    def refuse_private(self) -> None:
        """:raises ConfigError: an address holds a password, and all are told on a command line."""
        for name in self._private():
            raise _readable_by_all(name)

    def _private(self) -> list[str]:
        values = {name: getattr(self, name) for name in _WORDS}
        return [name for name, value in values.items() if value and redact(value) != value]

    def of_driver_start(self) -> dict[str, Any]:
        """Return those of the hook that count where a Java machine is started for a driver."""
        return {name: getattr(self, name) for name in ("driver_memory", "driver_class_path")}

    def of_the_hook(self) -> dict[str, Any]:
        """Return those that ``SparkSubmitHook`` takes as they are."""
        own = {"conf", "deploy_mode", "application", "ship_engine", "driver_jar", "master_web"}
        names = [option.name for option in fields(self) if option.name not in own]
        return {name: getattr(self, name) for name in names}


def joined(*parts: str | None) -> str | None:
    """Return lists with commas as one; None: nothing is on any."""
    return ",".join(part for part in parts if part) or None


def _in_mebibytes(size: Any) -> Any:
    """A size that has no unit, as Spark means it: what starts a driver would take it for bytes."""
    is_number = isinstance(size, int) and not isinstance(size, bool)
    bare = is_number or (isinstance(size, str) and size.strip().isdigit())
    return f"{str(size).strip()}m" if bare else size


def _readable_by_all(name: str) -> ConfigError:
    return ConfigError(
        f"spark_submit.{name} holds a password, and would be on a command line, which all users "
        "of its machine can read.",
        hint="Name a place that needs none, or whose password Spark has otherwise.",
    )


def options_over(given: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``spark_submit`` with other options that go first; settings of both count, but for one
    that an option of the other says."""
    confs = [options.get("conf") for options in (given, more)]
    if not all(conf is None or isinstance(conf, Mapping) for conf in confs):
        return {**given, **more}
    old, new = ({**conf} if isinstance(conf, Mapping) else {} for conf in confs)
    left = dict(given)
    for name, setting in SIZES.items():
        if more.get(name) is not None:
            old.pop(setting, None)
        if setting in new:
            left.pop(name, None)
    conf = {"conf": {**old, **new}} if any(confs) else {}
    return {**left, **more, **conf}
