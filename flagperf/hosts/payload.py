"""Sends the code of the launcher and the secret variables of the ranks to a host."""

from __future__ import annotations

import gzip
import io
import shlex
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from flagperf.contract.sent_code import NO_CODE, PACKAGES, files, package_folder
from flagperf.errors import HostError
from flagperf.hosts.shell import script, shell
from flagperf.hosts.transport import Transport

UNPACK = script(__file__, "unpack.sh")
UNPACK_TIMEOUT = 60.0  # seconds
WRITE_SECRETS = 'umask 077 && rm -f "$1" && set -C && cat >"$1"'  # -C: always a new file, never the target of a link
WRITE_TIMEOUT = 10.0  # seconds


async def send_code(transport: Transport, target: str, code_dirs: tuple[Path, ...]) -> None:
    """Unpack the code into the folder `target` of a host.

    Args:
        code_dirs: folders of other packages for the same folder. Of two files with one name the first counts.
    """
    archive = f"{target}.tar.gz"
    with tempfile.NamedTemporaryFile() as file:
        file.write(code_archive(code_dirs))
        file.flush()
        await transport.put(Path(file.name), archive)
    completed = await transport.run(shell(UNPACK, target, archive), timeout=UNPACK_TIMEOUT)
    if completed.exit_status != 0:
        raise HostError(transport.host, f"the code cannot be unpacked in {target}: {completed.stderr.strip()}")


async def send_secrets(transport: Transport, path: str, secrets: Mapping[str, str]) -> None:
    """Write a shell file with the secret variables on a host. Only its user may read the file, from its creation on.

    The values reach the host as input of a command. No command line and no file of the launcher contains them.
    """
    lines = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in secrets.items())
    completed = await transport.run(shell(WRITE_SECRETS, path), timeout=WRITE_TIMEOUT, stdin=lines.encode())
    if completed.exit_status != 0:
        raise HostError(transport.host, f"{path} cannot be written: {completed.stderr.strip()}")


@cache
def code_archive(code_dirs: tuple[Path, ...] = ()) -> bytes:
    """A tar.gz of the packages. The same code always gives the same bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in _files(code_dirs):
            content = path.read_bytes()
            entry = tarfile.TarInfo(name.as_posix())
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(stream.getvalue(), compresslevel=4, mtime=0)


def _files(code_dirs: tuple[Path, ...]) -> Iterator[tuple[Path, Path]]:
    """The files of the packages: name in the archive and path on this machine."""
    for package in PACKAGES:
        folder = package_folder(package)
        for path in files(folder, NO_CODE):
            yield Path(package, path.relative_to(folder)), path
    for folder in reversed(code_dirs):
        for path in files(folder):
            yield path.relative_to(folder), path
