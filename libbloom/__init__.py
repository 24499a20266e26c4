"""Not the package `libbloom`, but what finds it for programs that are started in this folder.

The server's module lies here as libbloom.so, which Python would take for the package. It prefers a folder.
"""

import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path

_here = Path(__file__).resolve().parents[1]
_spec = PathFinder.find_spec(__name__, [place for place in sys.path if Path(place).resolve() != _here])
if _spec is None or _spec.loader is None:
    raise ImportError("the Python package libbloom is not installed; python/README.md says how", name=__name__)
sys.modules[__name__] = _module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
