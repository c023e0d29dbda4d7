"""The errors of a built library."""

from __future__ import annotations


class LibraryError(RuntimeError):
    """Something is wrong with the library's files, or with how it is loaded."""


class ClashError(LibraryError):
    """Two libraries define the same operator."""


class NoKernelError(TypeError, ValueError):
    """The library has no kernel for these dtypes or this size."""


class BackendError(RuntimeError):
    """There is nothing here to run kernels on."""
