"""One load from many machines, which dask.distributed places, starts and collects.

It comes with the extra `trilane[cluster]`. `load.Cluster` is what others call; `docs/cluster.md`
says how a cluster is started.
"""
