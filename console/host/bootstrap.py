"""The agent as it travels: its modules in one bundle, and the one line of Python that unpacks and runs them."""

from __future__ import annotations

import importlib.resources
import importlib.util
import json
import zlib
from collections.abc import Mapping

from console.host.errors import LinkRefused

BOOTSTRAP = (
    '"eagle3-console agent";import sys;sys.path=[p for p in sys.path if p];import json;sys.version_info<(3,9)and'
    '[sys.stdout.write(json.dumps(dict(ev="fatal",kind="python",text=sys.version.split()[0]))+chr(10)),sys.exit(3)];'
    'import zlib;b=sys.stdin.buffer;m=json.loads(zlib.decompress(b.read(int(b.readline()))));g=dict(__name__="_boot");'
    'exec(m["_boot"],g);g["start"](m)'
)
"""The program for ``python3 -c``.

It goes between single quotes through whatever shell the user has on the host, so it holds no single quote, backslash,
``!`` or newline: sh, csh and fish treat them differently. It must parse on Python 2.7, to say that this is too old. Its
first string names the process in the host's process list. An empty entry of ``sys.path`` is the home folder there: a
``json.py`` in it would be run in place of the real one.
"""


def build_bundle(extra_modules: Mapping[str, str] | None = None) -> bytes:
    """Return the agent's modules, ready to be written to the standard input of :data:`BOOTSTRAP`.

    ``extra_modules`` (name → source) are added to those of ``console.agent`` and pynvml, or replace them.
    The format: the number of bytes as a decimal line, then that many bytes of zlib-compressed JSON {name: source}.

    Raises:
        LinkRefused: this installation has no usable pynvml.
    """
    modules = {"_boot": _source_of("console.host", "importer.py"), "console": ""}
    for entry in sorted(importlib.resources.files("console.agent").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            stem = entry.name[: -len(".py")]
            name = "console.agent" if stem == "__init__" else f"console.agent.{stem}"
            modules[name] = entry.read_text(encoding="utf-8")
    modules.update(extra_modules or {})
    if "pynvml" not in modules:
        modules["pynvml"] = _pynvml_source()
    packed = zlib.compress(json.dumps(modules).encode("ascii"), 6)
    return b"%d\n%b" % (len(packed), packed)


def _source_of(package: str, file: str) -> str:
    return importlib.resources.files(package).joinpath(file).read_text(encoding="utf-8")


def _pynvml_source() -> str:
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.loader is None or not hasattr(spec.loader, "get_source"):
        raise LinkRefused("This machine lacks pynvml, which the agent on the host needs; run: pip install nvidia-ml-py")
    if spec.submodule_search_locations is not None:
        raise LinkRefused(
            "The pynvml on this machine is the discontinued package of that name; "
            "run: pip uninstall pynvml; pip install --force-reinstall nvidia-ml-py"
        )
    source: str = spec.loader.get_source("pynvml")
    return source
