"""Masking the values of secret-looking arguments, in the agent, before anything leaves the host.

Every pattern takes time linear in the text: an argument of 100 kB without any secret is ordinary.
"""

from __future__ import annotations

import re
from typing import Callable, List, Sequence, Tuple

MASK = "\u2022\u2022\u2022\u2022"

_SECRET = re.compile(
    r"key|token|secret|passw|passphrase|passwd|\bpwd\b|credential|bearer|authorization|\bauth\b", re.IGNORECASE
)
_NOT_SECRET = re.compile(
    r"tokeni[sz]|detokeni|keyboard|keyframe|keypoint|keyword|monkey|tokens?[-_]?ids?\b", re.IGNORECASE
)
_NUMBER = re.compile(r"[-+]?[0-9][0-9_,.]{0,11}\Z")
_FLAG = re.compile(r"-{1,2}([A-Za-z][A-Za-z0-9_.-]*)\Z")
_FLAG_VALUE = re.compile(r"(-{0,2})([A-Za-z_][A-Za-z0-9_.-]*)=(.*)\Z", re.DOTALL)
_SCRIPT_FLAG = re.compile(r"-[a-z]{0,3}c\Z")
_SHORTEST = len("KEY=a")

# Inside longer text (sh -c '…', JSON, headers).
_WORD = r"[A-Za-z0-9_.-]"
_BLANKS = r"[ \t]{0,8}"
_ASSIGNMENT = re.compile(r"(?<!%s)(%s{1,128})%s(?::=|={1,3})%s" % (_WORD, _WORD, _BLANKS, _BLANKS))
# Also the items of a list: "--api-key", "VALUE"; and a value on the next line after a backslash.
_FLAG_BEFORE_VALUE = re.compile(
    r"(?<![^\s\"'\[(,=])-{1,2}(%s{1,128})(?:[\"'],|[\"']?,?(?:\\\n|\s)(?:\\\n|[ \t]){0,200})[ \t]{0,8}" % _WORD
)
# A quote that is not closed runs to the end; one in the middle of a value counts only if it is closed within the word.
_VALUE = re.compile(
    r"(?:\"(?:[^\"\\]|\\.)*(?:\"|\Z)|'[^']*(?:'|\Z))?(?:\"[^\"\s]*\"|'[^'\s]*'|\\.|[^\s\"';&|\\])*", re.DOTALL
)
_JSON = re.compile(r"[\"'](%s{1,128})\\{0,16}[\"']\s{0,8}:\s{0,8}" % _WORD)
# In text within JSON within a script the quotes are escaped; the value ends at a quote that is escaped as its first is.
_JSON_VALUE = re.compile(
    r"(\\{1,16})([\"']).*?(?<!\\)\1\2|(\")(?:[^\"\\]|\\.)*\"|(')(?:[^'\\]|\\.)*'|[^\s\"'\\,}\]{\[]+", re.DOTALL
)
_COLON = re.compile(r"(?<![A-Za-z0-9_./-])([A-Za-z][A-Za-z0-9_-]{0,80})(%s:)([ \t]{0,8})" % _BLANKS)
_COOKIES = frozenset(("cookie", "set-cookie"))
_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)
_LINE = re.compile(r"[^\r\n]*")
_LINE_IN_QUOTES = re.compile(r"[^\r\n\"']*")
_BEARER = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_USERINFO = re.compile(r"((?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://[^/\s:@\"']{0,256}:)[^/\s\"']+@", re.IGNORECASE)
_KNOWN = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{12,}|hf_[A-Za-z0-9]{12,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{20,}"
    r"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_.-]{10,})"
)


_QUOTES = ("'", '"')
_CONSTANTS = frozenset(("null", "true", "false", "None", "True", "False"))
_ValueOf = Callable[[str, "re.Match[str]"], Tuple[str, str]]


def is_secret_name(name: str) -> bool:
    """Return whether a flag, variable or key of this name usually carries a secret."""
    return bool(_SECRET.search(_NOT_SECRET.sub("", name.replace("_", "-"))))


