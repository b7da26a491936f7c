"""`flagperf site`: what it writes, and the bundles that it refuses."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import recorded
from example_site import Bundles

from flagperf.bundle import archive
from flagperf.bundle.approval import approval_file
from flagperf.bundle.pack import pack
from flagperf.cli.main import run_command
from flagperf.contract.digest import sha256_of
from flagperf.site.published import published_entries

pytestmark = pytest.mark.long

JOB = "resnet50-pytorch-cpux1x2"
Texts = tuple[str, str]  # a text of a file, and the text in its place
Hostile = Callable[[Texts, Texts], Path]


class Links(HTMLParser):
    """The addresses and the rows of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.rows: list[dict[str, str | None]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attrs if name in ("href", "src", "action") and value]
        if tag == "tbody" and "data-case" in dict(attrs):
            self.rows.append({name.removeprefix("data-"): value for name, value in attrs})


def text_of(page: Path) -> str:
    """The visible text of a page in one line."""
    body = page.read_text(encoding="utf-8").partition("<main>")[2].partition("<footer")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def changed(bundle: Path, target: Path, name: str, old: bytes, new: bytes) -> Path:
    """A copy of a bundle in which a file is another."""
    with tempfile.TemporaryDirectory() as folder:
        top = archive.unpack(bundle, Path(folder))
        path = top / name
        assert old in path.read_bytes()
        path.write_bytes(path.read_bytes().replace(old, new, 1))
        with archive.create(target) as out:
            for file in sorted(path for path in top.rglob("*") if path.is_file()):
                out.add(file.relative_to(folder).as_posix(), file.read_bytes())
    return target


def test_every_link_leads_to_a_file_of_the_site(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    missing = [
        f"{page.relative_to(site)}: {address}"
        for page in pages
        for address in Links(page).addresses
        if not address.startswith(("data:", "#")) and not (page.parent / address).is_file()
    ]
    assert (len(pages) > 30, missing) == (True, [])


@pytest.mark.parametrize("folder", ["", "zh"])
def test_the_table_has_every_job_and_every_published_row(site: Path, folder: str) -> None:
    rows = Links(site / folder / "index.html").rows
    cpu = {"vendor": "cpu", "product": "cpu", "scale": "1x2", "precision": "fp32", "division": "closed"}
    assert rows[:3] == [
        {**cpu, "case": "glm (tiny)", "verdict": "SUSPECT"},
        {**cpu, "case": "glm (tiny)", "verdict": "INVALID"},
        {**cpu, "case": "resnet50 (tiny)", "verdict": "SUSPECT"},
    ]
    assert {row["verdict"] for row in rows[3:]} == {"published, not verified"}
    assert len(rows) == 3 + len(published_entries())


def test_a_row_says_who_signed_and_approved(site: Path) -> None:
    assert "signed by lab · approved by the vendor cpu · all figures · bundle" in text_of(site / "index.html")
    unsigned = "lr=0.001 · not signed · not approved by a vendor · all figures · bundle"  # a job of a sweep
    assert unsigned in text_of(site / "index.html")


def test_without_keys_signatures_are_not_checked(bundles: Bundles, tmp_path: Path) -> None:
    run_command(["site", str(bundles.folder), f"into={tmp_path / 'public'}"])
    pattern = r"signed by SHA256:\S+ \(not checked\) · approved by SHA256:\S+ \(not checked\)"
    assert re.search(pattern, text_of(tmp_path / "public/index.html"))


def test_the_bundles_can_be_downloaded(site: Path, bundles: Bundles) -> None:
    copies = sorted(site.glob("bundles/*.tar.zst"))
    assert sorted(map(sha256_of, copies)) == sorted(map(sha256_of, bundles.folder.glob("*.tar.zst")))
    approvals = [path.name for path in site.glob("bundles/*.json")]
    assert approvals == [approval_file(path).name for path in copies if path.name.startswith("two-rounds")]
    assert run_command(["verify", str(copies[-1]), f"keys={bundles.keys}"]) == 0


def test_the_page_of_a_bundle(site: Path) -> None:
    name = next(site.glob("bundles/two-rounds-*.zst")).name.removesuffix(".tar.zst")
    shown = text_of(site / "bundle" / f"{name.rpartition('-')[2]}.html")
    assert f"check it yourself flagperf verify {name}.tar.zst" in shown
    assert "throughput, p_train 116.1 ± 4.5 images/s" in shown


def test_a_published_row(site: Path) -> None:
    shown = text_of(site / "case/bert.html")
    assert "bert nvidia A100 1x8 amp_fp16 published, not verified 599 sequences/s" in shown


# ---------------------------------------------------------------- refusals


def test_a_changed_bundle_is_refused(bundles: Bundles, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = bundles.folder / "sweep.tar.zst"
    result = f"{JOB}/round1/result.json"
    wrong = changed(
        bundles.folder / "two-rounds.tar.zst", tmp_path / "wrong.tar.zst", result, b'"p_train": 1', b'"p_train": 2'
    )
    words = ["site", str(good), str(wrong), f"into={tmp_path / 'public'}"]
    assert run_command(words) == 9
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[1][:50]) == (f"refused: {wrong}", f"  {result}: sha256 is"[:50])
    assert any(f"{JOB}/round1: p_train is 212.9, recomputed 112.9" in line for line in lines)
    assert lines[-1] == "no site was made; refused=skip makes the site of the other bundles"
    assert not (tmp_path / "public").exists()
    assert run_command([*words, "refused=skip"]) == 9
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{tmp_path}/public/index.html: 2 rows of 1 bundles, ")


def no_bundle(folder: Path, _: Bundles) -> Path:
    (folder / "no.tar.zst").write_text("something else, of more than a few bytes")
    return folder / "no.tar.zst"


def other_approval(folder: Path, bundles: Bundles) -> Path:
    copy = Path(shutil.copy(bundles.folder / "sweep.tar.zst", folder / "other.tar.zst"))
    shutil.copy(approval_file(bundles.folder / "two-rounds.tar.zst"), approval_file(copy))
    return copy


def other_signature(folder: Path, bundles: Bundles) -> Path:
    old, new = b'"nproc": 2', b'"nproc": 4'
    return changed(bundles.folder / "two-rounds.tar.zst", folder / "other.tar.zst", "statement.json", old, new)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(no_bundle, "not a bundle of flagperf", id="no bundle"),
        pytest.param(other_approval, "the approval is for another bundle", id="approval"),
        pytest.param(other_signature, "the signature is for another statement", id="signature"),
        pytest.param(lambda folder, _: folder / "missing.tar.zst", "this bundle cannot be read", id="missing"),
    ],
)
def test_the_reason_is_named(
    bundles: Bundles, tmp_path: Path, capsys: pytest.CaptureFixture[str], make: object, reason: str
) -> None:
    path = make(tmp_path, bundles)  # type: ignore[operator]
    assert run_command(["site", str(path), f"into={tmp_path / 'public'}"]) == 9
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[1].strip()[: len(reason)]) == (f"refused: {path}", reason)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(("{}", "into={}/public"), "no bundles\n  where:   command line\n  given:   {}\n", id="none"),
        pytest.param(("{}",), "site needs into=\n", id="no folder"),
        pytest.param(("{}", "into={}/a/b"), "no such folder\n  where:   command line\n  key:     into\n", id="parent"),
        pytest.param(("{}", "into={}"), "this folder holds something else than a site\n", id="other folder"),
        pytest.param(("{}", "into={}/b", "refused=no"), "unknown value\n", id="refused"),
    ],
)
def test_a_wrong_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    (tmp_path / "file").write_text("the user's own")
    assert run_command(["site", *(word.replace("{}", str(tmp_path)) for word in words)]) == 2
    assert capsys.readouterr().err.startswith(f"flagperf: {message.replace('{}', str(tmp_path))}")
    assert (tmp_path / "file").read_text() == "the user's own"


