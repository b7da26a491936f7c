"""Reads the secret values of a run, and refuses them in all places where files would keep them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from flagperf.config.files.search_path import CONF
from flagperf.config.parts.platform import OWN_VARIABLES
from flagperf.config.rules.own_code import DECIDES
from flagperf.config.schema.cluster import Cluster, Secret
from flagperf.config.schema.job_overrides import JobOverrides
from flagperf.config.schema.keys import is_under
from flagperf.config.schema.platform import Vendor
from flagperf.config.schema.values import Typed
from flagperf.contract.build import Where
from flagperf.contract.leaves import Leaves, leaves
from flagperf.errors import ConfigError
from flagperf.plain import is_text
from flagperf.secret import HIDDEN, SHORTEST, Mask, is_hidden, is_secret, logins, shown
from flagperf.user import user_path

ENVIRONMENTS = ("vendor.environment", "vendor.deterministic_environment")
LOGINS = (*ENVIRONMENTS, *(f"cluster.image.{name}" for name in ("index", "http_proxy", "https_proxy", "no_proxy")))
ENVIRONMENT = re.compile(r"\boc\.env:\s*['\"]?(\w+)")  # a reference to a variable of the environment


@dataclass(frozen=True)
class WithoutSecrets:
    """The secrets of a run, and a vendor and a configuration without secrets."""

    secrets: Mapping[str, str]  # variable → value
    mask: Mask
    vendor: Vendor
    config: dict[str, Any]


def refuse_variables(written: Leaves, where: Where) -> None:
    """Refuse secret variables of the launcher's environment in values that files keep, before a message shows them.

    Args:
        written: the values as written. A text of a shipped file is no secret, whatever the environment has.

    Raises:
        ConfigError: a value has the content of such a variable, or refers to it.
    """
    secret = _secret_variables()
    mask = Mask(secret.values())
    for key, value in written.items():
        text = _kept(key, value)
        for name in ENVIRONMENT.findall(text):
            if name in secret:
                raise _of_environment(key, name, where)
        if mask.text(text) != text and not Path(where(key)).is_relative_to(CONF):
            raise _of_environment(key, _variable_in(text, secret), where)


def refuse_bytes(written: Leaves, where: Where) -> None:
    """Refuse values that no file can keep as text.

    Raises:
        ConfigError: a value has bytes that are not UTF-8.
    """
    for key, value in written.items():
        texts = value if isinstance(value, (list, tuple)) else [value]
        if not all(is_text(text) for text in (key, *texts) if isinstance(text, str)):
            advice = "a path or name of UTF-8 text"
            raise ConfigError("this value is not UTF-8", where=where(key), key=key, given=value, allowed=advice)


def keep_secrets(
    config: dict[str, Any], typed: Typed, overrides: JobOverrides, written: Leaves, where: Where
) -> WithoutSecrets:
    """Take the secrets out of a resolved configuration, and read the secrets of the cluster's file.

    A dry run does not read the secrets of the cluster's file.

    Args:
        written: the values as written.

    Raises:
        ConfigError: a secret cannot be read, or is in a place that files keep.
    """
    vendor, cluster = typed.vendor, typed.cluster
    check_names(cluster, vendor, where)
    named = dict.fromkeys(cluster.secrets, HIDDEN) if config["dry_run"] else read_secrets(cluster, where)
    used = {**(vendor.deterministic_environment if config["deterministic"] else {}), **vendor.environment}
    secrets = {name: value for name, value in used.items() if _is_secret(name, value)} | named
    settings = cluster.image
    urls = (settings.index, settings.http_proxy, settings.https_proxy, settings.no_proxy)
    values = [*secrets.values(), *(url for url in urls if url and logins(url))]
    _refuse_kept_secrets(config, overrides, Mask(values), where)
    _refuse_found_variables(config, written, where)
    return WithoutSecrets(
        secrets=secrets,
        mask=Mask([*values, *_inherited(typed)]),
        vendor=replace(
            vendor,
            environment=_without_secrets(vendor.environment),
            deterministic_environment=_without_secrets(vendor.deterministic_environment),
        ),
        config=shown(config),
    )


def check_names(cluster: Cluster, vendor: Vendor, where: Where) -> None:
    """Refuse variables that cannot be secret, and variables that the vendor sets, too."""
    for name, secret in cluster.secrets.items():
        key = f"cluster.secrets.{name}"
        if OWN_VARIABLES.fullmatch(name) or DECIDES.fullmatch(name) or name == "LD_PRELOAD":
            problem = "flagperf itself sets it, or it decides which code the ranks import: this is no secret"
            raise ConfigError(problem, where=where(key), key="cluster.secrets", given=name)
        if (secret.variable is None) == (secret.file is None):
            raise ConfigError(
                "a secret comes from one place",
                where=where(key),
                key=key,
                allowed="{variable: NAME}, of the launcher's environment, or {file: PATH}, on the launcher's machine",
            )
        for part in ("environment", "deterministic_environment"):
            if name in getattr(vendor, part):
                problem, advice = "a variable is given twice", f"take it out of vendor.{part}"
                raise ConfigError(problem, where=where(key), key=key, advice=advice)


def read_secrets(cluster: Cluster, where: Where) -> dict[str, str]:
    """The values of the secrets in the cluster's file.

    Raises:
        ConfigError: the launcher's environment lacks a variable, or a file cannot be read or is empty.
    """
    return {name: read_secret(secret, f"cluster.secrets.{name}", where) for name, secret in cluster.secrets.items()}


def too_short(secrets: Mapping[str, str]) -> list[str]:
    """A line for the log about each secret that is too short to be found in the ranks' output."""
    return [
        f"{name}: flagperf does not search the output of the ranks for a secret of fewer than {SHORTEST} characters"
        for name, value in secrets.items()
        if len(value) < SHORTEST and value != HIDDEN
    ]


