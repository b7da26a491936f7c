"""The files of a vendor, a product, a runtime and a framework. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from flagperf.config.schema.kubernetes import LabelValue, QualifiedName
from flagperf.contract.fields import (
    AbsolutePath,
    ByteSize,
    Count,
    DeviceFile,
    Gpus,
    ImageReference,
    Limit,
    MountTarget,
    NotNegative,
    Operand,
    Pattern,
    Positive,
    Variable,
    VariablePattern,
)
from flagperf.user import user_path

NumberFormat = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]
Ulimit = Literal[
    "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio",
    "rttime", "sigpending", "stack",
]  # fmt: skip


@dataclass(frozen=True)
class ContainerOptions:
    """Options of a container, by docker's names. Runtime, vendor and cluster each add options."""

    network: str | None = None
    ipc: str | None = None
    pid: str | None = None
    uts: str | None = None
    init: bool | None = None  # an init process that reaps orphans and passes signals on
    shm_size: ByteSize | None = None  # of /dev/shm: "32g"
    memory: ByteSize | None = None  # limit: "64g"
    cpus: Positive | None = None  # limit
    gpus: Gpus | None = None  # "all", a count, or "device=0,1"
    runtime: str | None = None  # OCI runtime, such as a vendor's
    privileged: bool | None = None
    user: str | None = None  # uid[:gid]; None: the image's
    devices: tuple[DeviceFile, ...] = ()  # host[:container[:permissions]]
    cap_drop: tuple[str, ...] = ()  # capabilities of the daemon's default that the container does not get; ALL
    cap_add: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    group_add: tuple[str, ...] = ()
    ulimits: Mapping[Ulimit, Limit | None] = field(default_factory=dict)  # soft and hard; -1: none, null: the daemon's
    mounts: Mapping[AbsolutePath, MountTarget | None] = field(default_factory=dict)  # host → container[:rw], read-only


@dataclass(frozen=True)
class RuntimeSettings:
    """conf/runtime/<name>.yaml: where the ranks run."""

    name: str
    kind: Literal["docker", "process"]
    title: str = ""
    python: Operand | None = None  # interpreter of the training processes; None: the launcher's own, on hosts python3
    container: ContainerOptions = ContainerOptions()  # kind docker
    image: Operand | None = None  # kind process: of a container of the site's own, started in one of the two ways below
    wrapper: tuple[str, ...] = ()  # a command before that of the ranks; the plan fills in {image}, {run} and {data}
    srun: Mapping[str, str] = field(default_factory=dict)  # options of the step in which a node's ranks run

    @property
    def contained(self) -> bool:
        """Whether the ranks run in a container of the site (not docker's), with other files than their host's."""
        return bool(self.wrapper or self.srun)


@dataclass(frozen=True)
class ImageSettings:
    """The way of an image to a cluster's hosts. No image contains these settings."""

    policy: Literal["build", "pull", "load", "present"] | None = None  # None: build with a Dockerfile, else present
    archive: str | None = None  # policy load: file of `docker save` on the launcher's machine
    index: str | None = None  # Python package index for building
    ca_certificate: str | None = None  # file of certificates to trust while building
    http_proxy: str | None = None
    https_proxy: str | None = None
    no_proxy: str | None = None
    network: str = "host"  # of the build


@dataclass(frozen=True)
class ImageSource:
    """A vendor's image for a framework: the name of a ready image, or the base image of its Dockerfile."""

    name: ImageReference | None = None
    base: ImageReference | None = None  # build argument BASE_IMAGE
    folder: str | None = None  # of the Dockerfile; None: the vendor's own in vendors/, or that which builds on `base`
    requirements: tuple[str, ...] = ()  # further Python packages, as in a requirements file


@dataclass(frozen=True)
class Image:
    """The image of a run, and its way to the hosts."""

    reference: str
    policy: Literal["build", "pull", "load", "present"]
    settings: ImageSettings = ImageSettings()
    folder: Path | None = None  # policy build: of the Dockerfile
    source: ImageSource = ImageSource()
    extra: str | None = None  # policy build: of flagperf's package, with what the framework's training needs


