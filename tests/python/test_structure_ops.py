"""The operators that make structures: tables of walks, patterns, tiles and neighbours. And the library as a file."""

import struct
import unittest

import torch
from op_cases import (
    PATH,
    Case,
    ops,
    pattern_tensors,
    product_arguments,
    structure_calls,
    tiles_of,
    topomask,
    walk_arguments,
    walk_table,
)


class Tiles(unittest.TestCase):
    def entries(self, tiles, rows):
        """(row, column) of every bit, in the order of each row."""
        count = (rows + 15) // 16
        starts, chunks = tiles[: count + 1].tolist(), tiles[(count + 4) // 4 * 4 :].view(-1, 24).tolist()
        self.assertEqual((starts[0], starts[-1]), (0, len(chunks)))
        for row in range(rows):
            g, half = row % 16 % 8, row % 16 // 8
            for chunk in chunks[starts[row // 16] : starts[row // 16 + 1]]:
                for number in range(16):
                    t, block, j = number // 4, number // 2 % 2, number % 2
                    if chunk[16 + g] >> (16 * half + number) & 1:
                        yield row, chunk[8 * block + 2 * t + j]

    def test_hold_every_entry_in_its_order(self):
        for rows, cols, density in ((37, 90, 0.3), (5, 3, 0.5), (16, 200, 0.9), (40, 40, 0.0), (33, 1, 0.7), (0, 5, 0.5)):
            with self.subTest(rows=rows, cols=cols):
                dense = torch.rand(rows, cols, generator=torch.Generator().manual_seed(rows)) < density
                dense[3:4] = False
                tiles = ops.row_tiles(list(pattern_tensors(dense)[:2]))
                self.assertEqual(list(self.entries(tiles, rows)), [tuple(entry) for entry in dense.nonzero().tolist()])

    def test_leave_long_rows_out(self):
        dense = torch.zeros(100, 3000, dtype=torch.bool)
        dense[:, 7], dense[2], dense[18] = True, True, True
        found = list(self.entries(ops.row_tiles(list(pattern_tensors(dense)[:2])), 100))
        self.assertEqual(found, [(row, 7) for row in range(100) if row not in (2, 18)])

    def test_change_nothing_on_the_cpu(self):
        case = Case(dtype=torch.bfloat16)
        for function, rule in ((ops.sparse_attention, (1e-6,)), (ops.sparse_softmax_attention, (0.5, 1e-6))):
            with_tiles, without = (function(*product_arguments(case, tiles), *rule) for tiles in (tiles_of(case), ()))
            for a, e in zip(with_tiles, without):
                self.assertTrue(torch.equal(a, e))


class Walks(unittest.TestCase):
    def test_sampling_is_registered(self):
        for coupling in ("independent", "antithetic", "repelling", "antithetic_repelling"):
            table = walk_table(walkers=4, coupling=coupling, group_products=True)
            self.assertEqual([t.dtype for t in table[:5]], [torch.int64, torch.int32, torch.int16, torch.float64, torch.int32])
            self.assertEqual(table[9].shape, (len(table[10]), 2))
        self.assertEqual(walk_table()[9].shape, (0, 2))

    def test_opcheck(self):
        for function, args, options in structure_calls():
            with self.subTest(str(function), options=options):
                torch.library.opcheck(function.default, args, options)

    def test_sampling_and_features_compile_in_one_graph(self):
        def features(f, weights):
            _, _, hops, loads, _, _, columns, feature_offsets, *_ = ops.sample_walks(PATH, weights, walkers=3, seed=7)
            return ops.walk_features(f, hops, loads, feature_offsets, 1 / 3), columns

        f, weights = torch.rand(2, 4, requires_grad=True), torch.full((6,), 0.4)
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            torch._dynamo.reset()
            compiled = torch.compile(features, fullgraph=True, backend="aot_eager")(f, weights)
        for want, got in zip(features(f, weights), compiled):
            torch.testing.assert_close(got, want)

    def test_same_seed_same_walks(self):
        for first, second in zip(walk_table(), walk_table()):
            torch.testing.assert_close(first, second, rtol=0, atol=0)
        self.assertFalse(torch.equal(walk_table(seed=8, walkers=50)[1], walk_table(walkers=50)[1]))

    def test_the_graph_is_one_list(self):
        weights = torch.full((6,), 0.4, dtype=torch.float64)
        with self.assertRaisesRegex(RuntimeError, "sample_walks: pattern must be a list of 2 tensors or more"):
            ops.sample_walks(PATH[:1], weights)
        with self.assertRaisesRegex(RuntimeError, "sample_walks: offsets of pattern must run from 0 to 6"):
            ops.sample_walks((PATH[0] + 1, PATH[1]), weights)

    def test_the_form_with_separate_arguments_is_deprecated(self):
        weights = torch.full((6,), 0.4, dtype=torch.float64)
        old = ops.sample_walks(*PATH, weights, walkers=3, halting_probability=0.3, seed=7)
        for was, is_now in zip(old, walk_table(), strict=True):
            torch.testing.assert_close(was, is_now, rtol=0, atol=0)
        for name in ("walk_table", "walk_visits"):
            self.assertEqual(getattr(ops, name).overloads(), ["default", "separate"])

    def test_unknown_names_are_refused(self):
        for argument, text in (
            ("coupling", "independent, antithetic, repelling or antithetic_repelling"),
            ("proposal", "uniform, weights or given"),
        ):
            with self.assertRaisesRegex(RuntimeError, f"sample_walks: {argument} must be {text}, got none"):
                walk_table(**{argument: "none"})

    def test_second_derivatives(self):
        args = walk_arguments()
        torch.autograd.gradgradcheck(lambda f: ops.walk_features(f, *args[1:]).pow(3), args[:1])


class Library(unittest.TestCase):
    def test_has_the_table_by_which_errors_walk_the_stack(self):
        """Where an error is raised in Python, torch crashes without it, and not every compiler asks its linker for it."""
        elf = topomask.library_path().read_bytes()
        (start,), (size, count) = struct.unpack_from("<Q", elf, 32), struct.unpack_from("<HH", elf, 54)
        kinds = [struct.unpack_from("<I", elf, start + i * size)[0] for i in range(count)]
        self.assertIn(0x6474E550, kinds)  # PT_GNU_EH_FRAME

    def test_has_no_cpp_library_of_its_own(self):
        """An error that one of them throws is not one that the other knows: Python would crash."""
        self.assertIn(b"\0libstdc++.so.6\0", topomask.library_path().read_bytes())


if __name__ == "__main__":
    unittest.main()
