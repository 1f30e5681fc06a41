"""The audit file under what only real processes do to it: each other, and a full disk."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from console.agent.auditfile import AuditFile
from tests.system.specimens import wait_for

REPOSITORY = Path(__file__).parents[2]

APPEND = """
import sys
from console.agent.auditfile import AuditFile
audit = AuditFile(sys.argv[1])
for number in range(40):
    assert audit.append({"who": sys.argv[2], "n": number, "pad": "x" * int(sys.argv[3])}) == ""
"""

FULL = """
import json, resource, sys
from console.agent.auditfile import AuditFile
audit = AuditFile(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
print(json.dumps([audit.append({"n": 2, "pad": "y" * 5000}), audit.append({"n": 3})]))
"""


def run(script: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_appends_of_several_agents_are_never_mixed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writers = [run(APPEND, str(path), str(who), str(10 ** (who + 1))) for who in range(4)]
    for writer in writers:
        assert writer.communicate()[1] == ""
    records, torn = AuditFile(str(path)).tail(1000)
    assert torn == 0
    for who in range(4):
        assert [record["n"] for record in records if record["who"] == str(who)] == list(range(40))


def test_an_append_waits_for_the_record_of_another(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    failures: list[str] = []
    with path.open("ab", buffering=0) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b'{"n":1,')
        thread = threading.Thread(target=lambda: failures.append(AuditFile(str(path)).append({"n": 2})))
        thread.start()
        waiting = f":{path.stat().st_ino} "
        wait_for(
            lambda: not thread.is_alive() or waiting in "".join(_blocked_locks()),
            "the append waits for the lock",
        )
        other.write(b'"m":1}\n')
        fcntl.flock(other, fcntl.LOCK_UN)
        thread.join(60.0)
    assert failures == [""]
    assert path.read_bytes() == b'{"n":1,"m":1}\n{"n":2}\n'


def _blocked_locks() -> list[str]:
    return [line for line in Path("/proc/locks").read_text().splitlines() if "->" in line]


@pytest.mark.parametrize("room", [1, 100, 4000])
def test_a_full_disk_leaves_no_half_record(tmp_path: Path, room: int) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(str(path))
    audit.append({"n": 1})
    before = path.read_bytes()
    done = run(FULL, str(path), str(len(before) + room))
    out, errors = done.communicate()
    assert errors == ""
    refused, small = json.loads(out)
    assert refused.startswith(f"the audit record could not be written to {path}: ")
    assert "\n" not in refused
    assert (small == "") is (room >= 100), "what fits is written"
    assert path.read_bytes() == before + (b'{"n":3}\n' if small == "" else b"")
    # Once there is room again everything is as if nothing had happened.
    assert audit.append({"n": 4}) == ""
    assert audit.tail(10)[1] == 0


def test_a_full_disk_after_a_torn_line_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"n":1}\n{"n": 2, "ha')
    done = run(FULL, str(path), str(path.stat().st_size + 3))
    assert done.communicate()[1] == ""
    assert path.read_bytes() == b'{"n":1}\n{"n": 2, "ha'
    assert os.path.getsize(path) == 20
