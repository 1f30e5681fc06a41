"""Secrets do not leave the host, and what is no secret stays readable."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from console.agent.masking import MASK, is_secret_name, mask_argv, mask_text

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
PLAIN = st.text(LETTERS + "+/_.~%^*-", min_size=10, max_size=30).map(lambda tail: "Qz" + tail)
"""Has no character that ends a word anywhere."""

ODD = st.text(LETTERS + "+/_.-'\"$&|;@:=? \\{}", min_size=10, max_size=30).map(lambda tail: "Qz" + tail + "zQ")

FLAGS = ("--api-key", "--api_key", "-api-key", "--hf-token", "--password", "--model.secret", "--authToken", "--key")
NAMES = ("API_KEY", "HF_TOKEN", "OPENAI_APIKEY", "AWS_SECRET_ACCESS_KEY", "MYSQL_PWD", "DB_PASSWORD", "apiKey", "auth")

WHOLE: dict[str, Callable[[str], list[str]]] = {
    "value after a flag": lambda v: ["x", "--api-key", v, "--port", "8000"],
    "value after a short form": lambda v: ["x", "-api-key", v],
    "flag=value": lambda v: ["x", f"--api-key={v}", "--port", "8000"],
    "variable": lambda v: ["env", f"API_KEY={v}", "python", "run.py"],
    "header": lambda v: ["curl", "-H", f"X-Api-Key: {v}"],
    "header with a scheme": lambda v: ["curl", "-H", f"Authorization: ApiKey {v}"],
    "cookie": lambda v: ["curl", "-H", f"Cookie: theme=dark; session={v}"],
    "JSON": lambda v: ["x", json.dumps({"a": 1, "api_key": v, "port": 8000})],
    "nested JSON": lambda v: ["x", json.dumps({"body": json.dumps({"password": v}), "port": 8000})],
    "JSON flag": lambda v: ["x", "--headers=" + json.dumps({"Authorization": f"Bearer {v}"})],
}
"""How any secret at all may be given."""

INSIDE: dict[str, Callable[[str], list[str]]] = {
    "variable in a script": lambda v: ["bash", "-lc", f"cd /data && API_KEY={v} python run.py --port 8000"],
    "first in a script": lambda v: ["sh", "-c", f"API_KEY={v} python run.py --port 8000"],
    "variable in quotes": lambda v: ["sh", "-c", f'env "API_KEY={v}" python run.py'],
    "half in quotes": lambda v: ["sh", "-c", f"API_KEY=abc'{v}' run"],
    "exported": lambda v: ["sh", "-c", f"export API_KEY='{v}'; run"],
    "flag in a script": lambda v: ["sh", "-c", f"run --api-key {v} --port 8000"],
    "flag in quotes": lambda v: ["sh", "-c", f'run "--api-key" "{v}" --port 8000'],
    "flag over two lines": lambda v: ["sh", "-c", f"run --api-key \\\n    {v} \\\n  --port 8000"],
    "flag=value in a script": lambda v: ["sh", "-c", f"run --api-key={v} --port 8000"],
    "flag in the value of a flag": lambda v: ["sh", "-c", f'run --extra "--api-key {v}" --port 8000'],
    "list of arguments": lambda v: ["python", "-c", f"run(['x', '--api-key', '{v}', '--port'])"],
    "JSON list": lambda v: ["x", json.dumps(["x", "--api-key", v, "--port"], separators=(",", ":"))],
    "pair in the value of a flag": lambda v: ["x", f"--set=model.api_key={v}"],
    "hydra": lambda v: ["x", f"++model.api_key={v}"],
    "Python": lambda v: ["python", "-c", f"client = Client(api_key='{v}', port=8000)"],
    "escaped JSON in a script": lambda v: ["sh", "-c", f'curl -d "{{\\"api_key\\": \\"{v}\\"}}" h'],
    "header in a script": lambda v: ["sh", "-c", f"curl -H 'Authorization: Bearer {v}' http://h/"],
    "YAML": lambda v: ["x", f"port: 8000\napi_key: {v}\n"],
    "query": lambda v: ["curl", f"https://h/v1?user=me&api_key={v}&port=8000"],
    "query in a flag": lambda v: ["x", f"--url=https://h/v1?api_key={v}"],
    "password of a URL": lambda v: ["x", f"--db=postgres://me:{v.replace('/', '')}@db.host/name"],
    "bearer anywhere": lambda v: ["x", f"sent bearer {v.translate(str.maketrans('', '', '%^*'))}"],
}
"""Where it stands among other text, so it cannot hold what ends a word there."""


def survives(secret: str, argv: list[str], form: Callable[[str], list[str]]) -> bool:
    """Return whether six characters in a row of ``secret`` can still be read, other than in the words around it."""
    text, around = "\0".join(argv), "\0".join(form("")).lower()
    pieces = [secret[at : at + 6] for at in range(len(secret) - 5)]
    return any(piece in text for piece in pieces if piece.lower() not in around)


@pytest.mark.parametrize("form", WHOLE)
@given(secret=ODD)
@example(secret="Qz'x\" y; z&zQ9876543210")
@example(secret='Qz\\"abcdefghijklmnopzQ')
def test_no_secret_survives_as_an_argument(form: str, secret: str) -> None:
    argv = WHOLE[form](secret)
    masked = mask_argv(argv)
    assert len(masked) == len(argv)
    assert not survives(secret, masked, WHOLE[form]), masked
    assert MASK in "".join(masked)
    assert mask_argv(masked) == masked
    assert ("8000" in "".join(masked)) == ("8000" in "".join(argv)), "what is beside it stays readable"


@pytest.mark.parametrize("form", INSIDE)
@given(secret=PLAIN)
def test_no_secret_survives_inside_other_text(form: str, secret: str) -> None:
    argv = INSIDE[form](secret)
    masked = mask_argv(argv)
    assert len(masked) == len(argv)
    assert not survives(secret, masked, INSIDE[form]), masked
    assert mask_argv(masked) == masked
    assert ("8000" in "".join(masked)) == ("8000" in "".join(argv)), "what is beside it stays readable"


@given(name=st.sampled_from(NAMES), flag=st.sampled_from(FLAGS), secret=ODD)
def test_every_name_of_a_secret_is_known(name: str, flag: str, secret: str) -> None:
    argv = ["x", flag, secret, f"{flag}={secret}", f"{name}={secret}", json.dumps({name: secret})]
    masked = mask_argv(argv)
    assert masked[:5] == ["x", flag, MASK, f"{flag}={MASK}", f"{name}={MASK}"]
    assert json.loads(masked[5]) == {name: MASK}


@given(secret=ODD)
def test_a_quoted_secret_in_a_script(secret: str) -> None:
    assume("'" not in secret)
    masked = mask_argv(["sh", "-c", f"run --api-key {shlex.quote(secret)} --port 8000"])
    assert masked == ["sh", "-c", f"run --api-key {MASK} --port 8000"]


ORDINARY: list[list[str]] = [
    ["python3", "-m", "sglang.launch_server", "--tokenizer", "meta/Llama", "--tokenizer-path", "/m", "--port", "30000"],
    ["x", "--max-tokens", "10240", "--short-max-tokens", "512", "--max-total-tokens=1_000_000", "--max-new-tokens=64"],
    ["x", "--partition", "all", "--output-dir", "/data/out", "--dataset=ultrachat", "LANG=C.UTF-8", "CUDA_VISIBLE=0,1"],
    ["x", "--stop-token-ids", "128001", "128009", "--token-ids", "a,b", "--skip-tokenizer-init", "--keyframes=12"],
    ["sh", "-c", "cd /work && python run.py --max-tokens 10240 --tokenizer X 2>&1 | tee log.txt"],
    ["sh", "-c", "for i in 1 2; do echo $i >> out; done; MAX_TOKENS=1024 run --lr=1e-4"],
    ["x", '{"max_tokens": 1024, "temperature": 0.7, "stop": ["a", "b"], "token_ids": [1, 2]}'],
    ["curl", "http://localhost:8000/v1/models", "-H", "Content-Type: application/json"],
    ["x", "https://user@host:8080/path?page=2", "git@github.com:owner/name.git", "a:b:c", "10:30:00", "C:/x"],
    ["x", "--monkey-patch", "yes", "--keyboard", "de", "--tokenize-only", "true"],
    ["kworker/0:1", "", "-", "--", "=", ":", "'", '"', "\\", "a=", "=b"],
]


@pytest.mark.parametrize("argv", ORDINARY, ids=lambda argv: " ".join(argv)[:40])
def test_what_is_no_secret_is_not_touched(argv: list[str]) -> None:
    assert mask_argv(argv) == argv


def test_a_flag_after_a_flag_is_no_value() -> None:
    assert mask_argv(["x", "--use-auth-token", "--port", "80"]) == ["x", "--use-auth-token", "--port", "80"]
    assert mask_argv(["x", "--api-key", "-p", "80"]) == ["x", "--api-key", "-p", "80"]
    assert mask_argv(["x", "--api-key"]) == ["x", "--api-key"]
    assert mask_argv(["x", "--api-key", "-dash-secret", "80"]) == ["x", "--api-key", MASK, "80"]


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-abcdefghijklmnop",
        "hf_abcdefghijklmnopqrst",
        "ghp_abcdefghijklmnopqrst",
        "github_pat_abcdefghijklmnopqrst",
        "xoxb-1234567890-abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA1234567890abcdefghijk",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghij",
    ],
)
def test_well_known_kinds_need_no_name(text: str) -> None:
    assert mask_argv(["x", "--value", text]) == ["x", "--value", MASK]
    assert mask_argv(["x", f"prefix {text} suffix"]) == ["x", f"prefix {MASK} suffix"]


@given(st.lists(st.text(st.sampled_from(" \n\"'\\=:-,{}[]@/&ab1") | st.sampled_from(LETTERS), max_size=60), max_size=5))
def test_any_argument_vector_keeps_its_length(argv: list[str]) -> None:
    masked = mask_argv(argv)
    assert len(masked) == len(argv)
    assert all(shown == real or MASK in shown or not is_plain(real) for shown, real in zip(masked, argv, strict=True))


def is_plain(text: Any) -> bool:
    return text.isalnum()


@pytest.mark.parametrize(
    "unit",
    [" ", "a", "=", "-", '"', "'", "\\", "a=", "a://b:", "eyJaaaaaaaaaa-", "--a ", 'key="', "key: ", '\\"key\\": '],
)
def test_no_argument_takes_more_than_linear_time(unit: str) -> None:
    # 100 kB in steps that only a quadratic pattern could not take: it would need minutes, and the test would hang.
    text = unit * (100_000 // len(unit))
    assert len(mask_text(text, script=True)) <= len(text) + len(MASK) * 100_000


@pytest.mark.parametrize(
    ("name", "secret"), [("api_key", True), ("tokenizer", False), ("max_tokens", True), ("x", False)]
)
def test_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret
