"""The masks that GPSAttention keeps of functions that compute with f, on the CPU, and as it is on a GPU."""

import unittest
import unittest.mock

import torch
from gps_masks import COMPUTED, READING, KeptCase, call, constant, counted, edges_of, layer_like, layer_of, ways_of_writing_f, whole
from support import tm


class Functions(KeptCase):
    def test_a_mask_computed_from_f_has_right_gradients_in_every_call(self):
        for mask, coefficients in COMPUTED.items():
            with self.subTest(mask=mask.__name__):
                function, made = counted(mask)
                layer = layer_of(function)
                (edges,) = edges_of(0)
                optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
                for step in range(1, 4):
                    optimiser.zero_grad()
                    out = call(layer, edges, self.x)
                    out.square().sum().backward()
                    self.assertEqual(len(made), step)
                    got = layer.f.grad.clone()
                    layer.zero_grad()
                    alpha = coefficients(layer.f)
                    reference = layer_of(lambda graph, f, alpha=alpha: whole(graph, alpha))
                    reference.load_state_dict(layer.state_dict())
                    want = call(reference, edges, self.x)
                    self.close(out, want, 1e-12)
                    self.close(got, torch.autograd.grad(want.square().sum(), layer.f)[0], 1e-10)
                    layer.f.grad = got
                    optimiser.step()

    def test_without_gradients_a_computed_mask_is_kept_until_f_changes(self):
        for mask in (*COMPUTED, *READING):
            function, made = counted(mask)
            layer = layer_of(function)
            (edges,) = edges_of(0)
            with torch.no_grad():
                for count, (how, write) in enumerate(ways_of_writing_f().items(), 1):
                    with self.subTest(mask=mask.__name__, how=how):
                        call(layer, edges, self.x)
                        call(layer, edges, self.x)
                        self.assertEqual(len(made), count)
                        write(layer.f, layer.f.detach() * 0.5 + 0.1)
                        want = call(layer_like(layer, mask), edges, self.x)
                        self.close(call(layer, edges, self.x), want, 0)
            self.right(layer, edges)

    def test_a_mask_made_without_gradients_does_not_hide_later_steps(self):
        """Validation comes first, and between its calls f changes, in training and otherwise."""
        for mask in (whole, *COMPUTED, *READING):
            for how, write in ways_of_writing_f().items():
                with self.subTest(mask=mask.__name__, how=how):
                    layer = layer_of(mask)
                    training, validation = edges_of(0, 1)
                    for edges in (validation, training, validation):
                        with torch.no_grad():
                            self.right(layer, edges)
                        self.right(layer, training)
                        write(layer.f, layer.f.detach() * 0.5 + 0.1)

    def test_where_f_cannot_be_compared_what_is_computed_from_it_is_not_kept(self):
        """As on a GPU, where fused optimisers raise no version."""
        with unittest.mock.patch("topomask._seen._compared", return_value=False):
            for mask in (whole, constant, *COMPUTED, *READING):
                for learning in (True, False):
                    with self.subTest(mask=mask.__name__, learning=learning):
                        function, made = counted(mask)
                        layer = layer_of(function)
                        layer.f.requires_grad_(learning)
                        training, validation = edges_of(0, 1)
                        calls = 0
                        for write in (*ways_of_writing_f().values(), lambda f, value: None):
                            self.right(layer, training)
                            with torch.no_grad():
                                self.right(layer, validation)
                            calls += 4  # of two layers, of which the other one has kept nothing
                            write(layer.f, layer.f.detach() * 0.5 + 0.1)
                        handed_on = mask is whole or (mask is constant and learning)
                        self.assertEqual(len(made), 2 + calls // 2 if handed_on else calls)

    def test_fused_training_and_validation_as_on_a_gpu(self):
        for mask in COMPUTED:
            with self.subTest(mask=mask.__name__), unittest.mock.patch("topomask._seen._compared", return_value=False):
                layer = layer_of(mask)
                optimiser = torch.optim.AdamW(layer.parameters(), lr=0.05, fused=True)
                training, validation = edges_of(0, 1)
                for _ in range(5):
                    optimiser.zero_grad()
                    call(layer, training, self.x).square().sum().backward()
                    optimiser.step()
                    with torch.no_grad():
                        self.right(layer, validation)

    def test_what_else_learns_in_a_function_is_followed(self):
        scale = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

        def scaled(graph, f):
            graph = graph.normalised()
            return tm.power_series_mask(graph.with_weights(graph.weights * scale), f)

        layer = layer_of(scaled)
        (edges,) = edges_of(0)
        for value in (0.5, 0.4, 0.3):
            scale.data.fill_(value)
            for off in (torch.no_grad, torch.inference_mode):
                with off():
                    self.right(layer, edges)
            scale.grad = None
            self.right(layer, edges)
            self.assertGreater(float(scale.grad.abs()), 0)

    def test_functions_that_serve_without_gradients_alone(self):
        """With gradients torch refuses tensors of inference mode, and writes to f."""
        with torch.inference_mode():
            shift = torch.rand(2, 4, dtype=torch.float64)

        def shifted(graph, f):
            return whole(graph, f * shift)

        def clamped(graph, f):
            return whole(graph, f.clamp_(min=0.2))

        for mask, off in ((shifted, torch.inference_mode), (shifted, torch.no_grad), (clamped, torch.no_grad)):
            with self.subTest(mask=mask.__name__, off=off.__name__):
                layer = layer_of(mask)
                (edges,) = edges_of(0)
                with off():
                    for _ in range(3):
                        self.right(layer, edges)
                        layer.f.data.mul_(0.9)
                self.assertRaises(RuntimeError, call, layer, edges, self.x)


if __name__ == "__main__":
    unittest.main()
