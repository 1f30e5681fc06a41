"""known_hosts: which keys a host may present, where that is written, and the file of the console's own.

The format is that of sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT". The lines are matched here and not by asyncssh because a
refusal must name file and line, and because one bad line must not take the whole file with it. Standard library only.
"""

from __future__ import annotations

import base64
import binascii
import enum
import fnmatch
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from console.host.errors import LinkRefused

DEFAULT_PORT = 22
USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
OWN_FILE = "~/.local/state/eagle3-console/known_hosts"

HOST, AUTHORITY, REVOKED = "", "cert-authority", "revoked"


class Verdict(enum.Enum):
    """What known_hosts says of a key that a host presented."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line of a known_hosts file that matches a host. ``role``: host key, certificate authority or revoked key."""

    role: str
    algorithm: str
    blob: bytes
    path: Path
    line: int

    @property
    def openssh(self) -> bytes:
        """The key as a line of an OpenSSH public key file."""
        return self.algorithm.encode("ascii") + b" " + base64.b64encode(self.blob)


@dataclass(frozen=True, slots=True)
class KnownHost:
    """Everything the files say of one host; ``exact`` is False when only entries without its port were found."""

    name: str
    keys: tuple[KnownKey, ...] = ()
    exact: bool = True

    def of(self, role: str) -> tuple[KnownKey, ...]:
        """Return the keys of one role."""
        return tuple(key for key in self.keys if key.role == role)

    def judge(self, blob: bytes) -> Verdict:
        """Return the verdict on a presented key (its public blob, as it goes over the wire)."""
        if any(key.blob == blob for key in self.of(REVOKED)):
            return Verdict.REVOKED
        hosts = self.of(HOST)
        if any(key.blob == blob for key in hosts):
            return Verdict.TRUSTED
        # As in ssh: an entry for port 22 can vouch for another port of that host, but never speak against it.
        return Verdict.CHANGED if hosts and self.exact else Verdict.UNKNOWN


def fingerprint(blob: bytes) -> str:
    """Return the ``SHA256:…`` fingerprint that ``ssh-keygen -lf`` prints."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii").rstrip("=")


def algorithm_of(blob: bytes) -> str:
    """Return the key type that a public blob begins with."""
    size = int.from_bytes(blob[:4], "big")
    return blob[4 : 4 + size].decode("ascii", "replace")


def entry_name(host: str, port: int = DEFAULT_PORT) -> str:
    """Return the name of a host in known_hosts: ``host`` or ``[host]:port``, in lower case."""
    return host.lower() if port == DEFAULT_PORT else f"[{host.lower()}]:{port}"


def look_up(files: Iterable[Path], host: str, port: int = DEFAULT_PORT, alias: str | None = None) -> KnownHost:
    """Return what ``files`` say of a host. With an ``alias`` (HostKeyAlias) that name alone counts, as in ssh.

    Raises:
        LinkRefused: a file is there and cannot be read; it may hold the line that speaks against the host.
    """
    lines = [entry for path in files for entry in _entries(path)]
    name = alias.lower() if alias else entry_name(host, port)
    found = tuple(key for patterns, key in lines if _matches(patterns, name))
    if alias or port == DEFAULT_PORT or any(key.role != REVOKED for key in found):
        return KnownHost(name, found)
    bare = entry_name(host)
    return KnownHost(name, (*found, *(key for patterns, key in lines if _matches(patterns, bare))), exact=False)


def store(path: Path, name: str, blob: bytes) -> None:
    """Append a key to the console's own file, made with mode 0600 where it is missing.

    Raises:
        LinkRefused: it cannot be written.
    """
    entry = f"{name} {algorithm_of(blob)} {base64.b64encode(blob).decode('ascii')}\n".encode()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(handle, 0o600)
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                entry = b"\n" + entry
            # One write of an append-only handle: two consoles cannot tear each other's lines.
            os.write(handle, entry)
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise LinkRefused(
            f"The host key could not be stored in {path}: {error.strerror}; make it writable or set `known_hosts`"
        ) from None


def changed_text(host: str, blob: bytes, known: KnownHost) -> str:
    """Return the refusal for a key that is not the known one: both fingerprints, the line, and what to do."""
    old = next((key for key in known.of(HOST) if key.algorithm == algorithm_of(blob)), known.of(HOST)[0])
    return (
        f"The host key of {host} has changed: it presents {algorithm_of(blob)} {fingerprint(blob)}, "
        f"but {old.path} line {old.line} has {old.algorithm} {fingerprint(old.blob)}. Someone may be listening in; "
        "if the host was installed anew, compare the new fingerprint on its own screen, run "
        f"`ssh-keygen -f '{old.path}' -R '{known.name}'`, and connect again"
    )


def revoked_text(host: str, blob: bytes, known: KnownHost) -> str:
    """Return the refusal for a revoked key."""
    key = next(key for key in known.of(REVOKED) if key.blob == blob)
    return (
        f"The host key of {host}, {algorithm_of(blob)} {fingerprint(blob)}, is revoked by {key.path} line {key.line}; "
        "the host must be given a new key"
    )


def files_to_read(user: Sequence[str], system: Sequence[str], own: Path) -> tuple[Path, ...]:
    """Return the files that count, given what ssh config names for the user and for the system.

    ``none`` and ``/dev/null`` never switch checking off: they count as if they were not there.
    """
    named_user = [name for name in user if not _names_nothing(name)]
    named_system = [name for name in system if not _names_nothing(name)]
    names = [*(named_user or USER_FILES), *(named_system or GLOBAL_FILES)]
    return tuple(dict.fromkeys([*(Path(name).expanduser() for name in names), own]))


def _names_nothing(name: str) -> bool:
    return name.lower() in ("", "none", "/dev/null")


def _entries(path: Path) -> Iterator[tuple[str, KnownKey]]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise LinkRefused(
            f"{path} cannot be read ({error.strerror}), so no host key can be checked against it"
        ) from None
    for number, line in enumerate(text.split("\n"), start=1):
        entry = _entry(line, path, number)
        if entry:
            yield entry


def _entry(line: str, path: Path, number: int) -> tuple[str, KnownKey] | None:
    """Return the patterns and the key of one line; None for a comment and for what is no entry."""
    fields = line.split()
    role = HOST
    if fields and fields[0].startswith("@"):
        role = fields.pop(0)[1:]
    if len(fields) < 3 or fields[0].startswith("#") or role not in (HOST, AUTHORITY, REVOKED):
        return None
    try:
        blob = base64.b64decode(fields[2], validate=True)
    except (ValueError, binascii.Error):
        return None
    if algorithm_of(blob) != fields[1]:
        return None
    return fields[0], KnownKey(role, fields[1], blob, path, number)


def _matches(patterns: str, name: str) -> bool:
    if patterns.startswith("|"):
        return _hash_matches(patterns, name)
    found = False
    for pattern in patterns.lower().split(","):
        if pattern.startswith("!"):
            if _glob(pattern[1:], name):
                return False
        elif _glob(pattern, name):
            found = True
    return found


def _glob(pattern: str, name: str) -> bool:
    # Only * and ? are special there; [ belongs to [host]:port.
    return pattern == name or fnmatch.fnmatchcase(name, re.sub(r"[\[\]]", lambda m: f"[{m[0]}]", pattern))


def _hash_matches(pattern: str, name: str) -> bool:
    try:
        _, magic, salt, digest = pattern.split("|")
        expected = base64.b64decode(digest, validate=True)
        actual = hmac.new(base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1).digest()
    except (ValueError, binascii.Error):
        return False
    return magic == "1" and hmac.compare_digest(actual, expected)
