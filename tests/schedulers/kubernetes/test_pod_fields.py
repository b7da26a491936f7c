"""What a cluster's file says of pods is held against the fields that Kubernetes publishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kubernetes_validate.utils import schema_contents
from refusals import lines

from flagperf.cli.main import run_command
from flagperf.schedulers.kubernetes import fields as pod_fields

NOT_FREE = ("containers", "ephemeralContainers", "volumes")  # fields of a pod that no user's file may have
ROOTS = {f"io.k8s.api.core.v1.{kind}" for kind in (pod_fields.POD_SPEC, pod_fields.SECURITY, pod_fields.TOLERATION)}


def published() -> dict[str, dict[str, str | None]]:
    """The fields that users may write, of every kind of object below those that they may write."""
    file = f"kubernetes-json-schema/v{pod_fields.VERSION}.0-local-strict/_definitions.json"
    objects = schema_contents(file, pod_fields.VERSION)["$defs"]
    kinds: dict[str, dict[str, str | None]] = {}
    waiting = sorted(ROOTS)
    while waiting:
        kind = waiting.pop()
        fields: dict[str, str | None] = {}
        for name, field in objects[kind]["properties"].items():
            refers = next((part["$ref"] for part in (field, field.get("items", {})) if "$ref" in part), "")
            below = refers.removeprefix("#/$defs/")
            is_object = name not in NOT_FREE and "properties" in objects.get(below, {})
            fields[name] = below.rpartition(".")[2] if is_object else None
            waiting += [below] if is_object and fields[name] not in kinds else []
        kinds[kind.rpartition(".")[2]] = fields
    return kinds


def test_the_fields_are_those_of_the_published_schema() -> None:
    """Where it fails for a new VERSION, write `published()` into the file."""
    file = Path(pod_fields.__file__).with_suffix(".json")
    assert json.loads(file.read_text()) == published()


REFERENCE = "write the field as Kubernetes' reference of a pod has it, or leave it out"
UNKNOWN: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "of the spec": ({"pod": {"runtimeClassNam": "a"}}, "pod", "runtimeClassNam", "did you mean 'runtimeClassName'?"),
    "below it": ({"pod": {"os": {"family": "linux"}}}, "pod.os", "family", "one of: name"),
    "in a list": (
        {"pod": {"topologySpreadConstraints": [{"maxSkew": 1, "topologykey": "zone"}]}},
        "pod.topologySpreadConstraints[0]", "topologykey", "did you mean 'topologyKey'?",
    ),
    "of the container": ({"security": {"privilegd": True}}, "security", "privilegd", "did you mean 'privileged'?"),
    "of a toleration": (
        {"tolerations": [{"key": "a", "value": "b"}, {"effects": "NoSchedule"}]},
        "tolerations[1]", "effects", "did you mean 'effect'?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", [("dry_run=true",), ("render={}/run",)], ids=["dry run", "render"])
@pytest.mark.parametrize(("pods", "key", "given", "allowed"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_an_unknown_field_is_refused(
    pods: dict[str, Any],
    key: str,
    given: str,
    allowed: str,
    words: tuple[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "cluster" / "site.yaml"
    file.parent.mkdir()
    file.write_text(json.dumps({"title": "pods", "kubernetes": {"image": "reg/image:1", **pods}}))
    case = ("model=resnet50", "size=tiny", "vendor=cpu", "cluster=site", "data_dir=/data")
    status = run_command(["--config-dir", str(tmp_path), *case, words[0].format(tmp_path)])
    problem = f"Kubernetes {pod_fields.VERSION} does not know this field"
    key = f"cluster.kubernetes.{key}.{given}"
    expected = lines(problem, where=str(file), key=key, given=given, allowed=allowed, do=REFERENCE)
    assert (status, capsys.readouterr().err.strip()) == (2, f"flagperf: {expected}")
    assert not (tmp_path / "run").exists()