def test_an_older_site_is_replaced(bundles: Bundles, tmp_path: Path) -> None:
    words = [f"into={tmp_path / 'public'}"]
    assert run_command(["site", str(bundles.folder), *words]) == 0
    assert run_command(["site", str(bundles.folder / "sweep.tar.zst"), *words]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["public"]
    assert len([*tmp_path.glob("public/bundles/*")]) == 1


# ---------------------------------------------------------------- what a hostile bundle may hold


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hostile:
    """Makes a bundle whose configuration and logs state another value; `verify` accepts the bundle."""

    def make(in_yaml: Texts, in_log: Texts) -> Path:
        runs = tmp_path / "runs"
        shutil.copytree(recorded.RUNS / "two-rounds", runs / "two-rounds")
        for path in (path for path in runs.rglob("*") if path.suffix in (".yaml", ".log")):
            path.write_text(path.read_text().replace(*(in_yaml if path.suffix == ".yaml" else in_log)))
        monkeypatch.setattr(recorded, "RUNS", runs)
        pack(recorded.recorded_run(tmp_path / "result"), tmp_path / "hostile.tar.zst")
        assert run_command(["verify", str(tmp_path / "hostile.tar.zst")]) == 0
        return tmp_path / "hostile.tar.zst"

    return make


def test_markup_in_a_bundle_is_text(hostile: Hostile, tmp_path: Path) -> None:
    markup = "</script><script>alert(1)</script>"
    bundle = hostile(("images/s", markup), ("images/s", markup))
    assert run_command(["site", str(bundle), f"into={tmp_path / 'public'}"]) == 0
    page = (tmp_path / "public/index.html").read_text()
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in page
    assert [path for path in tmp_path.rglob("public/**/*.html") if "<script>alert" in path.read_text()] == []


@pytest.mark.parametrize("price", [pytest.param('"much"', id="text"), pytest.param("[1]", id="list")])
def test_values_of_other_types_are_refused(
    hostile: Hostile, tmp_path: Path, capsys: pytest.CaptureFixture[str], price: str
) -> None:
    in_log = '"power_w": null', f'"power_w": null, "price_per_hour": {price}'
    bundle = hostile(("  power_w: null", f"  power_w: null\n  price_per_hour: {price}"), in_log)
    assert run_command(["site", str(bundle), f"into={tmp_path / 'public'}"]) == 9
    assert f"refused: {bundle}" in capsys.readouterr().out.splitlines()
