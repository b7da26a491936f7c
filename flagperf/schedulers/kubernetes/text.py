"""The text of a round's manifests: comments for the reader, and one YAML document for each object. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import override

from flagperf.config.parts.image import STAND_IN
from flagperf.config.schema.values import JobConfig
from flagperf.contract.settings import round_seed
from flagperf.plan.dry_run import changed, comments
from flagperf.plan.values import Plan
from flagperf.schedulers.kubernetes.pods import JOB, selector


def manifest_text(
    job: JobConfig,
    plan: Plan,
    documents: Sequence[Mapping[str, Any]],
    object_name: str,
    folder: Path,
    file: Path | None,
) -> str:
    """The text of a round's manifests for kubectl.

    Args:
        documents: of `flagperf.schedulers.kubernetes.manifests`.
        folder: of the run.
        file: for the text, named in its commands; None: the text is only shown.
    """
    head = [
        comments(
            f"{job.name}, round {plan.round} of {job.repeat}, division {job.division}: {job.nnodes} pod(s)", _notes(job)
        ),
        comments("Changes against the case:", changed(job)),
        comments("What to do with it:", _commands(job, object_name, folder, file)),
    ]
    return "\n\n".join([*head, *(f"---\n{_document(document)}" for document in documents)]) + "\n"


def _notes(job: JobConfig) -> list[str]:
    notes = list(job.notes)
    if job.repeat > 1:
        seeds = ", ".join(str(round_seed(job.config, number)) for number in range(1, job.repeat + 1))
        notes.append(f"each round has manifests of its own; seeds of the rounds: {seeds}")
    if job.image is not None and job.image.reference == STAND_IN:
        notes.append(f"no image is named (cluster.kubernetes.image): {STAND_IN} stands for it")
    if job.cluster.kubernetes and "memory" not in job.cluster.kubernetes.resources:
        notes.append("no memory is asked for (cluster.kubernetes.resources): a node short of it evicts such pods first")
    if job.config.get("clear_caches"):
        notes.append("clear_caches is left out: no pod may clear the page caches of its node")
    return notes


def _commands(job: JobConfig, object_name: str, folder: Path, file: Path | None) -> list[str]:
    if file is None:
        return ["render=FOLDER writes it to a file, with what flagperf report needs beside it"]
    pods = job.cluster.kubernetes
    space = f" --namespace {pods.namespace}" if pods and pods.namespace else ""
    path, run_folder = shlex.quote(str(file)), shlex.quote(str(folder))
    return [
        f"start it:       kubectl apply -f {path}",
        f"look at it:     kubectl get pods{space} -l {selector({JOB: object_name})}",
        f"bring its logs: flagperf report {run_folder} collect=true    (of pods that have ended; it names the others)",
        f"remove it:      kubectl delete -f {path}    (and what was not collected)",
    ]


def _document(content: Mapping[str, Any]) -> str:
    """An object as YAML. An object with code is one line of JSON, which is YAML, too."""
    if "binaryData" in content:
        return json.dumps(content)
    return yaml.dump(content, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=120).rstrip()


class _Readable(yaml.SafeDumper):
    """Writes texts with line breaks as blocks, and no aliases."""

    @override
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)
