"""Hardware as data: the SoCs, and (in sibling modules) the instruction table and the timing constants."""

from asc_sched.target.soc import TARGETS, Target, get_target

__all__ = ["TARGETS", "Target", "get_target"]
