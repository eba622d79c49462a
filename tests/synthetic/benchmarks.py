"""What a benchmark of Go's prints, and the workload of an arm that is one."""

from __future__ import annotations

from trilane.lab.experiment.workload import Workload

HEAD = "goos: linux\ngoarch: amd64\npkg: example.test/book\ncpu: Some CPU @ 2.00GHz\n"
ROW = (
    "BenchmarkGRPC/GRPC_GetBook-8         \t   32599\t     36980 ns/op"
    "\t    9495 B/op\t     178 allocs/op"
)
WORKLOAD = Workload(kind="benchmark", paths=(), duration_s=0.05)
