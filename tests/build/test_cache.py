"""The cache on disk: hits, corrupt entries, its size, many processes at once."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from asc_sched import files
from asc_sched.build import Cache, lower
from asc_sched.build.cache import _MAGIC, default_cache, limit_from_env
from asc_sched.files import TEMP_SUFFIX
from asc_sched.paths import open_folder
from tests.build.kernels import exp_request, nth
from tests.build.processes import ROOT, python

KEY, OTHER = "ab" * 32, "cd" * 32
TEXTS = {"asc_ir": "module {\n}\n", "ascendc": "// 昇腾\n"}


def entry_file(cache: Cache, key: str = KEY) -> Path:
    path = cache.path_of(key)
    assert path is not None
    return path


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# -- hits ------------------------------------------------------------------------------------------------------
def test_texts_come_back_as_they_were_put(cache: Cache) -> None:
    assert cache.get(KEY) is None
    for texts in (TEXTS, {"empty": ""}, {}, {"odd": "\r\n\0\ud800"}):
        cache.put(KEY, texts)
        assert cache.get(KEY) == texts
    assert cache.get(OTHER) is None


def test_lowering_twice_runs_pyasc_once(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = lower(exp_request(), cache=cache)
    monkeypatch.setattr("asc_sched.build.api.shared", None)
    again = Cache(open_folder(cache.folder or Path()))
    second = lower(exp_request(), cache=again)
    assert first == second and (first.cached, second.cached) == (False, True)
    assert [lower(exp_request(), cache=again).ascendc] == [first.ascendc]


def test_default_cache_lies_where_the_environment_says_and_only_its_owner_has_access(tmp_path: Path) -> None:
    lower(nth(1))
    folder = tmp_path / "user cache" / "lower"
    assert default_cache().folder == folder
    entries = [path for path in folder.rglob("*") if path.is_file() and path.name != "last_trim"]
    assert len(entries) == 1
    assert folder.stat().st_mode & 0o777 == 0o700


def test_refused_and_crashed_kernels_leave_no_entry(cache: Cache) -> None:
    from asc_sched.errors import CompileError
    from tests.build.kernels import crash_request, tiny

    for request in (tiny("bad", "nonsense(x)"), crash_request()):
        with pytest.raises(CompileError):
            lower(request, cache=cache)
    assert cache.use().entries == 0


def test_key_that_could_leave_the_folder_is_refused(cache: Cache) -> None:
    for key in ("../../etc/passwd", "ab", "AB" * 32, "a" * 64 + "\n"):
        with pytest.raises(ValueError, match="is not 64 hex digits"):
            cache.put(key, TEXTS)


# -- corrupt entries -------------------------------------------------------------------------------------------
def corruptions(good: bytes) -> dict[str, bytes]:
    import hashlib

    def signed(rest: bytes) -> bytes:
        return _MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest

    return {
        "empty": b"",
        "half": good[: len(good) // 2],
        "not utf-8": b"\xff\xfe\x00",
        "one bit": good[:-3] + bytes([good[-3] ^ 1]) + good[-2:],
        "appended": good + b" ",
        "other version": good.replace(b"asc_sched cache 1 ", b"asc_sched cache 2 "),
        "plain json": json.dumps({"asc_ir": "x", "ascendc": "y"}).encode(),
        "signed for another key": signed(json.dumps({"key": OTHER, "parts": []}).encode() + b"\n"),
        "signed, header of other shape": signed(b'{"key": 1}\n'),
        "signed, header is a list": signed(b"[1, 2]\n"),
        "signed, header is no json": signed(b"\x80\x04K\x01.\n"),
        "signed, parts of wrong type": signed(json.dumps({"key": KEY, "parts": [["asc_ir", "many"]]}).encode() + b"\n"),
        "signed, text is no utf-8": signed(json.dumps({"key": KEY, "parts": [["asc_ir", 2]]}).encode() + b"\n\xff\xfe"),
        "digest cut off": _MAGIC + b"00",
    }


@pytest.mark.parametrize("kind", list(corruptions(b"x" * 8)))
def test_corrupt_entry_is_a_miss_with_one_warning_and_is_written_anew(
    kind: str, cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    cache.put(KEY, TEXTS)
    path = entry_file(cache)
    path.write_bytes(corruptions(path.read_bytes())[kind])
    assert cache.get(KEY) is None and cache.get(KEY) is None
    assert len(warnings_of(caplog)) == 1 and str(path) in caplog.text
    cache.put(KEY, TEXTS)
    assert cache.get(KEY) == TEXTS


def test_entry_without_the_texts_that_are_asked_for_is_lowered_again(cache: Cache) -> None:
    request = nth(3)
    key = request.key("1.1.1")
    cache.put(key, {"asc_ir": "only half"})
    assert "void fill_3(" in lower(request, cache=cache).ascendc
    assert lower(request, cache=cache).cached


@pytest.mark.parametrize("what", ["folder", "pipe", "link", "dangling link", "device"])
def test_something_else_in_an_entrys_place_is_a_miss_and_nothing_breaks(
    what: str, cache: Cache, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.put(KEY, TEXTS)
    path = entry_file(cache)
    path.rename(tmp_path / "elsewhere")
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"link": tmp_path / "elsewhere", "device": "/dev/zero"}.get(what, tmp_path / "nowhere"))
    assert cache.get(KEY) is None
    assert len(warnings_of(caplog)) == 1
    cache.put(KEY, TEXTS)
    assert cache.get(KEY) == TEXTS  # from memory where a folder is in the way
    assert (tmp_path / "elsewhere").read_bytes().startswith(_MAGIC)


# -- size ------------------------------------------------------------------------------------------------------
def key_of(index: int) -> str:
    return f"{index:064x}"


def test_size_stays_within_the_limit_and_the_longest_unused_go_first(tmp_path: Path) -> None:
    cache = Cache(open_folder(tmp_path / "c"), limit_bytes=100_000)
    for index in range(60):
        cache.put(key_of(index), {"t": "x" * 5000})
        os.utime(entry_file(cache, key_of(index)), (index, index))
        if index >= 8:
            cache.get(key_of(0))  # in use: renewed
        assert cache.use().used_bytes <= 106_000
    assert cache.get(key_of(0)) is not None
    assert cache.get(key_of(59)) is not None
    assert cache.get(key_of(10)) is None
    assert cache.use().entries >= 14


def test_entry_larger_than_the_limit_is_not_kept_and_drives_nothing_out(tmp_path: Path) -> None:
    cache = Cache(open_folder(tmp_path / "c"), limit_bytes=10_000)
    cache.put(KEY, TEXTS)
    cache.put(OTHER, {"t": "x" * 20_000})
    assert cache.get(OTHER) is None and cache.get(KEY) == TEXTS


def test_a_process_that_writes_little_does_not_look_through_the_folder_each_time(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    monkeypatch.setattr(Cache, "trim", lambda self: looks.append(1) or self._stamp().touch())
    for index in range(20):
        cache.put(key_of(index), TEXTS)
    again = Cache(open_folder(cache.folder or Path()))
    again.put(KEY, TEXTS)
    assert len(looks) == 1


def test_temporary_files_of_killed_processes_are_removed_in_time(cache: Cache) -> None:
    cache.put(KEY, TEXTS)
    shelf = entry_file(cache).parent
    old, new = shelf / f".1{TEMP_SUFFIX}", shelf / f".2{TEMP_SUFFIX}"
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (1, 1))
    cache.trim()
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1000", 1000), ("200M", 200 << 20), ("2 GiB", 2 << 30), ("1kb", 1024), ("", 512 << 20), ("3B", 3)],
)
def test_limit_is_read_from_the_environment(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASC_SCHED_CACHE_SIZE", text)
    assert limit_from_env() == size


def test_unreadable_limit_is_told_once_and_the_default_holds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ASC_SCHED_CACHE_SIZE", "lots")
    assert limit_from_env() == limit_from_env() == 512 << 20
    assert len(warnings_of(caplog)) == 1 and "ASC_SCHED_CACHE_SIZE='lots'" in caplog.text


def test_limit_zero_means_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASC_SCHED_CACHE_SIZE", "0")
    lower(nth(1))
    assert not lower(nth(1)).cached
    assert list((tmp_path / "user cache" / "lower").iterdir()) == []


def test_clear_empties_it(cache: Cache) -> None:
    for index in range(5):
        cache.put(key_of(index), TEXTS)
    assert cache.use().entries == 5 and cache.use().used_bytes > 500
    cache.clear()
    assert cache.use().entries == 0 and cache.get(key_of(1)) is None


# -- many at once ----------------------------------------------------------------------------------------------
def test_sixteen_processes_on_one_empty_cache_never_see_a_torn_entry(tmp_path: Path) -> None:
    """All write and read the same keys; each writer's parts carry its mark, so a mixture would show."""
    code = """
import sys, time
from pathlib import Path
from asc_sched.build import Cache
from asc_sched.paths import open_folder
folder, me, start = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
cache = Cache(open_folder(folder), limit_bytes=400_000)
time.sleep(max(0, start - time.time()))
hits = 0
for round in range(30):
    key = f"{round % 7:064x}"
    cache.put(key, {"a": me * 4000, "b": me * 3000})
    found = cache.get(key)
    if found is not None:
        hits += 1
        mark = found["a"][:1]
        assert found == {"a": mark * 4000, "b": mark * 3000}
assert not cache._memory, "fell back to memory"
print(hits)
"""
    folder = tmp_path / "c"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    start = str(time.time() + 4)
    command = [sys.executable, "-c", code, str(folder)]
    processes = [
        subprocess.Popen([*command, mark, start], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for mark in "0123456789abcdef"
    ]
    results = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * 16, results
    assert [err for _, err in results] == [""] * 16  # no warning either
    assert sum(int(out) for out, _ in results) > 16 * 20
    assert not list(folder.rglob(f"*{TEMP_SUFFIX}"))


@pytest.mark.nightly
def test_sixteen_processes_lower_the_same_kernels_into_thirty_empty_caches(tmp_path: Path) -> None:
    code = """
import hashlib, os, sys, time
from tests.build.kernels import nth
from asc_sched.build import lower
lower(nth(999), cache=None)
start, digest = float(sys.argv[1]), hashlib.sha256()
for round in range(30):
    time.sleep(max(0, start + 0.5 * round - time.time()))
    os.environ["ASC_SCHED_CACHE_DIR"] = os.path.join(sys.argv[2], str(round))
    for index in (round, round + 1):
        result = lower(nth(index))
        digest.update((result.asc_ir + result.ascendc).encode())
print(digest.hexdigest())
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, str(time.time() + 15), str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=env, **pipes) for _ in range(16)]  # type: ignore[call-overload]
    results = [process.communicate(timeout=200) for process in processes]
    assert len(set(results)) == 1 and results[0][1] == "", results
    for index in range(30):
        assert Cache(open_folder(tmp_path / str(index) / "lower")).use().entries == 2


def test_four_processes_lower_the_same_kernel_into_one_empty_cache(tmp_path: Path) -> None:
    code = """
import sys
from tests.build.kernels import exp_request
from asc_sched.build import lower
sys.stdout.write(lower(exp_request()).ascendc)
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", code]
    processes = [subprocess.Popen(command, env=env, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    results = [process.communicate(timeout=60) for process in processes]
    assert len(set(results)) == 1 and results[0][1] == "" and "AscendC::Exp" in results[0][0]
    assert default_cache().use().entries == 1
    assert lower(exp_request()).cached


def test_threads_share_one_cache_object(cache: Cache) -> None:
    failures = []

    def work(mark: str) -> None:
        for index in range(40):
            cache.put(key_of(index % 5), {"a": mark * 500, "b": mark * 400})
            found = cache.get(key_of(index % 5))
            if found is not None and found["a"][0] * 400 != found["b"]:
                failures.append(found)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_folder_deleted_under_a_running_process_is_made_again(cache: Cache) -> None:
    import shutil

    cache.put(KEY, TEXTS)
    shutil.rmtree(cache.folder or "")
    assert cache.get(KEY) is None
    cache.put(KEY, TEXTS)
    assert cache.get(KEY) == TEXTS and entry_file(cache).is_file()


def test_process_killed_while_it_writes_leaves_nothing_that_counts(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from asc_sched.build import Cache
from asc_sched.paths import open_folder
os.replace = None
Path.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
Cache(open_folder(Path(sys.argv[1]))).put("ab" * 32, {"a": "x"})
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "c")], env=env, check=False)
    assert done.returncode == -9
    cache = Cache(open_folder(tmp_path / "c"))
    assert cache.get(KEY) is None
    cache.put(KEY, TEXTS)
    assert cache.get(KEY) == TEXTS


def test_entries_do_not_depend_on_time_place_or_process(tmp_path: Path) -> None:
    blobs = set()
    for name, seed in (("a", "1"), ("b", "2")):
        python("from tests.build.kernels import exp_request; from asc_sched.build import lower; lower(exp_request())",
               cwd=tmp_path, env={"ASC_SCHED_CACHE_DIR": str(tmp_path / name), "PYTHONHASHSEED": seed})  # fmt: skip
        (path,) = (p for p in (tmp_path / name).rglob("*.txt"))
        blobs.add((path.name, path.read_bytes()))
    assert len(blobs) == 1
    assert files.TEMP_SUFFIX not in next(iter(blobs))[0] and str(tmp_path).encode() not in next(iter(blobs))[1]
