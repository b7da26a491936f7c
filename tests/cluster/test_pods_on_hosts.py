"""The pods of a rendered Job as containers of two hosts: what the kubelet does with the manifests, docker does here."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from flagperf_run import SMALL
from hosts import IMAGE, Host, TestCluster, image_mounts
from pods_of_kubectl import ended, kubectl_says

from flagperf.cli.main import run_command
from flagperf.report import read_run

NODE = "resnet50-pytorch-cpux2x1/round1"


class Pod:
    """A pod of the Job, on one host.

    Args:
        documents: of the manifests.
        rank: of its node.
        names: host names that the Service gives → address.
    """

    def __init__(self, documents: Sequence[Mapping[str, Any]], rank: int, host: Host, names: Mapping[str, str]) -> None:
        self.spec: Mapping[str, Any] = documents[-1]["spec"]["template"]["spec"]
        self.container: Mapping[str, Any] = self.spec["containers"][0]
        self.rank, self.host, self.names = rank, host, names
        self.content: dict[str, dict[str, bytes]] = {}  # ConfigMap → name → content
        for document in documents:
            if document["kind"] == "ConfigMap":
                texts = {name: text.encode() for name, text in document.get("data", {}).items()}
                files = {name: base64.b64decode(text) for name, text in document.get("binaryData", {}).items()}
                self.content[document["metadata"]["name"]] = texts | files

    def start(self) -> None:
        """Start the container."""
        for name, text in self._files():
            file = self.host.root / "srv" / "pod" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
        words = ["docker", "run", "--detach", "--name=pod", "--network=host", "--restart=no"]
        words += [f"--add-host={name}:{address}" for name, address in self.names.items()]
        words += [f"--env={item['name']}={self._value(item)}" for item in self.container["env"]]
        words += ["--env=OMP_NUM_THREADS=1"]
        words += [f"--mount=type=bind,source={path},target={path},readonly" for path in image_mounts()]
        words += [f"--mount={mount}" for mount in self._mounts()]
        command = (*self.container["command"], *self.container["args"])
        self.host.output(*words, IMAGE, *(self._filled(word) for word in command))

    def end(self) -> tuple[int, str]:
        """Wait for the end of the container. Its exit status and its output."""
        status = int(self.host.output("docker", "wait", "pod"))
        return status, self.host.output("docker", "logs", "pod")

    def _filled(self, text: str) -> str:
        return text.replace("$(FLAGPERF_NODE_RANK)", str(self.rank)).replace("$$(", "$(")

    def _value(self, item: Mapping[str, Any]) -> str:
        return self._filled(item["value"]) if "value" in item else str(self.rank)  # the annotation with the index

    def _files(self) -> Iterator[tuple[str, bytes]]:
        """The files of the volumes: path below the pod's folder on the host, and content."""
        for volume in self.spec["volumes"]:
            sources = volume.get("projected", {}).get("sources", [volume])
            for source in sources:
                for name, content in self.content.get(source.get("configMap", {}).get("name"), {}).items():
                    yield f"{volume['name']}/{name}", content
            if "emptyDir" in volume:
                yield f"{volume['name']}/.made", b""

    def _mounts(self) -> Iterator[str]:
        in_memory = {volume["name"] for volume in self.spec["volumes"] if volume.get("emptyDir", {}).get("medium")}
        for mount in self.container["volumeMounts"]:
            target = self._filled(mount["mountPath"])
            if mount["name"] in in_memory:
                yield f"type=tmpfs,target={target}"
            else:
                source = "/".join(("/srv/pod", mount["name"], *([mount["subPath"]] if "subPath" in mount else ())))
                yield f"type=bind,source={source},target={target}" + (",readonly" if mount.get("readOnly") else "")


@pytest.mark.slow
@pytest.mark.torch
def test_a_rendered_job_trains_in_containers_of_two_hosts(
    lab: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    pods_of = ("cluster=kubernetes", f"cluster.kubernetes.image={IMAGE}", "cluster.rendezvous.interface=eth0")
    words = ("nnodes=2", *SMALL, f"runtime.python={sys.executable}", f"render={folder}")
    assert run_command([*pods_of, *words]) == 0
    documents = list(yaml.safe_load_all((folder / NODE / "manifests.yaml").read_text()))
    job = documents[-1]["metadata"]["name"]
    names = {f"{job}-{rank}.{job}": host.address for rank, host in enumerate(lab.hosts)}
    pods = [Pod(documents, rank, host, names) for rank, host in enumerate(lab.hosts)]
    for pod in pods:
        pod.start()
    ends = [pod.end() for pod in pods]
    assert [status for status, _ in ends] == [0, 0], ends
    kubectl_says(tmp_path, job, {rank: (output, ended(0)) for rank, (_, output) in enumerate(ends)}, monkeypatch)
    assert run_command(["report", str(folder), "collect=true"]) == 0
    assert "1 job: 1 VALID" in (folder / "report.md").read_text(), capsys.readouterr().out
    ((result,),) = [read.results for read in read_run(folder)]
    assert sorted(result.monitors["nodes"]) == [f"{job}-{rank}_noderank{rank}" for rank in range(2)]
