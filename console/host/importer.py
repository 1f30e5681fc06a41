"""Runs on the host, not here: imports the agent's modules from memory, so that nothing is written to the host's disk.

:mod:`console.host.bootstrap` sends this file's source as the module ``_boot``; Python >= 3.9, standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

FILE_PREFIX = "<eagle3-console>/"
"""Begins every file name in a traceback. No file has such a name, so none on the host can be taken for the source."""


class BundleImporter:
    """Finds and loads the modules of a bundle; their top-level names come from nowhere else.

    A module is compiled when it is first imported: pynvml alone takes a quarter of a second.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._roots = {name.partition(".")[0] for name in sources}
        self._packages = {name.rpartition(".")[0] for name in sources if "." in name}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of the bundle, None for a name that is not the bundle's.

        Raises:
            ModuleNotFoundError: the name is under one of the bundle's packages, and the bundle does not have it.
        """
        if name in self._sources:
            # A loader is known by its methods; importlib.abc, where its class is, costs the host 5 ms.
            loader: Any = self
            spec = ModuleSpec(name, loader, origin=self.get_filename(name), is_package=name in self._packages)
            spec.has_location = True
            return spec
        if name.partition(".")[0] in self._roots:
            raise ModuleNotFoundError(f"No module named {name!r} in what the console sent", name=name)
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None: an ordinary module will do."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's source."""
        name = module.__name__
        exec(compile(self._sources[name], self.get_filename(name), "exec", dont_inherit=True), module.__dict__)

    def get_filename(self, name: str) -> str:
        """Return the name that tracebacks show."""
        return FILE_PREFIX + name.replace(".", "/") + ("/__init__.py" if name in self._packages else ".py")

    def get_source(self, name: str) -> str:
        """Return the module's source; linecache asks for it."""
        return self._sources[name]

    def is_package(self, name: str) -> bool:
        """Return whether the module is a package."""
        return name in self._packages


def print_traceback(kind: Any, error: Any, trace: Any) -> None:
    """Print an uncaught error with its source lines; the built-in hook looks for them on the disk only."""
    import traceback

    traceback.print_exception(kind, error, trace)


def start(sources: Mapping[str, str]) -> None:
    """Install the importer and run the agent; returns when the agent does."""
    importer = BundleImporter(sources)
    for name in list(sys.modules):
        # Something at the start of the host's Python may have imported another module of the same name.
        if name in sources or name.partition(".")[0] in ("console", "pynvml"):
            del sys.modules[name]
    sys.meta_path.insert(0, importer)
    sys.excepthook = print_traceback
    from console.agent.main import main

    main()
