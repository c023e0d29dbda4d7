"""Kernel plans to text, by templates only."""

from asc_sched.emit.kernel import kernel_source

__all__ = ["kernel_source"]
