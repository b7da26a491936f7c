"""flagperf compare: compare runs or jobs, and decide conditions for CI

usage: flagperf compare BASE OTHER… [by=KEY] [gate='p_train>-3%'] [align=1%] [across=KEY] [same=1%] [noise=DIR]
       [html=FILE …]

words:
  BASE OTHER…                   folders of runs or of jobs; the others are compared with BASE
  published                     as BASE: the figures that FlagPerf publishes of the case
  by=KEY                        compare jobs with different values of KEY; one folder is enough
  gate='p_train>-3%,accuracy>-1%'
                                conditions on the change of figures; they decide the exit code
  align=1%                      the largest error of loss and final metric against BASE, with equal settings, seed and
                                data
  across=KEY                    compare jobs although they differ in KEY, such as precision
  same=1%                       smaller differences do not count
  noise=DIR                     the result folder whose runs show how much rounds vary; default: of the given runs
  markdown=FILE junit=FILE      write the results for a pull request, and for CI
  html=FILE                     write one page: the jobs side by side, normalised to BASE, and the plots of align=

examples:
  flagperf compare result/before result/after
  flagperf compare result/before result/after gate='p_train>-3%' junit=gate.xml
  flagperf compare result/cpu result/device align=1%
  flagperf compare result/sweep by=nproc
  flagperf compare published result/run20260101-120000

exit codes: 0, 2, 7, 8
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from flagperf import report
from flagperf.cli.help import usage
from flagperf.cli.words import paths_and_options
from flagperf.compare import render
from flagperf.compare.align import align
from flagperf.compare.earlier import earlier_rounds
from flagperf.compare.gate import EXIT_CODES, Decision, decide, parse, worst
from flagperf.compare.jobs import NamedJob, Pairs, compare, pair_by, pair_runs
from flagperf.compare.likeness import MUST
from flagperf.compare.page import Compared, page
from flagperf.compare.published import NAME, pair_published
from flagperf.compare.scales import scales_of
from flagperf.compare.values import Comparison
from flagperf.errors import ConfigError, nearest
from flagperf.report import scaling
from flagperf.run.console import print_unfolded
from flagperf.user import user_path

OPTIONS = ("by", "gate", "align", "across", "same", "noise", "markdown", "junit", "html")
DECIDING = ("gate", "align")
SAME = "1%"  # smaller differences do not count, as a share of the base


def main(parsed: argparse.Namespace) -> int:
    """Print a table a pair of jobs; the exit code is that of the worst decision, 0 without one."""
    folders, options = _arguments(parsed.arguments)
    margin, across = _share("same", options.get("same", SAME)), _across(options.get("across"))
    band = _share("align", options["align"]) if "align" in options else None
    conditions = parse(options["gate"]) if "gate" in options else ()
    of_page = folders[0] == Path(NAME) and not folders[0].is_dir()
    runs = [_read(folder) for folder in folders[of_page:]]
    pairs = _against_page(runs, options) if of_page else _pairs(runs, options.get("by"))
    jobs = [job for pair in pairs.pairs for job in pair[of_page:]]
    history = earlier_rounds(jobs, _history(options.get("noise"), jobs))
    comparisons = [compare(base, other, margin=margin, across=across, earlier=history) for base, other in pairs.pairs]
    alignments = []
    if band is not None:
        alignments = [alignment for pair in pairs.pairs for alignment in align(*pair, band, across)]
    decisions = [decide(condition, comparison) for comparison in comparisons for condition in conditions]
    decisions += [alignment.decision for alignment in alignments]
    _show(comparisons, decisions, pairs.unpaired, margin)
    groups = scales_of(runs)
    _show_scaling(groups)
    _write(options, "markdown", render.markdown(comparisons, decisions, margin))
    _write(options, "junit", render.junit(decisions))
    if "html" in options:
        content = Compared(pairs.pairs, comparisons, alignments, decisions, pairs.unpaired, groups, margin)
        _write(options, "html", page(content))
    return EXIT_CODES[worst([decision.outcome for decision in decisions])]


def _arguments(arguments: Sequence[str]) -> tuple[list[Path], dict[str, str]]:
    """Folders, and `key=value`."""
    folders, given = paths_and_options("compare", arguments, OPTIONS)
    if len(folders) < (1 if "by" in given else 2):
        shown = " ".join(arguments) or '""'
        raise ConfigError("compare takes at least two runs, or one with by=", given=shown, advice=usage("compare"))
    if "junit" in given and not any(key in given for key in DECIDING):
        advice = " or ".join(f"{key}=…" for key in DECIDING)
        raise ConfigError("junit= writes decisions", key="junit", given=given["junit"], advice=f"add {advice}")
    return folders, given


def _share(key: str, text: str) -> float:
    """A share as "1%" or "0.01"."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise ConfigError("no share", key=key, given=text, allowed="a share such as 1% or 0.01")
    return value


