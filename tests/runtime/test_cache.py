from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.properties.alarm import alarm
from weft.driver import targets
from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.ir.errors import WeftWarning
from weft.runtime.cache import Cache, open_cache
from weft.runtime.files import TEMPORARY


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", limit=10_000)


def entries(cache: Cache) -> list[str]:
    return sorted(path.name for path in cache.folder.iterdir())


@pytest.mark.parametrize("payload", [b"", b"x", bytes(range(256)) * 7])
@pytest.mark.parametrize("key", [b"", b"key", bytes(100)])
def test_what_is_put_is_got(cache: Cache, key: bytes, payload: bytes) -> None:
    assert cache.get(key) is None
    assert cache.put(key, [payload[:5], memoryview(payload)[5:]])
    found = cache.get(key)
    assert found is not None and bytes(found) == payload
    assert found.readonly
    cache.put(key, [b"another"])
    assert bytes(cache.get(key) or b"") == b"another"
    assert bytes(found) == payload  # an old mapping stays what it was
    cache.discard(key)
    assert cache.get(key) is None


def test_private_folder_and_files(cache: Cache) -> None:
    cache.put(b"key", [b"payload"])
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(cache.path(b"key").stat().st_mode) == 0o600


def test_a_key_is_compared_in_full(cache: Cache) -> None:
    """A file that lies where another key's would is a miss, as if the hashes had collided."""
    cache.put(b"one", [b"payload"])
    cache.path(b"one").rename(cache.path(b"two"))
    assert cache.get(b"two") is None
    assert entries(cache) == []


def test_every_damage_is_a_miss(cache: Cache) -> None:
    key, payload = b"some key", bytes(range(200))
    cache.put(key, [payload])
    path = cache.path(key)
    good = path.read_bytes()
    for position in range(len(good)):
        path.write_bytes(good[:position] + bytes([good[position] ^ 4]) + good[position + 1 :])
        assert cache.get(key) is None, position
        assert not path.exists()
        path.write_bytes(good[:position])
        assert cache.get(key) is None, position
    path.write_bytes(good + b"\0")
    assert cache.get(key) is None
    path.write_bytes(good)
    assert bytes(cache.get(key) or b"") == payload


def test_links_and_folders_in_the_place_of_entries(cache: Cache, tmp_path: Path) -> None:
    cache.put(b"key", [b"payload"])
    path = cache.path(b"key")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.get(b"key") is None
    path.unlink(missing_ok=True)
    path.mkdir()
    assert cache.get(b"key") is None
    assert not cache.put(b"key", [b"payload"])


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.mknod(path, stat.S_IFSOCK | 0o600)])
def test_what_is_no_file_in_the_place_of_entries(cache: Cache, make: Callable[..., None]) -> None:
    """A pipe without a writer would be waited for."""
    make(cache.path(b"key"))
    with alarm(5):
        assert cache.get(b"key") is None
    assert entries(cache) == []
    assert cache.put(b"key", [b"payload"]) and bytes(cache.get(b"key") or b"") == b"payload"


