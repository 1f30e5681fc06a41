"""Masking the values of secret-looking arguments, in the agent, before anything leaves the host."""

from __future__ import annotations

import re
from typing import List, Sequence

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
_WORD = r"[A-Za-z0-9_.-]"

# Inside longer text (sh -c '…', JSON, headers). The value ends at a quote, a blank or a separator.
_INSIDE_ASSIGNMENT = re.compile(r"(?<![A-Za-z0-9_.-])(%s{0,80})(\s*=\s*)(\"[^\"]*\"|'[^']*'|[^\s\"';&|]+)" % _WORD)
_INSIDE_FLAG = re.compile(r"(?<!\S)-{1,2}(%s{1,80})(\s+)(\"[^\"]*\"|'[^']*'|[^\s\"';&|-][^\s\"';&|]*)" % _WORD)
_INSIDE_JSON = re.compile(r"([\"'])(%s{1,80})\1(\s*:\s*)(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')" % _WORD)
_HEADER = re.compile(
    r"((?:authorization|api-key|x-api-key|x-auth-token|cookie)\s*:\s*)(?:(bearer|basic|token)\s+)?[^\s\"']+",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_USERINFO = re.compile(r"([a-z][a-z0-9+.-]*://[^/\s:@]*:)[^@/\s]+@", re.IGNORECASE)
_KNOWN = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{12,}|hf_[A-Za-z0-9]{12,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_.-]{10,})"
)


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
    if whole and is_secret_name(whole.group(2)) and not _is_count(whole.group(2), whole.group(3)):
        return "%s%s=%s" % (whole.group(1), whole.group(2), MASK)
    if len(text) < 8:
        return text
    text = _INSIDE_JSON.sub(_mask_json, text)
    text = _INSIDE_ASSIGNMENT.sub(_mask_pair, text)
    text = _INSIDE_FLAG.sub(_mask_flag, text)
    text = _HEADER.sub(lambda m: m.group(1) + (m.group(2) + " " if m.group(2) else "") + MASK, text)
    text = _BEARER.sub(lambda m: m.group(1) + " " + MASK, text)
    text = _USERINFO.sub(lambda m: m.group(1) + MASK + "@", text)
    return _KNOWN.sub(MASK, text)


def _is_count(name: str, value: str) -> bool:
    return "token" in name.lower() and "key" not in name.lower() and bool(_NUMBER.match(value))


def _mask_json(match: "re.Match[str]") -> str:
    quote, name, colon, value = match.groups()
    if not is_secret_name(name):
        return match.group(0)
    return "%s%s%s%s%s%s%s" % (quote, name, quote, colon, value[0], MASK, value[0])


def _mask_pair(match: "re.Match[str]") -> str:
    name, equals, value = match.groups()
    if not is_secret_name(name) or _is_count(name, value):
        return match.group(0)
    return name + equals + MASK


def _mask_flag(match: "re.Match[str]") -> str:
    name, blank, value = match.groups()
    if not is_secret_name(name) or _is_count(name, value):
        return match.group(0)
    return match.group(0)[: match.start(2) - match.start(0)] + blank + MASK
