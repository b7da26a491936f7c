"""The identity of a configured case: tables name the case by it, and comparisons match jobs by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Division = Literal["closed", "open"]


@dataclass(frozen=True)
class Identity:
    """A case of one revision and size, on a vendor's product, at a scale, in a number format."""

    case: str
    framework: str
    hardware: str
    vendor: str
    size: str
    nnodes: int
    nproc: int
    division: Division
    revision: int = 1  # results of different revisions do not compare
    precision: str = ""
    train_batch_size: int | None = None  # of each rank; None: the configuration of an older run does not say
    throughput_unit: str = ""
    main_framework: bool = True  # nearly every job runs on it: tables leave its name out

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Identity:
        """The identity that a resolved configuration has: that of a job, or one read from config.yaml.

        Raises:
            KeyError: the configuration lacks a part.
        """
        return cls(
            case=config["case"],
            framework=config["framework"]["name"],
            hardware=config["hardware"]["name"],
            vendor=config["vendor"]["name"],
            size=config["size"],
            nnodes=config["nnodes"],
            nproc=config["nproc"],
            division=config["division"],
            revision=config.get("revision") or 1,  # older runs have none
            precision=config["precision"],
            train_batch_size=config.get("train_batch_size"),
            throughput_unit=config["throughput_unit"],
            main_framework=bool(config["framework"].get("main", True)),
        )

    @property
    def scale(self) -> str:
        """Nodes and devices of each: "2x8"."""
        return f"{self.nnodes}x{self.nproc}"

    @property
    def devices(self) -> int:
        """Devices of the whole job, one a rank."""
        return self.nnodes * self.nproc

    @property
    def on_product(self) -> str:
        """The case on the vendor's product, at any scale: "resnet50-pytorch-A100"."""
        return f"{self.case}-{self.framework}-{self.hardware}"

    @property
    def of_submission(self) -> tuple[object, ...]:
        """The key that all jobs of one submission share. Their scales differ; precision and batch size may differ."""
        return self.case, self.revision, self.framework, self.vendor, self.hardware
