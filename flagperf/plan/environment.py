"""Lists the variables of a host, of an image or of the launcher that reach the ranks. No other variable does.

A variable can name another interpreter, a module that Python imports first, or a library that every process loads. A
list of dangerous names is never complete, so the allowed names are listed, each with its reason. Names that any machine
needs are listed here, others in the files of the vendor (`vendor.passes`) and of the framework (`framework.passes`).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from flagperf.config.schema.values import JobConfig
from flagperf.contract.sent_code import BEFORE_SCRIPT
from flagperf.plan.container import MARK
from flagperf.plan.values import ENVIRONMENT

MACHINE = (  # `*` stands for any end of a name
    "PATH",  # programs: compilers of torch.compile, a vendor's tools
    "LD_LIBRARY_PATH",  # libraries of a vendor's software
    "PYTHONPATH",  # flagperf sets it, or looks at what lies there (config/rules/own_code.py); the report shows it
    "HOME", "USER", "LOGNAME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",  # where libraries keep caches and sockets
    "TMPDIR", "TMP", "TEMP",  # room for temporary files
    "LANG", "LANGUAGE", "LC_*", "TZ",  # texts and times
    "http_proxy", "https_proxy", "no_proxy", "all_proxy",  # the way to the network
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "OMP_*", "KMP_*", "GOMP_*", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",  # threads of a rank, and their cores
    "MALLOC_*",  # settings of the allocator
    "UCX_*", "FI_*", "OMPI_MCA_*", "I_MPI_*", "GLOO_*",  # libraries below collectives: network cards and protocols
    "SLURM_*", "SLURMD_NODENAME", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",  # what Slurm gives the job of a node
    "APPTAINER_CACHEDIR", "APPTAINER_TMPDIR", "SINGULARITY_CACHEDIR", "SINGULARITY_TMPDIR",  # rooms of runtime.wrapper
    "FLAGPERF_LOG_DIR", "FLAGPERF_PROCESS", MARK,  # where the ranks log; how their processes are found
    BEFORE_SCRIPT,  # PYTHONPATH before a vendor's script
)  # fmt: skip
SESSION = (  # of a terminal, a login or a shell: no use to a training, and left out without a message
    "_", "SHELL", "SHLVL", "PWD", "OLDPWD", "TERM", "TERM_*", "COLORTERM", "COLUMNS", "LINES", "LS_COLORS", "LESS*",
    "PAGER", "EDITOR", "VISUAL", "MAIL", "HOSTNAME", "HOST", "PS1", "PS2", "PROMPT_COMMAND", "HIST*", "SSH_*", "XDG_*",
    "DBUS_*", "DISPLAY", "WAYLAND_*", "GPG_*", "SUDO_*", "TMUX*", "STY", "WINDOW", "VIRTUAL_ENV*", "CONDA_*",
    "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_*", "DEBIAN_FRONTEND", "MOTD_SHOWN", "container",
)  # fmt: skip


@cache
def _template() -> str:
    return Path(__file__).with_name(ENVIRONMENT).read_text("utf-8")


def listed(job: JobConfig) -> tuple[str, ...]:
    """Names, and beginnings of names, of all variables that reach the ranks."""
    vendor, stack = job.vendor, job.framework
    names = (
        *MACHINE,
        *stack.passes,
        *vendor.passes,
        *([vendor.visible_devices] if vendor.visible_devices else []),
        *stack.interface_variables,
        *vendor.interface_variables,
        *vendor.deterministic_environment,
        *vendor.environment,
        *job.secrets,
        "PYTHONFAULTHANDLER",  # flagperf sets it
    )
    return tuple(
        name
        for name in dict.fromkeys(names)
        if not any(name != pattern and fnmatchcase(name, pattern) for pattern in names)
    )


def environment_script(job: JobConfig) -> str:
    """The content of environment.sh, which starts a command with the listed variables alone."""
    return _template().replace("LISTED", " | ".join(listed(job))).replace("SESSION", " | ".join(SESSION))
