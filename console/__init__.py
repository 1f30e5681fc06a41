"""eagle3-console: watch a GPU host and act on exactly the processes you saw."""

__version__ = "0.1.0"
