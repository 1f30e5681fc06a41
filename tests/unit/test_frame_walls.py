"""The walls that import-linter cannot express: what the agent may import at all, and what is imported when."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AGENT_FILES = sorted((ROOT / "console" / "agent").rglob("*.py"))
HEAVY = ("asyncssh", "httpx", "pydantic", "rich", "textual")


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of every module that is imported anywhere in ``tree``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." if node.level else str(node.module)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", AGENT_FILES, ids=lambda p: p.name)
def test_the_agent_imports_the_standard_library_pynvml_and_psutil_only(path):
    allowed = {*sys.stdlib_module_names, "pynvml", "psutil"}
    strangers = {
        name
        for name in imported(parse(path))
        if name.split(".")[0] not in allowed and name != "." and not f"{name}.".startswith("console.agent.")
    }
    assert strangers == set()


@pytest.mark.parametrize("path", AGENT_FILES, ids=lambda p: p.name)
def test_the_agents_annotations_are_never_evaluated(path):
    tree = parse(path)
    annotated = any(isinstance(n, ast.AnnAssign | ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(tree))
    assert not annotated or "annotations" in {
        alias.name for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__" for alias in n.names
    }


@pytest.mark.parametrize("module", ["console.host.connect", "console.demo.main", "console.demo.server", "console.app"])
def test_asyncssh_is_loaded_by_a_connection_and_not_before(module):
    code = f"import sys, {module}; print('asyncssh' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "from console.cli import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        f"print(sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")
    assert done.stdout.startswith("usage: eagle3-console")
