"""The verbs: where each is, and what it is told about; all that `--help` and a wrong line say comes from here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

INTERRUPTED = 130
WIDEST = 28  # columns of a name beside what it is
EXIT_CODES = {
    0: "done",
    2: "wrong usage or configuration",
    3: "a host cannot be used",
    4: "no valid case",
    5: "a training failed, or a writer of data",
    6: "target missed (require_target=true)",
    7: "compare: outside what gate= or align= allows",
    8: "compare: gate= or align= is undecided",
    9: "verify: a bundle is not what it states; modelzoo check: faults",
    INTERRUPTED: "interrupted",
}
KINDS = {
    "cases": "model",
    "frameworks": "framework",
    "vendors": "vendor",
    "hardware": "hardware",
    "clusters": "cluster",
    "experiments": "experiment",
}  # what `flagperf list` calls it → configuration group
RUNS, RESULTS = "runs", "result"  # the word of `flagperf list` for what was run, and the default of `result_dir`
OPTIONS = {
    "-m, --multirun": "sweep over comma-separated values: one job per combination",
    "--config-dir DIR": "a folder of your own with model/, vendor/, cluster/, experiment/ …; may be repeated",
    "-sc, --shell-completion install=bash|zsh|fish": 'shell completion, e.g. eval "$(flagperf -sc install=bash)"',
    "--version, -h, --help": "after a verb, --help is about that verb",
}
MULTIRUN, CONFIG_DIR, *_ = OPTIONS
OVERRIDES = {
    "model=NAME framework=NAME size=full|tiny": "the case",
    "vendor=NAME hardware=NAME": "the accelerator",
    "cluster=NAME runtime=docker|process|…": "the hosts, and how ranks start there; apptainer and pyxis: on Slurm",
    "nnodes=N nproc=N": "nodes, and devices of each",
    "data_dir=PATH": "the real data; sample data is used where size=tiny",
    "max_steps=N max_epochs=N max_time=SECONDS": "stop early",
    "train_batch_size=N lr=X precision=fp32|tf32|amp_fp16|amp_bf16": "settings of the case: flagperf list CASE",
    "repeat=N": "rounds of the same job",
    "division=closed|open": "open: any key of the case may change, and the report says so",
    "submit=true": "with cluster=slurm: put the run into the queue, and do not wait (docs/schedulers.md)",
    "dry_run=true": "print configuration, changes and commands; run nothing",
    "render=FOLDER": "on Kubernetes: write the run's manifests for kubectl; run nothing",
}
RUN_DIR = {"RUN_DIR": "a folder that a run made, such as result/run20260101-120000; flagperf list runs shows them"}
TRUST = {"trust=true": "obey a folder that you did not make on this machine (docs/trust.md)"}
JOB = {"OVERRIDES…": "the same as those of the run: vendor=, hardware=, cluster=, nnodes= …"}


@dataclass(frozen=True)
class Verb:
    """What one verb takes and does."""

    module: str  # imported when it is called; its `main` takes the options, prints, and returns the exit code
    words: str  # that follow it
    what: str  # it does, in one line
    explained: Mapping[str, str]  # word or override → what it is
    examples: tuple[str, ...]
    exit_codes: tuple[int, ...]
    options: tuple[str, ...] = (CONFIG_DIR,)
    more: str = ""  # that has to be known


VERBS = {
    "run": Verb(
        "flagperf.cli.run",
        "[OVERRIDES…]",
        "(the default) compose the configuration, train, report",
        OVERRIDES,
        (
            "flagperf run model=glm nproc=2 repeat=3",
            "flagperf -m model=resnet50,glm nproc=1,2 max_steps=20",
            "flagperf model=glm vendor=nvidia hardware=A100 nnodes=2 nproc=8 cluster=lab data_dir=/data/glm",
        ),
        (0, 2, 3, 4, 5, 6, INTERRUPTED),
        (MULTIRUN, CONFIG_DIR),
        "Results go to result/run<date>-<time>; flagperf watch shows a run in another terminal.",
    ),
    "list": Verb(
        "flagperf.cli.list",
        "[KIND… | CASE [framework=NAME] [size=tiny] | runs [RESULT_DIR]]",
        "what can be chosen; CASE: all about one case, with its settings; runs: what was run",
        {
            "KIND": "cases, frameworks, vendors, hardware, clusters or experiments; all of them without a word",
            "CASE": "target, data, tunings, and settings: default, unit, range, whether a closed run may change them",
            "runs [RESULT_DIR]": "the runs of a result folder (result), newest first",
        },
        ("flagperf list hardware", "flagperf list bert framework=paddle", "flagperf list runs"),
        (0, 2),
    ),
    "report": Verb(
        "flagperf.cli.report",
        "RUN_DIR",
        "write the report of a run again, from the files alone",
        {**RUN_DIR, **TRUST},
        ("flagperf report result/run20260101-120000",),
        (0, 2, 3),
        (),
    ),
    "collect": Verb(
        "flagperf.cli.collect",
        "RUN_DIR",
        "bring the logs that a run had to leave on its hosts, or that its pods printed, and report it again",
        {**RUN_DIR, **TRUST},
        ("flagperf collect result/run20260101-120000",),
        (0, 2, 3),
        (),
    ),
    "watch": Verb(
        "flagperf.cli.watch",
        "RUN_DIR",
        "what goes on in a run of another terminal",
        RUN_DIR,
        ("flagperf watch result/run20260101-120000",),
        (0, 2, 3, INTERRUPTED),
        (),
        "It ends with the run. Where the output is no terminal, it shows the run once and ends.",
    ),
    "rerun": Verb(
        "flagperf.cli.rerun",
        "RUN_DIR [OVERRIDES…]",
        "give the command of a run again, from its folder alone",
        {
            **RUN_DIR,
            "OVERRIDES…": "what shall differ, such as cluster= or data_dir= on another machine",
            **TRUST,
        },
        ("flagperf rerun result/run20260101-120000", "flagperf rerun result/run20260101-120000 cluster=lab repeat=5"),
        (0, 2, 3, 4, 5, 6, INTERRUPTED),
    ),
    "node": Verb(
        "flagperf.cli.node",
        "RUN_DIR|OVERRIDES… node_rank=N master=HOST:PORT",
        "one node's part of a run, on this machine: where nobody may ssh",
        {
            "RUN_DIR": "a run folder, whose command is given again; overrides after it replace old ones",
            "OVERRIDES…": "the same as those of a run, and the same on each node: model=, nnodes=, nproc= …",
            "node_rank=N": "which node this machine is, from 0",
            "master=HOST:PORT": "node 0, as all nodes reach it, and a free port there; each round takes the next one",
            **TRUST,
        },
        (
            "flagperf node model=glm nnodes=2 nproc=8 vendor=nvidia hardware=A100 data_dir=/data/glm node_rank=1 "
            "master=10.0.0.1:29500",
            "flagperf node result/run20260101-120000 node_rank=0 master=10.0.0.1:29500 deadlines.start=3600",
        ),
        (0, 2, 3, 5, INTERRUPTED),
        (CONFIG_DIR,),
        "Give it on every node within deadlines.start. Logs stay in the run folder of each: copied into one, "
        "flagperf report reads them.",
    ),
    "import": Verb(
        "flagperf.cli.import_flagperf",
        "DIR|FILE… into=FOLDER",
        "write a configuration folder of what a FlagPerf checkout says",
        {
            "DIR|FILE…": "a checkout of FlagPerf or a folder of it, or its files; they are read, never executed",
            "into=FOLDER": "for --config-dir: cluster, experiment, vendors, products, tunings; nothing is overwritten",
        },
        (
            "flagperf import ~/FlagPerf into=~/bench",
            "flagperf import ~/FlagPerf/training/kunlunxin/bert-pytorch into=~/bench",
        ),
        (0, 2),
    ),
    "compare": Verb(
        "flagperf.cli.compare",
        "BASE OTHER… [by=KEY] [gate='p_train>-3%'] [align=1%] [across=KEY] [same=1%] [noise=DIR] [html=FILE …]",
        "runs or jobs side by side, and an answer for CI",
        {
            "BASE OTHER…": "folders of runs or of jobs; BASE is what the others are held against",
            "published": "as BASE: what FlagPerf publishes of the case, as the case's page shows it",
            "by=KEY": "hold the jobs against each other that have another value of KEY; one folder is enough",
            "gate='p_train>-3%,accuracy>-1%'": "the largest loss of each figure; decides the exit code",
            "align=1%": "the largest error of loss and final metric against BASE, with equal settings, seed and data",
            "across=KEY": "a key that may differ although it makes jobs unlike, such as precision",
            "same=1%": "so small a difference is none",
            "noise=DIR": "the result folder whose runs tell how much rounds vary; else those of the runs given",
            "markdown=FILE junit=FILE": "write the answer for a pull request, and for CI",
            "html=FILE": "write one page: the jobs side by side, normalised to BASE, and the plots of align=",
        },
        (
            "flagperf compare result/before result/after",
            "flagperf compare result/before result/after gate='p_train>-3%' junit=gate.xml",
            "flagperf compare result/cpu result/device align=1%",
            "flagperf compare result/sweep by=nproc",
            "flagperf compare published result/run20260101-120000",
        ),
        (0, 2, 7, 8),
        (),
    ),
    "bundle": Verb(
        "flagperf.cli.bundle",
        "RUN_DIR FILE.tar.zst [key=FILE]",
        "pack a run into one file that others can check, without secrets",
        {
            **RUN_DIR,
            "FILE.tar.zst": "the file to write; the same run gives the same bytes",
            "key=FILE": "sign it with this Ed25519 key, as ssh-keygen or openssl make them",
        },
        (
            "flagperf bundle result/run20260101-120000 run.tar.zst",
            "flagperf bundle result/run20260101-120000 run.tar.zst key=~/.ssh/id_ed25519",
        ),
        (0, 2),
        (),
    ),
    "verify": Verb(
        "flagperf.cli.verify",
        "FILE.tar.zst [key=FILE]",
        "check hashes and signature of a bundle, and compute its figures a second time",
        {
            "FILE.tar.zst": "what flagperf bundle wrote",
            "key=FILE": "the public key of who signed it; else the signature is not checked",
        },
        ("flagperf verify run.tar.zst", "flagperf verify run.tar.zst key=lab.pub"),
        (0, 2, 9),
        (),
        "All figures come from the logs of the ranks, by code that shares nothing with what wrote them.",
    ),
    "export": Verb(
        "flagperf.cli.export",
        "RUN_DIR FILE.csv|FILE.xlsx|FILE.json",
        "write the figures of a run for a spreadsheet or another program",
        {
            **RUN_DIR,
            "FILE.csv": "a row a job: what it is, verdict, mean and spread of each figure",
            "FILE.xlsx": "the same as a sheet, and sheets of the rounds and of what was changed",
            "FILE.json": "all of it, in the form that docs/benchmark.schema.json describes",
        },
        (
            "flagperf export result/run20260101-120000 summary.csv",
            "flagperf export result/run20260101-120000 benchmark.json",
        ),
        (0, 2),
        (),
    ),
    "submit": Verb(
        "flagperf.cli.submit",
        "RUN…",
        "FlagPerf's result table and README of a case, from measurement",
        {"RUN…": "folders of runs or of jobs, which together have a case at 1x1, 1x8 (to its end) and 2x8"},
        ("flagperf submit result/run20260101-120000", "flagperf submit result/one result/eight result/sixteen"),
        (0, 2),
        (),
    ),
    "docs": Verb(
        "flagperf.cli.docs",
        "case|model|vendor model=NAME vendor=NAME [runs=RUN…] into=FOLDER [OVERRIDES…]",
        "pages of a case, a model or a vendor as FlagPerf asks for them, with what was measured",
        {
            "case": "a case on a vendor's product: how to run it, results at 1x1, 1x8 and 2x8, or what is missing",
            "model": "what the model is, its data, its frameworks, and which vendors' products have tunings of it",
            "vendor": "products, images, monitors, environment, and the results of all cases",
            "runs=RUN…": "folders of runs or of jobs, between commas or as further words",
            "into=FOLDER": "where the page goes, at its place in FlagPerf's folder training/",
        },
        (
            "flagperf docs case model=bert vendor=nvidia hardware=A100 runs=result/a100 into=pages",
            "flagperf docs model model=bert into=pages",
            "flagperf docs vendor vendor=nvidia runs=result/a100,result/glm into=pages",
        ),
        (0, 2),
    ),
    "modelzoo": Verb(
        "flagperf.cli.modelzoo",
        "export model=NAME vendor=NAME into=FOLDER [runs=RUN…] | check FOLDER [step=N] [KEY=VALUE…]",
        "a model's folder for Tecorigin's ModelZoo: write it, or check one as the test of a submission does",
        {
            "export": "write scripts, requirements, README and the entry of model.yaml",
            "model=NAME vendor=NAME": "the case, and tecorigin or cpu",
            "framework=NAME hardware=NAME": "pytorch or paddle; the product, where there are several",
            "train_batch_size=N lr=X": "of the README's commands and of the entry, in place of the case's",
            "data_dir=PATH": "where the ModelZoo's machines have the data; without it the entry trains on sample data",
            "into=FOLDER": "a new or empty folder",
            "runs=RUN…": "what was measured, on the product and on the reference: folders of runs, between commas",
            "account=NAME": "your account in the ModelZoo, for model.yaml",
            "check": "a folder's layout, arguments, README, the entry's command for a few steps, and the log of that",
            "step=N device=NAME …": "parameters of the short run in place of the entry's",
            "python=PATH limit=SECONDS": "interpreter of the short run, and how long it may take (1800)",
        },
        (
            "flagperf modelzoo export model=resnet50 vendor=tecorigin runs=result/t100,result/a100 into=resnet50",
            "flagperf modelzoo check resnet50 step=5 device=cpu nproc_per_node=1 autocast=False",
        ),
        (0, 2, 9, INTERRUPTED),
        (),
    ),
    "doctor": Verb(
        "flagperf.cli.doctor.hosts",
        "[OVERRIDES…]",
        "can this job run on this cluster? one line a check, and what to do",
        JOB,
        ("flagperf doctor model=glm vendor=nvidia hardware=A100 nnodes=2 nproc=8 cluster=lab data_dir=/data/glm",),
        (0, 2, 3),
    ),
    "probe": Verb(
        "flagperf.cli.probe",
        "[OVERRIDES…]",
        "what each device achieves: FLOP/s, memory, copies, all-reduce; which are slower than others",
        JOB,
        ("flagperf probe nproc=2", "flagperf probe vendor=nvidia hardware=A100 nnodes=2 nproc=8 cluster=lab"),
        (0, 2, 3, 5, INTERRUPTED),
        (CONFIG_DIR,),
        "It takes less than a minute, and needs no data. A run with probe=run measures after its training.",
    ),
    "clean": Verb(
        "flagperf.cli.clean",
        "[OVERRIDES…]",
        "remove what runs that died left behind on a cluster",
        {"OVERRIDES…": "cluster=NAME; what runs that go on have made stays"},
        ("flagperf clean cluster=lab",),
        (0, 2, 3),
    ),
    "check": Verb(
        "flagperf.cli.check_vendor",
        "vendor=NAME [model=CASE OVERRIDES…]",
        "what a vendor's files lack, before any accelerator is at hand; whether its own code does what a case does",
        {
            "vendor=NAME": "its own file, its products, its tunings of all cases",
            "model=CASE": "train the reduced case with the vendor's own code and without it, and keep how they differ",
        },
        (
            "flagperf check vendor=nvidia",
            "flagperf check vendor=acme --config-dir my_conf",
            "flagperf check vendor=acme model=resnet50 hardware=A1 --config-dir my_conf",
        ),
        (0, 2, 3, 5, INTERRUPTED),
    ),
    "data": Verb(
        "flagperf.cli.data",
        "check|sample|prepare model=NAME data_dir=PATH [source=PATH] [OVERRIDES…]",
        "look at a case's data_dir, write sample data, convert the original data",
        {
            "check": "look whether data_dir has what the case needs, and read the first samples",
            "sample": "write the sample data of the case's tiny size to data_dir",
            "prepare": "convert the original data, which lies in source=PATH, to data_dir",
        },
        (
            "flagperf data check model=resnet50 data_dir=/data/imagenet",
            "flagperf data prepare model=bert data_dir=/data/bert source=/data/wikipedia",
        ),
        (0, 2, 5, INTERRUPTED),
    ),
}

HEAD = """\
flagperf trains real models on AI accelerators and reports numbers that can be compared.

usage: flagperf [VERB] [OVERRIDES…] [OPTIONS]

  flagperf                                             resnet50 (tiny) on this machine's CPU, to its target
  flagperf model=glm nproc=2 repeat=3                  another case, two ranks, three rounds
  flagperf -m model=resnet50,glm nproc=1,2 max_steps=20            a sweep: one job per combination
  flagperf model=glm vendor=nvidia hardware=A100 nproc=8 dry_run=true        print it all, run nothing
"""


def help_text() -> str:
    """What `flagperf --help` prints."""
    return "\n".join(
        [
            HEAD,
            *_rows("verbs (flagperf VERB --help tells more)", {name: verb.what for name, verb in VERBS.items()}),
            *_rows("overrides; the ones needed most", OVERRIDES),
            *_rows("options", OPTIONS),
            *_exit_codes(EXIT_CODES),
        ]
    )


def verb_help(name: str) -> str:
    """What `flagperf VERB --help` prints."""
    verb = VERBS[name]
    return "\n".join(
        [
            f"flagperf {name}: {verb.what}",
            "",
            f"usage: {usage(name)}",
            "",
            *([verb.more, ""] if verb.more else []),
            *_rows("words", verb.explained),
            *(_rows("options", {option: OPTIONS[option] for option in verb.options}) if verb.options else []),
            *("examples:", *(f"  {example}" for example in verb.examples), ""),
            *_exit_codes(verb.exit_codes),
        ]
    )


def usage(name: str) -> str:
    """How a verb is called, for help and for whoever called it in another way."""
    return f"flagperf {name} {VERBS[name].words}"


def _rows(title: str, rows: Mapping[str, str]) -> list[str]:
    """Names beside what they are; a long name has a line of its own."""
    width = min(max(map(len, rows)), WIDEST)
    lines = [f"{title}:"]
    for name, what in rows.items():
        lines += [f"  {name:{width}}  {what}"] if len(name) <= width else [f"  {name}", f"  {'':{width}}  {what}"]
    return [*lines, ""]


def _exit_codes(codes: Iterable[int]) -> list[str]:
    return [*_rows("exit codes", {str(code): EXIT_CODES[code] for code in codes})[:-1], ""]
