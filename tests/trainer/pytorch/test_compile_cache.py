"""torch.compile loads code that lies in its folder: only this user may have put it there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.compile_cache import VARIABLE, use_own_compile_cache

OTHERS: dict[str, Callable[[Path], object]] = {
    "another user's": lambda folder: (folder.mkdir(), os.chown(folder, 1234, 1234)),
    "a link": lambda folder: folder.symlink_to(folder.parent),
    "open to all": lambda folder: (folder.mkdir(), folder.chmod(0o777)),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)
    return tmp_path / f"flagperf-torchinductor-{os.getuid()}"


def test_it_is_made_for_this_user_alone(folder: Path) -> None:
    use_own_compile_cache()
    use_own_compile_cache()
    assert (os.environ[VARIABLE], folder.stat().st_mode & 0o777) == (str(folder), 0o700)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make folders of another user")
@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS.keys())
def test_one_that_others_can_write_to_is_refused(make: Callable[[Path], object], folder: Path) -> None:
    make(folder)
    with pytest.raises(ConfigError) as caught:
        use_own_compile_cache()
    assert str(caught.value) == (
        f"another user could put code into the folder of torch.compile\n  where:   {folder}\n"
        f"  do:      remove it, or name another folder in {VARIABLE}"
    )
    assert VARIABLE not in os.environ
