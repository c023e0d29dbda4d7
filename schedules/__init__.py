"""Schedule spaces and tuned tables, in the form in which users write them."""

from __future__ import annotations

from asc_sched.tune.space import Space

#: Searched when no space is given. 8 KB and shorter copies only where nothing longer divides the work.
DEFAULT_SPACE = Space()

#: A quick look: no memory knobs.
PLAIN_SPACE = Space(l2_cache="normal", bank_pad=False, pack_inputs=False)
