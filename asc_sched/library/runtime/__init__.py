"""What a built library runs on: its manifest, the choice of a kernel, memory layout, backends, torch registration.

These modules are copied into every library. They need torch, and pyasc on an NPU; where there is no NPU, the simulator
of asc_sched.
"""

from .library import BuiltLibrary, open_library

__all__ = ["BuiltLibrary", "open_library"]
