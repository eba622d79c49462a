"""Results of other load generators: whose they are, in which units, and what they do not tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilane.lab.generators import reading, samples
from trilane.lab.model.beside import Told
from trilane.lab.storage.runs import BadRun

FILES = Path(__file__).parent / "files"


def told(name: str) -> Told:
    found = reading.read(FILES / name)
    assert found is not None
    return found


def test_oha_tells_seconds_and_counts_what_the_end_cut_off() -> None:
    run = told("oha.json")
    assert (run.tool, run.duration_s, run.target) == ("oha", 2.0, None)
    requests = run.requests
    assert (requests.ok, requests.failed, requests.unfinished) == (19_950, 30 + 10, 20)
    assert requests.status == {"200": 19_950, "503": 30}
    assert requests.errors == {"connection closed before message completed": 10}
    assert run.requests_per_s == 19_950 / 2
    assert run.own_rate is not None
    assert run.own_rate.per_s == 10_005
    assert run.latency is not None
    assert (run.latency.p50, run.latency.p99, run.latency.max) == (0.0028, 0.0149, 0.0451)
    assert run.latency.p99_9 == 0.0302
    # It would take 100,000 responses.
    assert run.latency.p99_99 is None
    assert any("--latency-correction" in each for each in run.unsaid)
    assert run.judged.verdict == "invalid"
    assert [reason.code for reason in run.judged.reasons] == ["failed"]


def test_oha_without_a_response_has_no_latency() -> None:
    run = told("oha-nothing.json")
    assert (run.requests.ok, run.requests.failed, run.latency) == (0, 4, None)
    assert run.requests_per_s == 0
    assert [reason.code for reason in run.judged.reasons] == ["nothing_ok"]


def test_k6_counts_failures_as_what_passes_and_tells_milliseconds() -> None:
    run = told("k6-export.json")
    assert run.format == "k6 --summary-export"
    assert (run.requests.ok, run.requests.failed, run.requests.unfinished) == (995, 5, None)
    # Without its length, from count and rate.
    assert run.duration_s == 10
    assert run.requests_per_s == 99.5
    assert run.latency is not None
    # Of the expected responses, not of all.
    assert run.latency.mean == pytest.approx(0.0047)
    assert run.latency.p50 == pytest.approx(0.0040)
    assert run.latency.p95 == pytest.approx(0.0109)
    assert run.latency.p99 is None
    assert run.bytes_received == 384_000


def test_k6_tells_the_same_to_handle_summary() -> None:
    run = told("k6-handle.json")
    assert run.format == "k6 handleSummary()"
    assert run.duration_s == pytest.approx(20.0005)
    assert run.requests.ok == 20_000
    assert run.latency is not None
    assert run.latency.p99 == pytest.approx(0.0215)
    assert run.latency.p99_9 == pytest.approx(0.04425)
    assert run.judged.verdict == "valid"


def test_k6_lists_its_metrics_in_the_newest_shape() -> None:
    run = told("k6-machine.json")
    assert (run.tool_version, run.duration_s) == ("1.6.0", 10.5)
    assert (run.requests.ok, run.requests.failed) == (2079, 21)
    assert run.latency is not None
    assert run.latency.p90 == pytest.approx(0.0088)


def test_vegeta_reports_nanoseconds_and_errors_without_counts() -> None:
    run = told("vegeta-report.json")
    assert run.duration_s == pytest.approx(10)
    assert (run.requests.ok, run.requests.failed, run.requests.unfinished) == (1995, 5, 0)
    assert run.requests.status == {"200": 1995, "500": 2}
    assert set(run.requests.errors.values()) == {None}
    # What vegeta calls its throughput.
    assert run.requests_per_s == pytest.approx(199.5)
    assert run.own_rate is not None
    assert run.own_rate.per_s == pytest.approx(200.1, rel=1e-4)
    assert run.latency is not None
    assert run.latency.p50 == pytest.approx(0.0041)
    assert run.latency.p99 == pytest.approx(0.0215)


def test_vegeta_results_are_read_one_by_one() -> None:
    run = told("vegeta-results.jsonl")
    assert run.target == "http://127.0.0.1:8080/hello"
    assert (run.requests.ok, run.requests.failed) == (3, 2)
    assert run.requests.status == {"200": 3, "503": 1}
    assert run.requests.errors == {'Get "http://127.0.0.1:8080/hello": EOF': 1}
    # From the first to the end of the last response.
    assert run.duration_s == pytest.approx(0.5, abs=1e-5)
    assert run.requests_per_s == pytest.approx(6, rel=1e-4)
    assert run.latency is not None
    assert (run.latency.min, run.latency.p50, run.latency.max) == pytest.approx((0.002, 0.004, 0.1))
    assert run.bytes_received == 37


def test_the_report_of_h2load_has_a_table_of_times() -> None:
    run = told("h2load.txt")
    assert run.duration_s == 1.75
    assert (run.requests.ok, run.requests.failed, run.requests.unfinished) == (99_950, 50, 0)
    assert run.requests.status == {"2xx": 99_950, "4xx": 30}
    assert run.requests.errors == {"timeout": 5, "errored": 15}
    assert run.latency is not None
    assert (run.latency.min, run.latency.max) == pytest.approx((0.000436, 0.04108))
    assert (run.latency.mean, run.latency.stdev) == pytest.approx((0.00829, 0.00223))
    assert run.latency.p50 is None
    assert run.bytes_received == 3_303_800


def test_the_columns_of_h2load_are_those_that_it_names() -> None:
    run = told("h2load-quantiles.txt")
    assert run.latency is not None
    assert (run.latency.p50, run.latency.p95, run.latency.p99) == pytest.approx(
        (0.007, 0.0125, 0.02025)
    )
    assert (run.latency.max, run.latency.mean) == pytest.approx((1.2, 0.00829))


def test_the_log_of_h2load_tells_every_request(tmp_path: Path) -> None:
    log = tmp_path / "h2load.log"
    lines = [f"{1_700_000_000_000_000 + 1000 * n}\t200\t{n + 1}" for n in range(1000)]
    log.write_text("\n".join([*lines, "1700000001000000\t-1\t77", "1700000001500000\t404\t5"]))
    run = reading.read(log)
    assert run is not None
    assert (run.requests.ok, run.requests.failed) == (1000, 2)
    assert run.requests.status == {"200": 1000, "404": 1}
    assert run.requests.errors == {"failed streams": 1}
    assert run.duration_s == pytest.approx(1.500005)
    assert run.latency is not None
    assert (run.latency.p50, run.latency.p99) == pytest.approx((500e-6, 990e-6))
    assert run.latency.p99_9 is None


@pytest.mark.parametrize(("count", "known"), [(999, False), (1000, True)])
def test_a_quantile_needs_ten_samples_beyond_it(count: int, known: bool) -> None:
    found = samples.measured([1.0] * count, 1.0)
    assert (found.p99 is not None) == known
    assert found.p50 == 1


def test_documents_of_ours_are_left_to_others(tmp_path: Path) -> None:
    ours = tmp_path / "run.json"
    ours.write_text('{"schema": "trilane.run/1"}')
    assert reading.read(ours) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"some": "thing"}', "is no result of a load generator that is known"),
        (b'[{"some": "thing"}]', "is no result of a load generator that is known"),
        (b"Running 10s test @ http://a/\n", "oha --output-format json"),
        (b"\x0d\xff\x81\x03\x01\x00gob", "vegeta encode -to json"),
        (b'{"summary": ', "is not a JSON file"),
        (
            b'{"type":"Point","metric":"http_reqs","data":{"value":1}}\n{"type":"Point"}',
            "--summary-export FILE",
        ),
        (
            b'{"summary":{"total":"2"},"latencyPercentiles":{},"statusCodeDistribution":{}}',
            "is damaged, or of a version that is not known",
        ),
        (b'{"metrics":{"vus":{"value":1}}}', "the test sent no HTTP requests"),
        (b'{"metrics":{"http_reqs":{"count":1,"rate":1}}}', "nobody knows how many were ok"),
        (b"1700000000000000\t200\t5\nnonsense\n", "line 2 is none of h2load's log"),
    ],
)
def test_what_is_none_is_named_with_what_would_be(
    tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "result.txt"
    file.write_bytes(content)
    with pytest.raises(BadRun) as caught:
        reading.read(file)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