def test_entries_of_others_or_that_others_can_write_are_no_entries(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even inside a private folder, into which somebody has moved them."""
    for mode in (0o622, 0o620, 0o602):
        cache.put(b"key", [b"payload"])
        cache.path(b"key").chmod(mode)
        assert cache.get(b"key") is None
        assert entries(cache) == []
    cache.put(b"key", [b"payload"])
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert cache.get(b"key") is None
    assert entries(cache) == []


def test_devices_in_the_place_of_entries(cache: Cache) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes devices")
    try:
        os.mknod(cache.path(b"key"), stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero
    except OSError:
        pytest.skip("not even root makes devices here")
    with alarm(5):
        assert cache.get(b"key") is None
    assert entries(cache) == []


def test_the_least_recently_used_go_first(cache: Cache) -> None:
    for number in range(6):
        cache.put(bytes([number]), [bytes(1500)])
        os.utime(cache.path(bytes([number])), (number, number))
    assert cache.get(bytes([0])) is not None  # used: now the youngest
    cache.put(b"large", [bytes(4000)])
    assert cache.size() <= cache.limit
    left = [number for number in range(6) if cache.get(bytes([number])) is not None]
    assert left == [0, 4, 5] or left == [0, 3, 4, 5]
    assert cache.get(b"large") is not None
    assert not cache.put(b"too large", [bytes(10_001)])
    assert cache.get(b"large") is not None
    cache.clear()
    assert cache.size() == 0


def test_abandoned_files_are_swept(cache: Cache) -> None:
    old, new = (cache.folder / f"{TEMPORARY}{name}" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache.put(b"key", [b"payload"])
    assert not old.exists() and new.exists()


def test_unsafe_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(PermissionError, match="written by others"):
        Cache(shared)
    with pytest.warns(WeftWarning, match="WEFT-E0710.*written by others"):
        assert open_cache(str(shared)) is None
    (tmp_path / "file").touch()
    with pytest.warns(WeftWarning, match="WEFT-E0710"):
        assert open_cache(str(tmp_path / "file")) is None
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        Cache(tmp_path / "foreign")


def test_the_usual_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    usual = open_cache()
    assert usual is not None and usual.folder == tmp_path / "xdg" / "weft"


def test_home_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No shell has looked at what stands in a variable of a container, say."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEFT_CACHE_DIR", "~/kept")
    monkeypatch.setenv("WEFT_DUMP", "~/dumped")
    found = open_cache(Options().cache_dir)
    assert found is not None and found.folder == tmp_path / "home" / "kept"
    Passes(Options(), "m").run("scop", lambda: 1, show=str)
    assert list((tmp_path / "home" / "dumped").iterdir())
    assert targets.measured_host(Options()) is None
    assert (tmp_path / "home" / "kept" / "calibration").is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


def test_a_failing_disk_is_no_error(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert not cache.put(b"key", [b"payload"])
    assert entries(cache) == []


def test_an_interrupted_write_leaves_nothing(cache: Cache) -> None:
    def pieces():
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.put(b"key", pieces())
    assert entries(cache) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_killed_while_writing(cache: Cache, sent: signal.Signals) -> None:
    """Whenever the writer is stopped, readers see the whole entry or none."""
    script = f"""
        import signal, sys, pathlib
        from weft.runtime.cache import Cache
        signal.signal(signal.SIGINT, signal.default_int_handler)  # though a shell may ignore it
        cache = Cache(pathlib.Path({str(cache.folder)!r}), 1 << 30)
        print("ready", flush=True)
        while True:
            cache.put(b"key", [bytes([7]) * 300_000] * 10)
    """
    for turn in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.01 + 0.013 * turn)
        writer.send_signal(sent)
        writer.wait(timeout=30)
        writer.stdout.close()
        found = cache.get(b"key")
        assert found is None or bytes(found) == bytes([7]) * 3_000_000
        if sent is signal.SIGINT:
            assert not [name for name in entries(cache) if name.startswith(TEMPORARY)]


def test_many_writers_and_readers(tmp_path: Path) -> None:
    """Processes and threads share four keys under a limit that evicts all the time."""
    folder = tmp_path / "cache"
    script = f"""
        import pathlib, random, sys
        from weft.runtime.cache import Cache
        cache = Cache(pathlib.Path({str(folder)!r}), 100_000)
        for turn in range(150):
            key = bytes([random.randrange(4)])
            found = cache.get(key)
            if found is not None:
                data = bytes(found)
                assert data == key * len(data) and len(data) >= 1000, len(data)
            cache.put(key, [key * random.randrange(1000, 50_000)])
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    wrong: list[bytes] = []
    cache = Cache(folder, 100_000)

    def reader() -> None:
        for turn in range(300):
            key = bytes([turn % 4])
            data = bytes(cache.get(key) or b"")
            if data != key * len(data):
                wrong.append(data)

    threads = [threading.Thread(target=reader) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors.decode()
    assert not wrong
    cache.evict()
    assert cache.size() <= 100_000
