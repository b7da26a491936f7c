"""Reads the files of ssh on this machine as OpenSSH reads them: configuration, keys, certificates and known_hosts.

asyncssh is stricter than OpenSSH. So asyncssh gets a copy of the configuration with the options that it needs, in plain
words, and the keys and entries of known_hosts that can be read. A fault of these files is a ConfigError.
"""

from __future__ import annotations

import functools
import glob
import logging
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from flagperf.config.schema.cluster import Node, Ssh
from flagperf.errors import THIS_MACHINE, ConfigError
from flagperf.hosts.ssh.login import jump_host, local_path, route
from flagperf.user import home, user_path

USUAL_CONFIG = "~/.ssh/config"
USUAL_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
USUAL_KEYS = tuple(f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk"))
MOST_INCLUDES = 16  # files that include each other, as in OpenSSH

# The options that decide how flagperf logs in. flagperf sets the time limits itself, and needs nothing of a terminal.
BLOCKS = ("host", "match")
RAW = ("proxycommand",)  # the rest of the line is one value, also its "#"
KEPT = """
    addressfamily bindaddress canonicaldomains canonicalizefallbacklocal canonicalizehostname canonicalizemaxdots
    canonicalizepermittedcnames casignaturealgorithms certificatefile ciphers compression globalknownhostsfile
    gssapiauthentication gssapidelegatecredentials gssapikeyexchange hostbasedauthentication hostkeyalgorithms
    hostname hostkeyalias identitiesonly identityagent identityfile kbdinteractiveauthentication kexalgorithms macs
    passwordauthentication pkcs11provider preferredauthentications port proxyjump pubkeyauthentication rekeylimit
    sendenv setenv tag tcpkeepalive user userknownhostsfile
"""
USUAL_VALUES = {("identityagent", "SSH_AUTH_SOCK")}  # mean the default
LINE = re.compile(r'\s*(?P<quote>"?)(?P<option>[^\s"=]+)(?P=quote)(?:\s*=\s*|\s+|$)(?P<rest>.*?)\s*')
TOKEN = re.compile(r"%(.)|\$\{(.*?)\}")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoginFiles:
    """What the files of this machine say about the login to one host."""

    host: Node
    options: dict[str, Any]  # of asyncssh.connect
    known_hosts: tuple[str, ...]  # the files with the known keys
    proxy_jump: str | None


def login_files(host: Node, ssh: Ssh) -> LoginFiles:
    """What the files say about the login to a host.

    Raises:
        ConfigError: a file cannot be used.
    """
    home()  # asyncssh looks for files there: without a home it ends with an error that names nothing
    options: dict[str, Any] = {"config": _configuration(ssh)}
    if host.port:
        options["port"] = host.port
    if host.user:
        options["username"] = host.user
    said = _checked(ssh, host, {**options, "client_keys": None, "known_hosts": None})

    def value(option: str, default: Any = None) -> Any:
        return said.config.get(option, default)

    only = bool(value("IdentitiesOnly"))
    if ssh.key:
        options["client_keys"] = [_readable("key", ssh.key)]
    else:
        keys = value("IdentityFile") or USUAL_KEYS
        options["client_keys"] = [key for key in map(local_path, keys) if _can_be_used(key, _pairs(only))]
        options["ignore_encrypted"] = True
    certificates = map(local_path, value("CertificateFile") or ())
    options["client_certs"] = [path for path in certificates if _can_be_used(path, asyncssh.load_certificates)]
    if not ssh.strict:
        files: tuple[str, ...] = ()
        options["known_hosts"] = None
    elif ssh.known_hosts:
        files = (_readable("known_hosts", ssh.known_hosts),)
        options["known_hosts"] = _known_keys(files)
    else:
        named = [value("UserKnownHostsFile", USUAL_KNOWN_HOSTS), value("GlobalKnownHostsFile", GLOBAL_KNOWN_HOSTS)]
        paths = (local_path(_expanded(path, said)) for names in named for path in names)
        files = tuple(filter(_is_readable, paths))
        options["known_hosts"] = _known_keys(files)
    _checked(ssh, host, {**options, "config": []})  # the configuration itself is checked already
    return LoginFiles(host, options, files, value("ProxyJump"))


def hops(node: Node, ssh: Ssh) -> list[LoginFiles]:
    """The logins on the way to a node, one through the other: also those that ProxyJump of the configuration names.

    Raises:
        ConfigError: a jump host is written incorrectly, or a file of ssh cannot be used.
    """
    logins = [login_files(host, ssh) for host in route(node, ssh)]
    known: list[Node] = []
    while logins[0].host not in known and (jump := logins[0].proxy_jump):
        known.append(logins[0].host)
        named = (word.strip().removeprefix("ssh://") for word in jump.split(","))
        hosts = [jump_host(node, word, "ProxyJump of the ssh configuration") for word in named]
        logins = [*(login_files(host, ssh) for host in hosts), *logins]
    return logins


def _checked(ssh: Ssh, host: Node, options: dict[str, Any]) -> asyncssh.SSHClientConnectionOptions:
    """The options as asyncssh takes them. What it refuses here lies on this machine."""
    try:
        return asyncssh.SSHClientConnectionOptions(host=host.address, **options)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        advice = "give a key without passphrase, or use ssh-agent"
        raise _refused("key", ssh.key, f"the private key cannot be used: {error}", advice) from error
    except asyncssh.ConfigParseError as error:
        problem = f"the ssh configuration cannot be used: {_in_original(str(error))}"
    except (ValueError, OSError) as error:
        problem = f"the ssh configuration cannot be used: {error}"
    advice = "correct it there; if OpenSSH reads it, name a simpler file in cluster.ssh.config"
    raise _refused("config", ssh.config or USUAL_CONFIG, problem, advice)


def _refused(key: str, given: str | None, problem: str, advice: str) -> ConfigError:
    return ConfigError(problem, where=THIS_MACHINE, key=f"cluster.ssh.{key}", given=given, advice=advice)


def _is_readable(path: str) -> bool:
    """Whether this user can read a file. A folder is none: OpenSSH reads nothing from it."""
    return Path(path).is_file() and os.access(path, os.R_OK)


def _readable(key: str, given: str) -> str:
    """The path of a file that the cluster's file names."""
    path = local_path(given)
    try:
        Path(path).open("rb").close()
    except OSError as error:
        problem = f"the file cannot be read: {error.strerror}"
        raise _refused(key, given, problem, "correct the ssh section of the cluster file") from error
    return path


def _pairs(only: bool) -> Callable[[str], object]:
    """Loads a private key; also a public one where `only` these keys of the agent may be used."""
    return lambda path: asyncssh.load_keypairs([path], None, (), only, True)


def _can_be_used(path: str, load: Callable[[str], object]) -> bool:
    """Whether a file of keys can be loaded. OpenSSH goes on without a file that cannot."""
    try:
        load(path)
    except (OSError, ValueError) as error:
        log.debug("ssh goes on without %s: %s", path, error)
        return False
    return True


def _expanded(path: str, said: asyncssh.SSHClientConnectionOptions) -> str:
    """The path of a known_hosts file, with OpenSSH's tokens and variables replaced."""
    tokens = {
        "%": "%",
        "d": str(home()),
        "h": said.host,
        "i": str(os.getuid()),
        "k": said.host_key_alias or said.host,
        "n": said.orig_host,
        "p": str(said.port),
        "r": said.username,
    }

    def value(match: re.Match[str]) -> str:
        return tokens.get(match[1], match[0]) if match[1] else os.environ.get(match[2], match[0])

    return TOKEN.sub(value, path)


# --- known_hosts


def _known_keys(files: Sequence[str]) -> asyncssh.SSHKnownHosts:
    """The keys in files of known hosts."""
    return _read_known_hosts(tuple((path, *_version(path)) for path in files))


@functools.lru_cache(maxsize=16)
def _read_known_hosts(files: tuple[tuple[str, int, int], ...]) -> asyncssh.SSHKnownHosts:
    """Without the lines that are no entries. A file is read once for all hosts: it may have thousands of lines."""
    known = asyncssh.SSHKnownHosts()
    for path, *_ in files:
        for number, line in enumerate(Path(path).read_bytes().split(b"\n"), 1):
            words = line.decode("utf-8", errors="replace").split()
            if not words or words[0].startswith("#"):
                continue
            entry = words[: 4 if words[0].startswith("@") else 3]  # the rest is a comment
            try:
                if "-cert-v01@" in entry[-2]:  # a certificate is no key of a host; asyncssh would refuse the file
                    raise ValueError("a certificate")
                known.load(" ".join(entry))
            except (ValueError, IndexError) as error:
                log.debug("ssh goes on without line %d of %s: %s", number, path, error)
    return known


def _version(path: str) -> tuple[int, int]:
    about = Path(path).stat()
    return about.st_mtime_ns, about.st_size


# --- configuration

_copies: dict[str, tuple[str, list[int]]] = {}  # copy of a configuration file: the file, and the lines in it


@functools.cache
def _folder_of_copies() -> tempfile.TemporaryDirectory[str]:
    """Until the end of the process: asyncssh reads the configuration again at each login."""
    return tempfile.TemporaryDirectory(prefix="flagperf-ssh-")


def _configuration(ssh: Ssh) -> list[str]:
    """The configuration for asyncssh: the path of a copy; empty where the user has no configuration."""
    if ssh.config:
        path = _readable("config", ssh.config)
    else:
        path = local_path(USUAL_CONFIG)
        if not _is_readable(path):
            return []
    try:
        return [_copy(path, _version(path), 1)]
    except ValueError as error:
        problem, advice = f"the ssh configuration cannot be used: {error}", "correct it there"
        raise _refused("config", ssh.config or USUAL_CONFIG, problem, advice) from error


@functools.cache
def _copy(path: str, version: tuple[int, int], depth: int) -> str:  # noqa: ARG001
    """A copy of a configuration file in words that asyncssh reads as OpenSSH does. Another version is another copy."""
    lines = list(_lines(path, depth))
    copy = f"{_folder_of_copies().name}/{len(_copies)}"
    Path(copy).write_text("".join(f"{line}\n" for _, line in lines))
    _copies[copy] = path, [number for number, _ in lines]
    return copy


def _lines(path: str, depth: int) -> Iterator[tuple[int, str]]:
    """The lines for asyncssh, each with its number in the file."""
    block = ""
    for number, line in enumerate(Path(path).read_bytes().split(b"\n"), 1):
        match = LINE.fullmatch(line.decode("utf-8", errors="replace"))
        if match is None or match["option"].startswith("#"):
            continue
        option, place = match["option"].lower(), f"{path} line {number}"
        if option in RAW:
            yield number, f"{option} {match['rest']}"
        elif option == "include":
            copies = [_included(file, depth, place) for file in _named(_words(match["rest"], place))]
            if copies:
                yield number, shlex.join(["include", *copies])
                if block:  # asyncssh leaves the block at an Include
                    yield number, block
        elif option in BLOCKS or option in KEPT.split():
            values = _words(match["rest"], place)
            if any((option, value) in USUAL_VALUES for value in values):
                continue
            copied = shlex.join([option, *map(functools.partial(_value, option), values)])
            if option in BLOCKS:
                block = copied
            yield number, copied


def _value(option: str, word: str) -> str:
    """A value in asyncssh's form."""
    if option == "pubkeyauthentication" and word in ("unbound", "host-bound"):
        return "yes"
    if option == "identityagent" and word.startswith("$") and not word.startswith("${"):
        return f"${{{word[1:]}}}"
    return word


def _named(patterns: Sequence[str]) -> Iterator[str]:
    """The files that an Include names. Others than absolute paths lie beside the usual configuration."""
    folder = user_path(USUAL_CONFIG).parent
    for pattern in patterns:
        files = sorted(glob.glob(str(folder / user_path(pattern))))  # noqa: PTH207
        yield from filter(_is_readable, files)


def _included(path: str, depth: int, place: str) -> str:
    if depth > MOST_INCLUDES:
        raise ValueError(f"{place}: more than {MOST_INCLUDES} files include each other")
    return _copy(path, _version(path), depth + 1)


def _words(text: str, place: str) -> list[str]:
    """The words of a line as OpenSSH separates them: "#" at the start of a word begins a comment."""
    found: list[str] = []
    position = 0
    while True:
        position += len(text[position:]) - len(text[position:].lstrip())
        if position >= len(text) or text[position] == "#":
            return found
        word, quote = "", ""
        while position < len(text) and (quote or not text[position].isspace()):
            letter, after = text[position], text[position + 1 : position + 2]
            if letter == "\\" and after and (after in "'\"\\" or (after == " " and not quote)):
                word += after
                position += 1
            elif letter in "'\"" and quote in ("", letter):
                quote = "" if quote else letter
            else:
                word += letter
            position += 1
        if quote:
            raise ValueError(f"{place}: a quotation has no end")
        found.append(word)


def _in_original(message: str) -> str:
    """A message of asyncssh about a copy, with file and line of the original."""

    def place(match: re.Match[str]) -> str:
        if match[1] not in _copies:
            return match[0]
        path, numbers = _copies[match[1]]
        return f"{path} line {numbers[int(match[2]) - 1]}"

    return re.sub(r"^(.*?) line (\d+)(?=: )", place, message)