def mask_argv(argv: Sequence[str]) -> List[str]:
    """Return ``argv`` with every secret-looking value replaced by ``MASK``; the length of the vector stays.

    Counts such as ``--max-tokens 10240`` stay: a plain number after a *token* flag is no secret.
    """
    masked: List[str] = []
    pending = ""
    before = ""
    for arg in argv:
        flag = _FLAG.match(arg)
        # A secret may begin with a dash; only what is surely the next flag ends the wait for a value.
        if pending and not (flag and (arg.startswith("--") or len(arg) == 2)):
            masked.append(arg if _is_count(pending, arg) else MASK)
            pending = ""
        else:
            pending = flag.group(1) if flag and is_secret_name(flag.group(1)) else ""
            masked.append(arg if flag else mask_text(arg, script=bool(_SCRIPT_FLAG.match(before))))
        before = arg
    return masked


def mask_text(text: str, script: bool = False) -> str:
    """Return one argument with the secrets inside it masked: assignments, nested flags, JSON, URLs, headers.

    ``script``: the argument is a shell's or interpreter's program, so a leading ``NAME=`` ends at the next blank.
    """
    whole = None if script else _FLAG_VALUE.match(text)
    if whole and _carries_secret(whole.group(2), whole.group(3)):
        return "%s%s=%s" % (whole.group(1), whole.group(2), MASK)
    if len(text) < _SHORTEST:
        return text
    text = _mask_after(_JSON, _json_value, text)
    text = _mask_after(_ASSIGNMENT, _assigned_value, text)
    text = _mask_after(_FLAG_BEFORE_VALUE, _flag_value, text)
    text = _mask_headers(text, script)
    text = _BEARER.sub(lambda m: m.group(1) + " " + MASK, text)
    text = _USERINFO.sub(lambda m: m.group(1) + MASK + "@", text)
    return _KNOWN.sub(MASK, text)


def _carries_secret(name: str, value: str) -> bool:
    return is_secret_name(name) and not _is_count(name, value)


def _is_count(name: str, value: str) -> bool:
    return "token" in name.lower() and "key" not in name.lower() and bool(_NUMBER.match(value))


def _mask_after(pattern: "re.Pattern[str]", value_of: _ValueOf, text: str) -> str:
    """Return ``text`` with the value masked that follows each match of ``pattern`` (group 1: a name) if it is secret.

    The value of a name that is no secret is not skipped: it may hold a pair of its own.
    """
    kept: List[str] = []
    done = at = 0
    while True:
        match = pattern.search(text, at)
        if match is None:
            return "".join(kept) + text[done:]
        at = match.end()
        if not is_secret_name(match.group(1)):
            continue
        value, shown = value_of(text, match)
        if value and not _is_count(match.group(1), value):
            kept += (text[done:at], shown)
            done = at = at + len(value)


def _json_value(text: str, match: "re.Match[str]") -> Tuple[str, str]:
    found = _JSON_VALUE.match(text, match.end())
    if found is None or found.group(0) in _CONSTANTS:
        return "", ""
    slashes, escaped, double, single = found.groups()
    quote = slashes + escaped if slashes else double or single or ""
    return found.group(0), quote + MASK + quote


def _assigned_value(text: str, match: "re.Match[str]") -> Tuple[str, str]:
    at, before = match.end(), text[max(0, match.start() - 1) : match.start()]
    if before in _QUOTES and text[at : at + 1] not in _QUOTES:
        # The whole pair is in quotes: "NAME=value with blanks".
        closing = text.find(before, at)
        return text[at : closing if closing >= 0 else len(text)], MASK
    return _bare_value(text, at)


def _flag_value(text: str, match: "re.Match[str]") -> Tuple[str, str]:
    return ("", "") if text[match.end() : match.end() + 1] == "-" else _bare_value(text, match.end())


def _bare_value(text: str, at: int) -> Tuple[str, str]:
    found = _VALUE.match(text, at)
    return (found.group(0) if found else "", MASK)


def _mask_headers(text: str, script: bool) -> str:
    kept: List[str] = []
    done = at = 0
    while True:
        match = _COLON.search(text, at)
        if match is None:
            return "".join(kept) + text[done:]
        name, at = match.group(1), match.end()
        if not (is_secret_name(name) or name.lower() in _COOKIES):
            continue
        if name.lower() in _COOKIES or (is_secret_name(name) and ("-" in name or name.lower() == "authorization")):
            scheme = _SCHEME.match(text, at)
            at = scheme.end() if scheme else at
            rest = (_LINE if match.start() == 0 and not script else _LINE_IN_QUOTES).match(text, at)
        elif match.group(3):
            rest = _VALUE.match(text, at)
        else:
            continue
        value = rest.group(0) if rest else ""
        if value and (name.lower() in _COOKIES or _carries_secret(name, value)):
            kept += (text[done:at], MASK)
            done = at = at + len(value)