@dataclass(frozen=True)
class MonitorTool:
    """A vendor's tool for temperature, power, memory and utilisation of its devices (docs/monitors.md)."""

    command: tuple[str, ...]  # argv, on a host; prints one sample and ends
    parse: str = ""  # regular expression, one match a device, its groups named after the figures; empty: by columns
    units: Mapping[str, str] = field(default_factory=dict)  # of power, memory, utilisation, energy, where unusual
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # figure → its headings in the tool's table
    power_of: Literal["device", "card"] = "device"  # card: each device gets its share of what its card draws
    interval: NotNegative = 0.0  # least seconds between two samples, for a tool that costs much
    timeout: Positive = 10.0  # seconds a sample may take
    module: str | None = None  # Python module that does the same with less cost, where Python is on the host


@dataclass(frozen=True)
class Algorithms:
    """The library's algorithms on a vendor's devices; None: the case's value (conf/training.yaml)."""

    deterministic: bool | None = None
    cudnn_benchmark: bool | None = None


@dataclass(frozen=True)
class Reach:
    """Keys of a vendor that differ for another framework than the main one."""

    device: str | None = None
    backend: str | None = None
    plugin: str | None = None
    environment: Mapping[Variable, str] = field(default_factory=dict)  # beside the vendor's
    deterministic_environment: Mapping[Variable, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Extension:
    """A vendor's own code in its ranks, for all cases or, in a tuning, for one (docs/adding-a-vendor.md)."""

    folder: str | None = None  # its code/ is what Python finds; may start with ~; None: vendors/<vendor>
    environment_script: str | None = None  # file of code/, which bash sources before it starts the ranks
    requirements: tuple[str, ...] = ()  # Python packages, as in a requirements file
    modules: tuple[str, ...] = ()  # imported before the network is made
    replace: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # part → its class, and further arguments
    network_hook: str | None = None  # function: the built network → the one that is trained
    names: Mapping[Pattern, str] = field(default_factory=dict)  # in names of its parameters → what the case has there

    @property
    def code(self) -> Path | None:
        """The folder of the code; None: no code."""
        return user_path(self.folder).absolute() / "code" if self.folder else None

    @property
    def has_code(self) -> bool:
        """Whether the code takes part in the training. A script and packages only prepare the ranks."""
        return bool(self.modules or self.replace or self.network_hook)


@dataclass(frozen=True)
class Vendor:
    """conf/vendor/<name>.yaml: all that differs between vendors, as data."""

    name: str
    title: str
    device: str  # as the main framework names it: cpu, cuda, npu, mlu, sdaa, xpu, musa; cpu for all frameworks
    backend: str  # of its collectives: gloo, nccl, hccl, cncl, tccl, xccl, mccl
    plugin: str | None  # module to import before the device exists
    visible_devices: Variable | None  # variable naming the devices a process may use
    interface_variables: tuple[Variable, ...] = ()  # variables that tell the backend's library the network interface
    device_files: str | None = None  # glob of the device files on a host, one a device; None: not to be counted
    device_plugin: QualifiedName | None = None  # resource of Kubernetes by which pods get devices; None: not known
    device_plugin_counts: Literal["device", "card"] = "device"  # what one of that resource is
    container: ContainerOptions = ContainerOptions()  # docker options this vendor needs
    image: Mapping[str, ImageSource] = field(default_factory=dict)  # per framework
    frameworks: Mapping[str, Reach] = field(default_factory=dict)  # what differs on other frameworks, by their names
    stacks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by `stack` of a product
    environment: Mapping[Variable, str] = field(default_factory=dict)
    deterministic_environment: Mapping[Variable, str] = field(default_factory=dict)  # also, if `deterministic` is true
    passes: tuple[VariablePattern, ...] = ()  # variables of a host or an image that reach the ranks; others do not
    algorithms: Algorithms = Algorithms()  # in place of the case's; a tuning or a command line may say otherwise
    extension: Extension = Extension()  # code of its own
    monitor: MonitorTool | None = None  # how the accelerators are watched; None: not at all


@dataclass(frozen=True)
class Link:
    """The link of a device to others; None where no public source has the figure."""

    bandwidth: Positive | None = None  # bytes/s that one device sends, in one direction, over all its links
    latency: Positive | None = None  # seconds of a hop; None counts as 0


@dataclass(frozen=True)
class NodeLink(Link):
    """The links between devices of one node."""

    devices: Count | None = None  # that these links reach, where they leave the node; None: those of a node


@dataclass(frozen=True)
class Links:
    """The links of one device."""

    node: NodeLink = NodeLink()
    network: Link = Link()  # between nodes


@dataclass(frozen=True)
class MemoryOverhead:
    """Memory of a device beside the tensors of a step: needed = factor x tensors + constant_gib."""

    factor: Positive  # what the allocator keeps in reserve, and gaps between tensors
    constant_gib: NotNegative  # the device's context, and workspaces of its libraries


@dataclass(frozen=True)
class Hardware:
    """conf/hardware/<name>.yaml."""

    name: str
    title: str
    memory_gib: Positive | None
    power_w: Positive | None
    peak_flops: Mapping[NumberFormat, Positive]  # FLOP/s of one device; absent where no public source gives it
    vendor: str | None = None  # whose product it is; None: any
    stack: str | None = None  # of `vendor.stacks`, by which it is reached; None: as the vendor's own keys say
    devices_per_node: Count | None = None
    devices_per_card: Count = 1
    memory_bandwidth: Positive | None = None  # bytes/s of one device's memory
    links: Links = Links()
    memory_overhead: MemoryOverhead | None = None  # None: that of the framework
    price_per_hour: Positive | None = None  # of one device, in one currency for all products that are compared
    device_names: tuple[Pattern, ...] = ()  # names that a device gives itself; empty: any name
    node_labels: Mapping[QualifiedName, LabelValue] = field(default_factory=dict)  # of Kubernetes nodes that have it


@dataclass(frozen=True)
class Failures:
    """Patterns of the reports of a framework's launcher and ranks about their end: multi-line regular expressions."""

    # in the launcher's log, about a rank that ended: groups exit_status, and rank or local_rank; the first of the
    # expressions that is found there counts. As it is: the line of flagperf.trainer.start
    exits: tuple[Pattern, ...] = (
        r"^rank (?P<rank>\d+) ended with exit status (?P<exit_status>-?\d+) at \d+:(?P<minute>\d+):(?P<second>\d+)$",
    )
    first: str = ""  # text of the launcher's log, after which comes the rank that it saw fail first
    stopped: Pattern = ""  # in its log, about a rank that it stops, by the pid that `exits` has too; empty: not said
    port_taken: str = "EADDRINUSE"  # text of the launcher's log where another process listens on the port
    followed: tuple[Pattern, ...] = ()  # in the log of a rank that ended because another rank had
    out_of_memory: tuple[Pattern, ...] = ()  # in why a rank ended: its device, or its host, has no more memory
    waiting: tuple[Pattern, ...] = ()  # in a Python stack: a frame of a rank that waits for the other ranks


@dataclass(frozen=True)
class Framework:
    """conf/framework/<name>.yaml: all that differs between frameworks, as data."""

    name: str
    launch: tuple[str, ...]  # the command that starts a node's ranks; the plan fills in {python}, {nnodes} …
    title: str = ""  # its name, a comma, and how its ranks start
    main: bool = False  # nearly every job runs on it: tables leave its name out, and every vendor has an image for it
    environment: Mapping[Variable, str] = field(default_factory=dict)  # of a rank; flagperf.trainer.start fills it in
    passes: tuple[VariablePattern, ...] = ()  # variables of a host or image that reach the ranks, beside the vendor's
    interface_variables: tuple[Variable, ...] = ()  # of its own way between hosts, beside those of the vendor's library
    parts: Mapping[str, bool] = field(default_factory=dict)  # what it makes of a case's keys; true: every case has it
    probes: bool = False  # its ranks can measure their devices
    trace: str | None = None  # module that traces one step of a case without a device; None: nothing is predicted
    memory_overhead: MemoryOverhead = MemoryOverhead(factor=1.0, constant_gib=0.0)  # on a device that states no other
    extends: bool = False  # its ranks can put a vendor's own parts in the place of a case's
    version: str | None = None  # asked for: chooses among a vendor's images; None: any
    needs: Mapping[str, str] = field(default_factory=dict)  # package, or python → lowest version that ranks run with
    case_needs: Mapping[str, str] = field(default_factory=dict)  # the same, of packages that only some cases use
    module: str = "sys"  # that a rank imports first; an environment that lacks it is refused
    packages: tuple[str, ...] = ()  # whose versions sys_info.log tells
    imports: tuple[str, ...] = ()  # names of what it brings, further ones; own code of such a name would take its place
    libraries: tuple[str, ...] = ()  # whose classes the components of a case may be
    extra: str | None = None  # of flagperf's own package: what a training needs, which an image gets
    python: str | None = None  # interpreter on this machine, where it exists; {prefix}: the launcher's environment
    install: str = ""  # how a user comes to an environment with it, for a message
    failures: Failures = Failures()

    @property
    def product(self) -> str:
        """The framework's name for readers."""
        return self.title.partition(",")[0]
