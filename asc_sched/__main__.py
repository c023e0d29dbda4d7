"""`python -m asc_sched` is `asc-sched`."""

from asc_sched.cli import main

main()
