"""A full disk, a short write, a failed fsync or rename, at every call that writes a checkpoint."""

import builtins
import errno
import os
import tempfile
import unittest
from unittest import mock

from support import Case
from topomask.train.checkpoint import write_whole

OLD, NEW = b"what was there", bytes(range(256)) * 5000


class Failing:
    """Lets one call in all fail: number `call`, from 1; a write after half of its bytes where `short`."""

    def __init__(self, call, short=False):
        self.call, self.short, self.seen, self.failed = call, short, 0, ""
        self.real = {name: getattr(os, name) for name in ("open", "fsync", "replace")}
        self.real_open = builtins.open

    def fails(self, name):
        self.seen += 1
        if self.seen == self.call:
            self.failed = name
        return self.seen == self.call

    def wrapped(self, name):
        def call(*arguments):
            if self.fails(name):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return self.real[name](*arguments)

        return call

    def opened(self, path, mode):
        if self.fails("open of the file"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file = self.real_open(path, mode, buffering=0)
        write = file.write

        def failing_write(content):
            if self.fails("write"):
                if self.short:
                    write(content[: len(content) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(content)

        proxy = mock.MagicMock(wraps=file)
        proxy.write = failing_write
        proxy.fileno = file.fileno
        proxy.__enter__.return_value = proxy
        proxy.__exit__.side_effect = lambda *_: file.close()
        return proxy

    def __enter__(self):
        self.patches = [mock.patch(f"os.{name}", self.wrapped(name)) for name in self.real]
        self.patches.append(mock.patch("builtins.open", self.opened))
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *_):
        for patch in self.patches:
            patch.stop()


class FailingWrites(Case):
    def test_leave_the_old_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoint.safetensors")
            for short in (False, True):
                failures = []
                for call in range(1, 100):
                    with open(path, "wb") as file:
                        file.write(OLD)
                    error = None
                    with Failing(call, short) as failing:
                        try:
                            write_whole(path, NEW)
                        except OSError as thrown:
                            error = thrown
                    with open(path, "rb") as file:
                        content = file.read()
                    self.assertEqual(os.listdir(folder), [os.path.basename(path)])
                    if not failing.failed:
                        self.assertIsNone(error)
                        self.assertEqual(content, NEW)
                        break
                    failures.append(failing.failed)
                    with self.subTest(call=call, failed=failing.failed):
                        self.assertIn(path, str(error))
                        self.assertIn(os.strerror(error.errno), str(error))
                        in_place = "written, but its folder" in str(error)
                        self.assertEqual(content, NEW if in_place else OLD)
                        self.assertEqual(in_place, call > 4)  # what follows the rename
                self.assertEqual(failures, ["open of the file", "write", "fsync", "replace", "open", "fsync"])


if __name__ == "__main__":
    unittest.main()
