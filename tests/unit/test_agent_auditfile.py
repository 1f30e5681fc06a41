"""The audit file: every record whole and on disk, or a sentence that says why not."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import auditfile
from console.agent.auditfile import AuditFile, default_path

GARBAGE = st.binary(max_size=60).map(lambda line: line.replace(b"\n", b""))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "eagle3-console" / "audit.jsonl"


def test_its_place_is_below_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == str(tmp_path / ".local/state/eagle3-console/audit.jsonl")


def test_records_come_back_in_order_for_their_owner_alone(path: Path) -> None:
    audit = AuditFile(str(path))
    assert audit.tail(10) == ([], 0)
    assert audit.fate("a") is None
    records = [{"action_id": "a", "record": "intent", "argv": ["\udcff\n"]}, {"action_id": "a", "record": "result"}]
    old = os.umask(0)
    try:
        assert [audit.append(record) for record in records] == ["", ""]
    finally:
        os.umask(old)
    assert audit.tail(10) == (records, 0)
    assert audit.tail(1) == (records[1:], 0)
    assert audit.fate("a") == records[1]
    assert audit.fate("b") is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_bytes().count(b"\n") == 2


@given(st.lists(st.one_of(GARBAGE, st.integers(0, 99)), max_size=8), st.binary(max_size=20))
def test_torn_lines_are_counted_and_hide_nothing(lines: list[bytes | int], torn: bytes) -> None:
    path = Path(os.environ["PYTEST_TMP"]) / "audit.jsonl"
    content = b"".join(
        json.dumps({"n": line}).encode() + b"\n" if isinstance(line, int) else line + b"\n" for line in lines
    )
    path.write_bytes(content + torn.replace(b"\n", b""))
    audit = AuditFile(str(path))
    assert audit.append({"n": 100}) == ""
    records, _ = audit.tail(100)
    assert [record["n"] for record in records if "n" in record] == [*(n for n in lines if isinstance(n, int)), 100]
    assert path.read_bytes().startswith(content)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_TMP", str(tmp_path))


@pytest.mark.parametrize("line", [b"{", b"\0\0\0", b"\xff\xfe", b"[1]", b"12", b"[" * 100_000, b'{"a":1}{"b":2}'])
def test_what_is_no_record_is_counted_as_torn(path: Path, line: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"action_id":"a"}\n' + line + b'\n\n{"action_id":"b"}\n')
    records, torn = AuditFile(str(path)).tail(10)
    assert ([record["action_id"] for record in records], torn) == (["a", "b"], 1)
    assert AuditFile(str(path)).fate("a") == {"action_id": "a"}


def test_a_half_record_of_somebody_who_died_is_closed_off(path: Path) -> None:
    audit = AuditFile(str(path))
    audit.append({"n": 1})
    with path.open("ab") as file:
        file.write(b'{"n": 2, "targ')
    assert audit.append({"n": 3}) == ""
    assert path.read_bytes() == b'{"n":1}\n{"n": 2, "targ\n{"n":3}\n'
    assert audit.tail(10) == ([{"n": 1}, {"n": 3}], 1)


def test_only_the_end_of_a_long_file_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = AuditFile(str(path))
    for number in range(100):
        audit.append({"n": number})
    monkeypatch.setattr(auditfile, "TAIL_BYTES", 100)
    records, torn = audit.tail(1000)
    assert torn == 0, "the line in which the window begins is not torn"
    assert [record["n"] for record in records] == list(range(100 - len(records), 100))
    assert 5 <= len(records) <= 15


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.parent.mkdir(parents=True)
    path.symlink_to(victim)
    audit = AuditFile(str(path))
    assert audit.append({"n": 1}).startswith(f"the audit record could not be written to {path}: ")
    assert audit.writable().startswith(f"the audit file {path} cannot be written: ")
    assert victim.read_text() == "precious"


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    audit = AuditFile(str(tmp_path / "file" / "audit.jsonl"))
    assert audit.append({"n": 1}).count("\n") == 0
    assert "cannot be written" in audit.writable()
    assert AuditFile(str(tmp_path / "new" / "audit.jsonl")).writable() == ""
