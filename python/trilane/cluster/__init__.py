"""One load from many machines, placed and collected by dask.distributed (the extra `trilane[cluster]`).

`load.Cluster` is what others call; `docs/cluster.md` says how a cluster is started.
"""
