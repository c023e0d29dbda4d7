"""Kernels for people who don't have asc_sched: stand-alone pyasc scripts, and CANN custom operator projects."""

from asc_sched.export.cann_op import export_cann_op
from asc_sched.export.script import export_script

__all__ = ["export_cann_op", "export_script"]
