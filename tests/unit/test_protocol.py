"""The lines of the conversation: what is said arrives, and what is not part of it is refused."""

from __future__ import annotations

import os
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from console.agent import protocol

ARGUMENT = st.binary(max_size=30).map(os.fsdecode)
"""As it comes from /proc: undecodable bytes as lone surrogates."""

VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | ARGUMENT | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ARGUMENT, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(ARGUMENT, VALUE, max_size=6))
@example({"argv": ["\udcff\n\0", "\u2028", "é"]})
def test_every_message_arrives_as_one_ascii_line(message: dict[str, Any]) -> None:
    line = protocol.encode(message)
    assert line.isascii()
    assert line.index(b"\n") == len(line) - 1
    assert protocol.decode(line) == message


@given(st.binary(max_size=200))
@example(b"")
@example(b"\n")
@example(b"[]")
@example(b"12")
@example(b"null")
@example(b'"text"')
@example(b"\xff\xfe{\x00}")
@example(b"\x00\x00\x00{")
@example(b'{"a":' * 200_000)
@example(b"[" * 200_000)
@example(b'{"a":' + b"9" * 100_000 + b"}")
@example(b'{"a":1} {"b":2}')
def test_any_other_line_is_a_protocol_error(line: bytes) -> None:
    try:
        message = protocol.decode(line)
    except protocol.ProtocolError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 1000
        return
    assert isinstance(message, dict)


def test_a_line_of_any_length_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_LINE_BYTES", 100)
    assert protocol.decode(b'{"a":"' + b"x" * 92 + b'"}') == {"a": "x" * 92}
    with pytest.raises(protocol.ProtocolError, match="longer than the protocol allows"):
        protocol.decode(b'{"a":"' + b"x" * 93 + b'"}')


@given(st.text(), st.integers(1, 2**40), st.integers(0, 2**63))
def test_an_identity_comes_back_from_a_list_or_a_tuple(boot: str, pid: int, start: int) -> None:
    assert protocol.identity([boot, pid, start]) == (boot, pid, start)
    assert protocol.identity((boot, pid, start)) == (boot, pid, start)
    wire = protocol.decode(protocol.encode({"id": [boot, pid, start]}))
    assert protocol.identity(wire["id"]) == (boot, pid, start)


@pytest.mark.parametrize(
    "value",
    [
        12,
        "12",
        None,
        [],
        ["b", 12],
        ["b", 12, 3, 4],
        [1, 12, 3],
        ["b", "12", 3],
        ["b", 12, None],
        ["b", True, 3],
        ["b", 12, False],
        ["b", 12.0, 3],
        ["b", 0, 3],
        ["b", -1, 3],
        ["b", 12, -3],
        {"b": 1, "c": 2, "d": 3},
        "b12",
    ],
)
def test_nothing_else_is_an_identity(value: Any) -> None:
    with pytest.raises(protocol.ProtocolError, match="not an identity"):
        protocol.identity(value)


@given(
    st.one_of(st.text(), ARGUMENT, st.text(st.characters(codec="utf-16", categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
)
@example("\x1b[2J\u202egpj.exe\u2066\x9b31m\r\n\t\x7f\udcff\ud800")
def test_nothing_that_moves_the_cursor_or_turns_the_text_is_shown(text: str) -> None:
    shown = protocol.printable(text)
    assert len(shown) == len(text)
    assert shown.isprintable()
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert shown.encode("utf-8").decode() == shown
    assert all(new == old for old, new in zip(text, shown, strict=True) if old.isprintable())
    assert protocol.printable(shown) == shown


def test_what_was_hidden_can_still_be_told_apart() -> None:
    assert protocol.printable("a\nb\tc\x00\x1b\x7f") == "a⏎b⇥c␀␛␡"


@given(st.lists(ARGUMENT, min_size=1, max_size=6), st.text(max_size=15))
def test_a_command_line_is_one_printable_line(argv: list[str], comm: str) -> None:
    line = protocol.command_line(argv, comm)
    assert line.isprintable()
    assert line


@pytest.mark.parametrize(
    ("argv", "comm", "line"),
    [
        (["python3", "a b", ""], None, "python3 'a b'"),
        (["sh", "-c", "it's"], None, "sh -c 'it'\\''s'"),
        (["x", "", "y"], None, "x '' y"),
        (["sglang::scheduler", "", "", ""], None, "sglang::scheduler"),
        ([], "kworker/0:1", "[kworker/0:1]"),
        ([""], "a\nb", "[a⏎b]"),
        ([], None, "[?]"),
    ],
)
def test_command_lines(argv: list[str], comm: str | None, line: str) -> None:
    assert protocol.command_line(argv, comm) == line
