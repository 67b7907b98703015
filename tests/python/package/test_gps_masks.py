"""The masks that GPSAttention keeps: of several graphs, over f that changes."""

import copy
import gc
import pickle
import unittest
import weakref

import torch
from families import random
from gps_masks import COMPUTED, NODES, KeptCase, call, computed, counted, edges_of, layer_like, layer_of, ways_of_writing_f, whole
from topomask import gps


class Kept(KeptCase):
    def test_graphs_alternate_without_being_made_again(self):
        function, made = counted(whole)
        layer = layer_of(function)
        optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
        training, *validation = edges_of(0, 1, 2, 3)
        for _ in range(3):
            layer.train()
            optimiser.zero_grad()
            call(layer, training, self.x).square().sum().backward()
            optimiser.step()
            layer.eval()
            with torch.no_grad():
                for edges in validation:
                    call(layer, edges, self.x)
        self.assertEqual(len(made), 4)
        for edges in (training, *validation):
            self.right(layer, edges)

    def test_four_masks_are_kept_and_the_oldest_goes(self):
        function, made = counted(whole)
        layer = layer_of(function)
        edges = edges_of(*range(5))
        for place in (0, 1, 2, 3, 0, 1, 2, 3):
            call(layer, edges[place], self.x)
        self.assertEqual(len(made), 4)
        call(layer, edges[4], self.x)
        for place in (4, 3, 2, 1):
            call(layer, edges[place], self.x)
        self.assertEqual((len(made), len(layer._kept)), (5, gps._MOST_KEPT))
        call(layer, edges[0], self.x)
        self.assertEqual(len(made), 6)

    def test_what_is_kept_goes_with_its_edges(self):
        layer = layer_of("power_series")
        first, second = edges_of(0, 1)
        call(layer, first, self.x)
        mask = weakref.ref(layer._kept[0].mask)
        layer.set_graph(second, NODES)
        del first
        layer(self.x)
        gc.collect()
        self.assertIsNone(mask())
        self.assertEqual(len(layer._kept), 1)

    def test_edges_that_are_written_to_have_one_mask(self):
        function, made = counted(whole)
        layer = layer_of(function)
        (edges,) = edges_of(0)
        for count in range(1, 4):
            edges[:, 0] = torch.tensor([0, count])
            self.right(layer, edges)
            self.assertEqual(len(layer._kept), 1)

    def test_the_same_edges_among_more_nodes_are_another_graph(self):
        layer = layer_of("neighbours")
        (edges,) = edges_of(0)
        for nodes in (NODES, NODES + 3, NODES):
            layer.set_graph(edges, nodes)
            self.assertEqual(layer(random(1, nodes, 8))[0].shape[1], nodes)

    def test_f_that_is_handed_on_may_be_written_to(self):
        for name, mask in {"power_series": "power_series", "grf": "grf", "function": whole}.items():
            layer = layer_of(mask)
            (edges,) = edges_of(0)
            call(layer, edges, self.x)
            kept = layer._kept[0].mask
            for how, write in ways_of_writing_f().items():
                with self.subTest(mask=name, how=how):
                    before = call(layer, edges, self.x).detach()
                    write(layer.f, layer.f.detach() * 0.5 + 0.1)
                    out = self.right(layer, edges)[0]
                    self.assertFalse(torch.allclose(out, before))
                    self.assertIs(layer._kept[0].mask, kept)

    def test_two_backward_passes_through_two_calls(self):
        for mask in (whole, *COMPUTED):
            with self.subTest(mask=mask.__name__):
                layer = layer_of(mask)
                (edges,) = edges_of(0)
                outs = [call(layer, edges, self.x) for _ in range(2)]
                gradients = [torch.autograd.grad(out.square().sum(), layer.f)[0] for out in outs]
                self.close(gradients[0], gradients[1], 1e-12)

    def test_f_that_was_frozen_learns_again(self):
        for mask in (whole, *COMPUTED):
            with self.subTest(mask=mask.__name__):
                layer = layer_of(mask)
                (edges,) = edges_of(0)
                layer.f.requires_grad_(False)
                self.right(layer, edges)
                layer.f.requires_grad_(True)
                self.assertGreater(float(self.right(layer, edges)[1].abs().max()), 0)
                layer.f.requires_grad_(False)
                self.right(layer, edges)
                self.assertIsNone(layer.f.grad)

    def test_gradients_may_be_turned_off_before_they_are_on(self):
        for off in (torch.no_grad, torch.inference_mode):
            for mask in ("grf", "power_series", "neighbours", whole, *COMPUTED):
                for kind in ("kernel", "softmax"):
                    with self.subTest(off=off.__name__, mask=str(mask), kind=kind):
                        layer = layer_of(mask, kind=kind)
                        (edges,) = edges_of(0)
                        with off():
                            before = call(layer, edges, self.x)
                        out = call(layer, edges, self.x)
                        self.close(out, before, 1e-9)
                        out.square().sum().backward()
                        self.assertTrue(all(p.grad is not None for p in layer.parameters()))
                        with off():
                            self.close(call(layer, edges, self.x), before, 1e-9)

    def test_copies_and_what_is_loaded_have_kept_nothing(self):
        for mask in ("power_series", "grf", whole):
            with self.subTest(mask=str(mask)):
                layer = layer_of(mask)
                (edges,) = edges_of(0)
                want = call(layer, edges, self.x)
                old = {**layer.__dict__, "_kept": None}  # as it was saved when one mask was kept
                earlier = layer_of(mask)
                earlier.__setstate__(old)
                for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), earlier):
                    self.assertEqual(other._kept, [])
                    self.close(call(other, edges, self.x), want, 1e-12)

    def test_a_compiled_layer_makes_its_masks_outside(self):
        for mask in ("power_series", "grf", "neighbours", whole, computed):
            with self.subTest(mask=str(mask)):
                torch._dynamo.reset()
                layer = layer_of(mask)
                compiled = torch.compile(layer, backend="aot_eager")
                for edges in edges_of(0, 1):
                    layer.set_graph(edges, NODES)
                    out = compiled(self.x)[0]  # nothing was made before
                    self.close(out, call(layer_like(layer, mask), edges, self.x), 1e-9)
                    out.square().sum().backward()


if __name__ == "__main__":
    unittest.main()