def _across(text: str | None) -> tuple[str, ...]:
    keys = tuple(text.split(",")) if text else ()
    for key in keys:
        if key not in MUST:
            raise ConfigError("unknown key", key="across", given=key, allowed=nearest(key, MUST))
    return keys


def _read(folder: Path) -> list[NamedJob]:
    """The jobs of a run, or the one whose folder is given; their figures are those of the ranks' logs."""
    run = folder.parent if report.is_job(folder) else folder
    return [NamedJob(str(run), job) for job in report.read_jobs(folder)]


def _pairs(runs: Sequence[Sequence[NamedJob]], by: str | None) -> Pairs:
    pairs = pair_by([job for run in runs for job in run], by) if by else pair_runs(runs)
    if not pairs.pairs:
        advice = "by=KEY compares jobs with different values of KEY"
        raise ConfigError("no two jobs make a pair", given=", ".join(pairs.unpaired), advice=advice)
    return pairs


def _against_page(runs: Sequence[Sequence[NamedJob]], given: Mapping[str, str]) -> Pairs:
    """All jobs against what FlagPerf publishes of their cases."""
    if wrong := next((key for key in ("by", "align") if key in given), None):
        problem = "published figures are compared with each job, and have no losses"
        raise ConfigError(problem, key=wrong, given=given[wrong], advice=f"leave out {wrong}=")
    return pair_published([job for run in runs for job in run])


def _history(noise: str | None, jobs: Sequence[NamedJob]) -> set[Path]:
    """The result folders whose runs tell how much rounds vary."""
    if noise is None:
        return {Path(job.run).resolve().parent for job in jobs}
    folder = user_path(noise)
    if not folder.is_dir():
        raise ConfigError("no such folder", key="noise", given=noise, advice="give a result folder, in which runs lie")
    return {folder}


def _show(
    comparisons: Sequence[Comparison], decisions: Sequence[Decision], unpaired: Sequence[str], margin: float
) -> None:
    from rich.text import Text

    for comparison in comparisons:
        print_unfolded(render.terminal(comparison, margin))
        print()
    for name in unpaired:
        print_unfolded(Text(f"left out: {name}: no job to compare it with", style="yellow"))
    for decision in decisions:
        style = render.STYLES[decision.outcome]
        print_unfolded(Text.assemble((decision.outcome, style), f"  {decision.condition}  {decision.why}"))


def _show_scaling(groups: scaling.Groups) -> None:
    """Show how each case scales, if the runs hold several scales of it."""
    from rich.console import Group
    from rich.text import Text

    from flagperf.report.fitted import FittedTable

    rows = scaling.scaling_rows(groups)
    if not rows:
        return
    table = FittedTable(title="scaling", title_justify="left")
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        table.add_row(*map(Text, row.values()))
    print_unfolded(Group(table, Text(scaling.NOTE)))


def _write(given: Mapping[str, str], key: str, text: str) -> None:
    if key not in given:
        return
    try:
        user_path(given[key]).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the file cannot be written: {error.strerror}", key=key, given=given[key]) from None
