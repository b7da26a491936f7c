"""The image of a round, read back from sys_info.log."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagperf.results.image import with_image

IMAGE = "os: Linux\nimage: acme:1\nimage_id: sha256:ab\nimage_digest: r/acme@sha256:cd\n\nimage: of a tool's output\n"


@pytest.mark.parametrize(
    ("text", "image"),
    [
        pytest.param(IMAGE, {"reference": "acme:1", "id": "sha256:ab", "digest": "r/acme@sha256:cd"}, id="container"),
        pytest.param("os: Linux\n\nimage: of a tool's output\n", None, id="no container"),
        pytest.param(None, None, id="no file"),
    ],
)
def test_with_image(text: str | None, image: dict[str, str] | None, tmp_path: Path) -> None:
    (tmp_path / "a_noderank0").mkdir()
    if text is not None:
        (tmp_path / "a_noderank0" / "sys_info.log").write_text(text)
    built = {"device_name": "A1", "software": {"code": {"cases": "ab"}}}
    software = {"code": {"cases": "ab"}} | ({"image": image} if image else {})
    assert with_image(built, tmp_path) == {"device_name": "A1", "software": software}
    assert with_image({}, tmp_path) == {}
