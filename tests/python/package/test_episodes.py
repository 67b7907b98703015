"""Episodes of a robot, read without the library: a file that the C++ writer made, whole and damaged."""

import pathlib
import tempfile
import unittest

import torch
from support import tm

FILE = pathlib.Path(__file__).resolve().parents[2] / "fuzz/corpus/episodes/formula.episodes"


def count(*shape):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float64).view(shape)


class Episodes(unittest.TestCase):
    def test_tensors_are_those_that_were_written(self):
        episodes = tm.episodes.EpisodeSet(FILE)
        self.assertEqual(len(episodes), 1)
        self.assertEqual(episodes.dropped, {"diverged": 3})
        e = episodes[0]
        self.assertEqual((e.kind, e.seed, e.interval, e.names), ("push", 18446744073709551557, 0.5, ["box", "can"]))
        self.assertTrue(torch.equal(e.rgb, (count(3, 2, 4, 5, 3) * 7 % 256).to(torch.uint8)))
        self.assertTrue(torch.equal(e.depth, (count(3, 2, 4, 5) * 517 % 65536 * 1e-4).float()))
        self.assertTrue(torch.equal(e.ids, (count(3, 2, 4, 5) % 5).to(torch.uint8)))
        self.assertTrue(torch.equal(e.intrinsics, count(2, 3, 3) + 1))
        self.assertTrue(torch.equal(e.poses, count(2, 4, 4) / 8))
        self.assertTrue(torch.equal(e.joints, count(3, 8).float() / 16))
        self.assertTrue(torch.equal(e.actions, count(3, 8).float() / 4 - 2))
        self.assertTrue(torch.equal(e.action_points, count(3, 2, 3).float() / 32))
        self.assertTrue(torch.equal(e.bodies[..., :3], count(3, 2, 3) / 64))
        self.assertTrue(torch.equal(next(iter(episodes)).rgb, e.rgb))
        with self.assertRaises(IndexError):
            episodes[1]

    def test_folders_and_damaged_files(self):
        whole = FILE.read_bytes()
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            with self.assertRaisesRegex(FileNotFoundError, "no file"):
                tm.episodes.EpisodeSet(folder)
            for shard in ("a.episodes", "b.episodes"):
                (folder / shard).write_bytes(whole)
            self.assertEqual(len(tm.episodes.EpisodeSet(folder)), 2)
            bad = folder / "bad.episodes"
            for length in range(0, len(whole), 7):
                bad.write_bytes(whole[:length])
                with self.assertRaisesRegex(ValueError, "bad.episodes: truncated"):
                    tm.episodes.EpisodeSet(bad)
            for byte in range(0, len(whole), 3):
                bad.write_bytes(whole[:byte] + bytes([whole[byte] ^ 1 << byte % 8]) + whole[byte + 1 :])
                with self.assertRaisesRegex(ValueError, "bad.episodes: "):
                    tm.episodes.EpisodeSet(bad)[0]


if __name__ == "__main__":
    unittest.main()
