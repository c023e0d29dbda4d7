"""Schedule spaces and tuned tables, in the form in which users write them."""

from __future__ import annotations

from collections.abc import Mapping

from asc_sched.target import TARGETS
from asc_sched.tune.space import Space

#: Core counts follow the target, tile lengths its UB. 8 KB and shorter copies only where nothing longer divides the
#: work.
DEFAULT_SPACE = Space()

#: A quick look: no memory knobs.
PLAIN_SPACE = Space(l2_cache="normal", bank_pad=False, pack_inputs=False)

#: What is searched on a target when no space is given.
TARGET_SPACES: Mapping[str, Space] = dict.fromkeys(TARGETS, DEFAULT_SPACE)
