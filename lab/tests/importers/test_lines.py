"""Lines from outside: one that is broken is named by number, and the others are read."""

from __future__ import annotations

import gzip

import pytest
from statediff_lab.importers import recorded
from statediff_lab.importers.recorded import (
    BadLine,
    NotARun,
    RunLine,
    parse,
    read_lines,
    without_labels,
)

from statediff.errors import InputError


def written(folder, content, name="runs.jsonl.gz"):
    path = folder / name
    path.write_bytes(content)
    return path


def test_lines_are_numbered_as_in_the_file_and_blank_ones_are_none(tmp_path):
    path = written(tmp_path, gzip.compress(b'{"a": 1}\n\n  \n{"a": 2}'))
    assert [(line.number, line.data) for line in read_lines(path)] == [
        (1, b'{"a": 1}'),
        (4, b'{"a": 2}'),
    ]


def test_a_file_that_is_not_compressed_reads_the_same(tmp_path):
    path = written(tmp_path, b'{"a": 1}\n', "runs.jsonl")
    assert [line.number for line in read_lines(path)] == [1]


@pytest.mark.parametrize("cut", [30, 200, 2000])
def test_a_gzip_that_breaks_off_yields_what_it_held_and_says_where_it_ended(tmp_path, cut):
    whole = gzip.compress(b"".join(b'{"n": "%032x"}\n' % (i**9) for i in range(2000)))
    found = list(read_lines(written(tmp_path, whole[:-cut])))
    assert all(isinstance(line, RunLine) for line in found[:-1])
    assert isinstance(found[-1], BadLine)
    assert "damaged" in found[-1].why


def test_a_gzip_with_a_flipped_byte_is_told_not_trusted(tmp_path):
    whole = bytearray(gzip.compress(b"".join(b'{"n": %d}\n' % i for i in range(3000))))
    whole[-6] ^= 1  # the checksum
    assert isinstance(list(read_lines(written(tmp_path, bytes(whole))))[-1], BadLine)


def test_a_line_beyond_the_bound_is_skipped_whole_and_the_next_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "MAX_LINE_BYTES", 64)
    path = written(tmp_path, gzip.compress(b"x" * 1000 + b"\n" + b'{"a": 1}\n'))
    first, second = read_lines(path)
    assert isinstance(first, BadLine)
    assert (first.number, second.number, second.data) == (1, 2, b'{"a": 1}')


def test_a_file_that_is_not_there_is_the_callers_to_mend(tmp_path):
    with pytest.raises(InputError, match="expected a file of runs"):
        list(read_lines(tmp_path / "none.jsonl.gz"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"a": 1, "a": 2}', "stands twice"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": 1e999999}', "out of range"),
        (b'{"a": 1e99999999999999999999}', "out of range"),
        (b'{"a": ' + b"9" * 500 + b"}", "more than 400 digits"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b"[1]", "expected a JSON object"),
        (b'{"a"', "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"a": ' + b"[" * 500 + b"]" * 500 + b"}", "nested deeper"),
        (b'{"a": ' + b"[" * 100_000, "nested deeper|not JSON"),
    ],
)
def test_what_is_no_unambiguous_object_is_no_run(data, why):
    with pytest.raises(NotARun, match=why):
        parse(RunLine("f", 1, data))


def test_no_label_is_left_but_the_name_of_the_gold():
    line = {
        "run_id": "r",
        "passed": True,
        "score": {},
        "failures": [],
        "status": "passed",
        "official": {"reward": 1},
        "labels": {"recorded_task": {"gold_key": "k", "db_match": True}, "tau3": {"label": 1}},
    }
    assert without_labels(line) == {"run_id": "r", "labels": {"recorded_task": {"gold_key": "k"}}}
    assert without_labels({"labels": 5}) == {}
    assert without_labels({"labels": {"recorded_task": {"gold_key": 5}}}) == {}
