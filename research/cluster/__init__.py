"""How a cluster of many workers behaves: what is simulated, and what is measured with stand-ins.

    make research ARGS='cluster [start] [gather] [scheduler] [--workers N …] [--seed N]'

`start` simulates in virtual time how far apart workers begin. `gather` measures the real process
that adds up what workers report, with the report of one worker in place of all. `scheduler`
measures a real scheduler of Dask, with real workers that share two processes.
`README.md` beside this file has a print and what it means.
"""