def read_secret(secret: Secret, key: str, where: Where) -> str:
    """The value of one secret. Raises ConfigError where the value is missing."""
    if secret.variable is not None:
        key, given, value = f"{key}.variable", secret.variable, os.environ.get(secret.variable, "")
        problem = "the launcher's environment lacks this variable, or it is empty"
        advice = f"export {secret.variable}=… in the shell that starts flagperf"
    else:
        assert secret.file is not None
        key, given, problem = f"{key}.file", secret.file, "the file of a secret is empty"
        advice = "a file with nothing but the value, which only you may read"
        try:
            value = user_path(secret.file).read_text("utf-8").rstrip("\r\n")
        except OSError as error:
            value, problem = "", f"the file of a secret cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            value, problem = "", "the file of a secret is not UTF-8 text"
    if not value:
        raise ConfigError(problem, where=where(key), key=key, given=given, advice=advice)
    if "\0" in value or value.encode("utf-8", "ignore").decode() != value:
        raise ConfigError("a variable cannot hold this value", where=where(key), key=key, given=given, advice=advice)
    return value


def _is_secret(name: str, value: str) -> bool:
    """Whether a variable of the vendor is secret, by its name or its value."""
    return is_secret(name) or bool(logins(value))


def _without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not _is_secret(name, value)}


def _inherited(typed: Typed) -> list[str]:
    """Secrets of the launcher's environment that the ranks may inherit."""
    if typed.runtime.kind != "process" or not typed.cluster.passes_environment_on:
        return []
    return [value for name, value in os.environ.items() if _is_secret(name, value) and value not in _shipped_names()]


def _secret_variables() -> dict[str, str]:
    """The variables of the launcher's environment whose names say that they are secret.

    The path of a file is none, and neither is a word that names a shipped file, such as docker.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if value and is_secret(name) and value not in _shipped_names() and not os.path.isfile(os.path.expanduser(value))  # noqa: PTH111, PTH113 - any text
    }


@cache
def _shipped_names() -> frozenset[str]:
    return frozenset(path.stem for path in CONF.rglob("*.yaml"))


def _kept(key: str, value: Any) -> str:
    """A key and its value, as files keep them: without the secrets that flagperf takes out."""
    return f"{key}={shown(value, key)}"


def _refuse_found_variables(config: Mapping[str, Any], written: Leaves, where: Where) -> None:
    """Refuse what a reference to the environment is resolved to, such as ${oc.env:${name}}."""
    secret = _secret_variables()
    mask = Mask(secret.values())
    for key, value in leaves(config).items():
        text = _kept(key, value)
        if "oc.env" in str(written.get(key)) and mask.text(text) != text:
            raise _of_environment(key, _variable_in(text, secret), where)


def _variable_in(text: str, secret: Mapping[str, str]) -> str:
    return next(name for name, value in secret.items() if Mask([value]).text(text) != text)


def _of_environment(key: str, variable: str, where: Where) -> ConfigError:
    return ConfigError(
        "config.yaml, reports and names of folders would keep the value of a secret variable",
        where=where(key),
        key=Mask(_secret_variables().values()).text(key),
        given=f"the value of {variable}",
        advice=f"name {variable} in cluster.secrets, which gives it to the ranks alone; unset it if it is no secret",
    )


def _refuse_kept_secrets(config: Mapping[str, Any], overrides: JobOverrides, mask: Mask, where: Where) -> None:
    """Refuse a secret in kept values and names of folders, and the text *** of an earlier run."""
    for key in overrides.swept:
        if is_under(key, LOGINS) and shown(overrides.values[key], key) != overrides.values[key]:
            problem, advice = "a sweep over a secret would name folders after it", "sweep over something else"
            raise ConfigError(problem, key=key, given=HIDDEN, advice=advice)
    for key, value in leaves(config).items():
        text = str(value)
        if is_under(key, LOGINS) and is_hidden(text):
            problem, advice = "*** stands for a secret, which no run keeps", f"give it again: {key}=…"
            raise ConfigError(problem, where=where(key), key=key, given=text, advice=advice)
        if not is_under(key, LOGINS) and mask.text(text) != text:
            raise ConfigError(
                "a secret stands in a value that is kept in config.yaml",
                where=where(key),
                key=key,
                given=mask.text(text),
                advice="name a variable in cluster.secrets, and let the code read it from its environment",
            )
