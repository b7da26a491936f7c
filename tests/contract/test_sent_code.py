"""The identity of the code: the same on the launcher and where its archive was unpacked, another for other code."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from flagperf.contract.sent_code import NO_CODE, PACKAGES, files, identities, identity
from flagperf.hosts.payload import code_archive


def test_sent_code_has_the_launchers_identity(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(code_archive())) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "cases/__pycache__").mkdir()
    (tmp_path / "cases/__pycache__/task.pyc").write_bytes(b"compiled there")
    sent = {package: identity(tmp_path / package) for package in PACKAGES}
    assert sent == identities()


def test_other_code_has_another_identity(tmp_path: Path) -> None:
    file = tmp_path / "task.py"
    found = set()
    for text in ("loss = 1", "loss = 0"):
        file.write_text(text)
        found.add(identity(tmp_path))
    found.add(identity(file.rename(tmp_path / "other.py").parent))
    assert len(found) == 3


def test_what_is_sent_of_a_package_and_of_other_code(tmp_path: Path) -> None:
    """A wheel of flagperf has files beside its code; a folder of somebody's own may have any names."""
    for name in (
        "cases/z.py",
        "commit.txt/z",
        "conf/a.py",
        "docs/b.md",
        "vendors/c.py",
        "d/conf/e.py",
        "d/__pycache__/e.pyc",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    own = [path.relative_to(tmp_path).as_posix() for path in files(tmp_path)]
    assert own == ["cases/z.py", "commit.txt/z", "conf/a.py", "d/conf/e.py", "docs/b.md", "vendors/c.py"]
    assert list(files(tmp_path, NO_CODE)) == [tmp_path / "d/conf/e.py"]
