"""The page of a vendor: its products, images, monitors and machine, and the results of all cases."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from flagperf.config.files.search_path import VENDORS, cases, search_path
from flagperf.config.schema.monitor_tool import make_table
from flagperf.config.schema.platform import Hardware
from flagperf.config.schema.values import JobConfig
from flagperf.partners.flagperf.pages.chosen import products
from flagperf.partners.flagperf.pages.render import chinese, image_text, render
from flagperf.partners.flagperf.readme import environment
from flagperf.partners.flagperf.submission import SCALES, MeasuredJob, submissions, unfit
from flagperf.report import cells
from flagperf.report.tables import MONITORED

NONE = "/"


def vendor_page(job: JobConfig, jobs: Sequence[MeasuredJob], config_dirs: Sequence[Path] = ()) -> str:
    """The page, in Markdown.

    Args:
        job: any case, configured for one of the vendor's products.
        jobs: measured jobs on the vendor's products.
        config_dirs: the user's folders.
    """
    folders = search_path(config_dirs)
    fit = [measured for measured in jobs if not unfit(measured)]
    scales = [*SCALES, *(measured.identity.scale for group in submissions(fit) for measured in group)]
    measured_cases = sorted({"/".join(filter(None, _name(measured))) for measured in fit})
    return render(
        "vendor.md.j2",
        job=job,
        products=[_product(hardware) for hardware in products(job.vendor.name, folders)],
        environment=[{"项目": name, "值": value} for name, value in environment(fit).items()] if fit else [],
        images=[{"框架": name, "镜像": image_text(source, f"vendors/{job.vendor.name}/docker/{name}")}
                for name, source in job.vendor.image.items()],
        about_images=_about_images(job.vendor.name),
        command=shlex.join(job.vendor.monitor.command) if job.vendor.monitor else "",
        monitored=_monitored(job),
        results=[_of_case(name, fit, scales) for name in measured_cases],
        unmeasured=[name for name in cases(folders) if name not in measured_cases],
    )  # fmt: skip


def _product(hardware: Hardware) -> dict[str, str]:
    peaks = ", ".join(f"{form} {peak / 1e12:g}" for form, peak in hardware.peak_flops.items())
    return {
        "产品": hardware.name,
        "名称": chinese(hardware.title),
        "显存 (GiB)": f"{hardware.memory_gib:g}" if hardware.memory_gib else NONE,
        "功耗 (W)": f"{hardware.power_w:g}" if hardware.power_w else NONE,
        "峰值 (TFLOP/s)": peaks or NONE,
        "每机设备数": str(hardware.devices_per_node or NONE),
    }


def _about_images(vendor: str) -> str:
    """The text of vendors/<vendor>/README.md, without its title."""
    path = VENDORS / vendor / "README.md"
    return path.read_text(encoding="utf-8").partition("\n")[2].strip() if path.is_file() else ""


def _monitored(job: JobConfig) -> list[dict[str, str]]:
    """The figures of a device that the vendor's tool reports."""
    tool = job.vendor.monitor
    if tool is None:
        return []
    names = make_table(tool, job.hardware).figures
    return [{"监控项": figure.title, "单位": figure.unit} for name, figure in MONITORED.items() if name in names]


def _of_case(case: str, jobs: Sequence[MeasuredJob], scales: Sequence[str]) -> dict[str, str]:
    """The training throughput of a case at each scale, with its product."""
    framework, _, name = case.rpartition("/")
    row = {"测例": case}
    for scale in dict.fromkeys(scales):
        at_scale = [measured for measured in jobs if measured.identity.scale == scale]
        of_case = [measured for measured in at_scale if _name(measured) == (framework, name)]
        rates = [f"{measured.identity.hardware}: {cells.row(measured.summary)['p_train']}" for measured in of_case]
        row[scale] = "；".join(rates) or NONE
    units = (measured.identity.throughput_unit for measured in jobs if _name(measured) == (framework, name))
    return {**row, "单位": next(units)}


def _name(measured: MeasuredJob) -> tuple[str, str]:
    identity = measured.identity
    return "" if identity.main_framework else identity.framework, identity.case
