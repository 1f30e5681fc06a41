"""The parsers of /proc: what is written there comes back, and nothing else ever gets through."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from console.agent import procfs

COMM = st.one_of(
    st.binary(max_size=64),
    st.lists(st.sampled_from([b") S 1 2 3", b" ", b"(", b")", b"\n", b"\xff", b"a", b"0"]), max_size=8).map(b"".join),
)
NUMBER = st.integers(0, 2**63)


def stat_line(comm: bytes, fields: dict[int, int], state: bytes = b"S", last: int = 52) -> bytes:
    """Return a stat line with ``fields`` (numbers as in proc(5)) and zeros elsewhere."""
    rest = b" ".join(b"%d" % fields.get(number, 0) for number in range(4, last + 1))
    return b"%d (%b) %b %b\n" % (fields.get(1, 1), comm, state, rest)


@given(
    comm=COMM,
    state=st.sampled_from([b"R", b"S", b"D", b"T", b"t", b"Z", b"X", b"I"]),
    fields=st.fixed_dictionaries(dict.fromkeys((1, 4, 5, 6, 7, 14, 15, 20, 22, 24, 28), NUMBER)),
    kernel=st.booleans(),
    flags=st.integers(0, 2**32 - 1),
)
def test_the_fields_of_stat_come_back_whatever_comm_is(
    comm: bytes, state: bytes, fields: dict[int, int], kernel: bool, flags: int
) -> None:
    flags = flags | 0x00200000 if kernel else flags & ~0x00200000
    stat = procfs.parse_stat(stat_line(comm, {**fields, 9: flags}, state))
    assert os.fsencode(stat.comm) == comm
    assert stat.state == state.decode()
    assert stat.kernel is kernel
    expected = (*(fields[n] for n in (1, 4, 5, 6, 7)), fields[14] + fields[15], *(fields[n] for n in (20, 22, 24, 28)))
    found = (stat.pid, stat.ppid, stat.pgid, stat.session, stat.tty, stat.cpu_ticks, stat.threads)
    assert (*found, stat.start_ticks, stat.rss_pages, stat.stack) == expected


def test_a_session_outside_the_namespace_and_no_terminal_group_are_numbers_too() -> None:
    stat = procfs.parse_stat(b"7 (a) S -1 -1 -1 -1 -1 0 " + b"0 " * 40)
    assert (stat.ppid, stat.pgid, stat.session, stat.tty) == (-1, -1, -1, -1)


@given(comm=COMM, cut=st.integers(0, 400))
@example(comm=b"a) S 1 2", cut=9)
def test_a_cut_line_is_a_value_error_or_whole_enough(comm: bytes, cut: int) -> None:
    fields = {1: 7, 4: 11, 5: 12, 6: 13, 22: 14, 24: 15, 28: 16}
    line = stat_line(comm, fields)
    try:
        stat = procfs.parse_stat(line[:cut])
    except ValueError:
        return
    # Every field that is used was there: a digit may be missing from the last one alone.
    assert cut >= len(stat_line(comm, fields, last=28).rstrip()) - 1 or b")" in comm
    assert stat.pid == 7


@given(st.one_of(st.binary(max_size=400), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
@example(b"")
@example(b")1 (")
@example(b"1 (a) \xff" + b" 0" * 40)
@example(b"1 (a) S" + b" 0" * 10 + b" " + b"9" * 5000 + b" 0" * 40)
def test_anything_else_is_a_value_error(data: bytes) -> None:
    try:
        stat = procfs.parse_stat(data)
    except ValueError:
        return
    assert b"(" in data and b")" in data and data.split(b"(", 1)[0].strip().replace(b"_", b"").lstrip(b"+-").isdigit()
    assert len(data.rsplit(b")", 1)[1].split()) >= 25
    assert stat.comm == os.fsdecode(data[data.index(b"(") + 1 : data.rindex(b")")])


@given(st.lists(st.binary(max_size=20).map(lambda arg: arg.replace(b"\0", b"")), max_size=8))
def test_an_argument_vector_comes_back(args: list[bytes]) -> None:
    raw = b"".join(arg + b"\0" for arg in args)
    assert [os.fsencode(arg) for arg in procfs.split_cmdline(raw)] == args


@given(st.binary(max_size=60))
def test_an_argument_area_that_was_written_over_is_lost_nowhere(raw: bytes) -> None:
    joined = b"\0".join(os.fsencode(arg) for arg in procfs.split_cmdline(raw))
    assert joined == raw.removesuffix(b"\0")
    assert procfs.split_cmdline(b"") == []


PATH = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20).map(lambda t: "/" + t)


@given(PATH, PATH, PATH)
@example("/job\x0bone", "/", "/")
@example("/job\u2028one", "/", "/")
@example("/a:b:c", "/", "/")
def test_the_cgroup_is_the_most_telling_one(unified: str, systemd: str, pids: str) -> None:
    lines = [f"12:pids:{pids}", "3:cpu,cpuacct:/elsewhere", f"1:name=systemd:{systemd}", f"0::{unified}"]
    expected = next((path for path in (unified, systemd, pids) if path != "/"), None)
    found = procfs.parse_cgroup("\n".join(lines).encode() + b"\n")
    assert found == (expected if expected is not None else pids)


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b"0::/\n", "/"),
        (b"0::/user.slice/x.scope\n", "/user.slice/x.scope"),
        (b"0::/job\xff\n", "/job\udcff"),
        (b"4:memory:/m\n1:cpu:/c\n", "/m"),
        (b"", None),
        (b"garbage\n", None),
    ],
)
def test_cgroup_files_as_found_in_the_field(data: bytes, path: str | None) -> None:
    assert procfs.parse_cgroup(data) == path


@given(st.binary(max_size=100))
def test_no_cgroup_file_is_an_error(data: bytes) -> None:
    found = procfs.parse_cgroup(data)
    assert found is None or os.fsencode(found) in data


def test_what_is_not_there_is_none() -> None:
    free = 2**22 + 1
    assert procfs.read_stat(free) is None
    assert procfs.read_credentials(free) is None
    assert procfs.read_cmdline(free) is None
    assert procfs.read_link(free, "exe") is None
    assert procfs.read_cgroup(free) is None
    assert procfs.read_stat_of_thread(os.getpid(), free) is None


def test_ancestors_go_up_to_and_without_the_first_process() -> None:
    chain = procfs.ancestors(os.getpid())
    assert [pid for pid, _ in chain[:2]] == [os.getpid(), os.getppid()][: len(chain)]
    assert all(pid > 1 for pid, _ in chain)
    starts = [start for _, start in chain]
    assert starts == sorted(starts, reverse=True)
