"""What torch does to functions: torch.export, steps without recompiling, CUDA graphs, torch.func, second derivatives.
Steps run with inductor where TOPOMASK_INDUCTOR is set."""

import io
import os
import unittest
import unittest.mock

import torch
import torch.utils.checkpoint
from families import NODES, families, random
from support import Case, tm
from torch.autograd import forward_ad

BACKEND = "inductor" if os.environ.get("TOPOMASK_INDUCTOR") else "aot_eager"
BLOCKS = ("none", "causal", "dense", "sparse", "grf", "power series", "global tokens", "toeplitz")
EXPORTED = (
    "none",
    "causal",
    "dense",
    "sparse",
    "sparse in the user's order",
    "neighbours",
    "power series",
    "grf",
    "grf, asymmetric",
    "ad hoc",
    "global tokens",
    "toeplitz",
    "toeplitz, causal",
)


def mask_of(name, dtype=torch.float32):
    return families(dtype)[name]


def inputs(dtype=torch.float64):
    return [random(2, NODES, 4, dtype=dtype).roll(shift, -2).requires_grad_() for shift in (0, 1, 2)]


class Export(Case):
    def test_an_inference_model_is_exported_saved_and_loaded(self):
        for name in EXPORTED:
            with self.subTest(name=name):
                torch.manual_seed(0)
                mask = mask_of(name, torch.float64)
                model = torch.nn.Sequential(tm.nn.Block(8, heads=2, mask=mask), tm.nn.Block(8, heads=2, mask=mask)).eval().double()
                batch = torch.export.Dim("batch", min=2, max=64)
                example = torch.rand(3, NODES, 8, dtype=torch.float64)
                program = torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
                stream = io.BytesIO()
                torch.export.save(program, stream)
                stream.seek(0)
                loaded = torch.export.load(stream).module()
                x = torch.rand(5, NODES, 8, dtype=torch.float64)
                with torch.no_grad():
                    self.close(loaded(x), model(x), 1e-11)

    def test_a_vision_transformer(self):
        torch.manual_seed(0)
        batch = torch.export.Dim("batch", min=2, max=64)
        for cls_token, size in ((False, 8), (True, 8), (True, 16)):
            for kind in ("kernel", "softmax"):
                sizes = {"image_size": size, "patch_size": 2, "width": 12, "depth": 2, "heads": 3}
                model = tm.nn.ViT(**sizes, classes=3, channels=1, cls_token=cls_token, kind=kind).eval()
                program = torch.export.export(model, (torch.rand(2, 1, size, size),), dynamic_shapes=({0: batch},))
                images = torch.rand(5, 1, size, size)
                with torch.no_grad(), self.subTest(cls_token=cls_token, size=size, kind=kind):
                    self.close(program.module()(images), model(images), 1e-5)

    def test_a_mask_known_to_this_process_alone_is_refused(self):
        model = tm.nn.Block(8, heads=2, mask=mask_of("diffusion")).eval()
        with self.assertRaisesRegex(Exception, "DiffusionMask cannot be exported"):
            torch.export.export(model, (torch.rand(3, NODES, 8),))


class Steps(Case):
    """A compiled block is compiled once: from step to step, and for other batch sizes where they are dynamic."""

    def setUp(self):
        torch._dynamo.reset()

    def train(self, name, batches, dynamic):
        torch._dynamo.reset()
        torch.manual_seed(0)
        block = tm.nn.Block(8, heads=2, mask=mask_of(name))
        compiled = torch.compile(block, fullgraph=True, backend=BACKEND, dynamic=dynamic)
        optimiser = torch.optim.AdamW(block.parameters(), lr=1e-2)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for batch in batches:
                x = torch.rand(batch, NODES, 8)
                with self.subTest(name=name, batch=batch):
                    self.close(compiled(x), block(x), 1e-4)
                optimiser.zero_grad()
                compiled(x).square().mean().backward()
                optimiser.step()
            if not dynamic:  # the setting does refuse
                with self.assertRaisesRegex(Exception, "[Rr]ecompil"):
                    compiled(torch.rand(1, NODES, 8))

    def test_no_recompiling_from_step_to_step(self):
        for name in BLOCKS:
            self.train(name, [3, 3, 3], False)

    def test_no_recompiling_for_another_batch(self):
        for name in BLOCKS:
            self.train(name, [3, 5, 2, 7], True)

    def test_a_vision_transformer_is_compiled_once_for_every_batch(self):
        torch._dynamo.reset()
        model = tm.nn.ViT(image_size=8, classes=3, channels=1, patch_size=2, width=12, depth=2, heads=3)
        compiled = torch.compile(model, fullgraph=True, backend=BACKEND, dynamic=True)
        with unittest.mock.patch("topomask._ops.apply_mask", side_effect=AssertionError):  # forward passes are not computed twice
            with torch._dynamo.config.patch(error_on_recompile=True):
                for batch in (3, 5, 2):
                    images = torch.rand(batch, 1, 8, 8)
                    out = compiled(images)
                    self.close(out, model(images), 1e-4)
                    out.sum().backward()


@unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
class CudaGraphs(Case):
    def test_a_captured_step_is_the_eager_one(self):
        for name in BLOCKS:
            with self.subTest(name=name):
                torch.manual_seed(0)
                block = tm.nn.Block(8, heads=2, mask=mask_of(name)).cuda()
                x = torch.rand(3, NODES, 8, device="cuda")
                step = torch.compile(block, fullgraph=True, backend="aot_eager")

                def both(step=step, block=block, x=x):
                    for parameter in block.parameters():
                        parameter.grad = None
                    out = step(x)
                    out.square().mean().backward()
                    return out

                stream = torch.cuda.Stream()
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):  # what is made once is made before the capture
                    for _ in range(3):
                        both()
                torch.cuda.current_stream().wait_stream(stream)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    out = both()
                grads = [parameter.grad for parameter in block.parameters()]
                x.copy_(torch.rand_like(x))
                graph.replay()
                torch.cuda.synchronize()
                got = [out.clone(), *(grad.clone() for grad in grads)]
                want = both()
                for a, b in zip(got, [want, *(parameter.grad for parameter in block.parameters())]):
                    self.close(a, b, 1e-4)

    def test_inductor_with_cuda_graphs(self):
        block = tm.nn.Block(8, heads=2, mask=mask_of("grf")).cuda()
        compiled = torch.compile(block, fullgraph=True, mode="reduce-overhead")
        for _ in range(4):
            x = torch.rand(3, NODES, 8, device="cuda")
            self.close(compiled(x), block(x), 1e-4)


class Training(Case):
    """What torch offers around a model: checkpoints of activations, inference mode, autocast."""

    def test_activations_that_are_computed_again(self):
        for name in ("none", "grf", "power series", "toeplitz", "diffusion", "python"):
            torch.manual_seed(0)
            block = tm.nn.Block(8, heads=2, mask=mask_of(name))
            x = torch.rand(2, NODES, 8, requires_grad=True)
            want = torch.autograd.grad(block(x).square().sum(), [x, *block.parameters()])
            for reentrant in (False, True):
                with self.subTest(name=name, reentrant=reentrant):
                    out = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant)
                    block.zero_grad()
                    x.grad = None
                    out.square().sum().backward()
                    for got, expected in zip([x.grad, *(p.grad for p in block.parameters())], want):
                        self.assertLess(float((got - expected).abs().max()), 1e-4 * float(expected.abs().max()) + 1e-6)

    def test_inference_mode(self):
        for name, mask in families().items():
            with self.subTest(name=name):
                q, k, v = (x.detach() for x in inputs())
                with torch.inference_mode():
                    first = tm.attention(q, k, v, mask)
                    self.assertTrue(first.is_inference())
                    inside = families()[name] if name != "python" else mask  # and masks that are made inside
                    self.close(tm.attention(q, k, v, inside), first, 1e-9)
                want = tm.attention(q, k, v, mask)
                self.close(first.clone(), want, 1e-12)
                out = tm.attention(q.requires_grad_(), k, v, mask)  # what was kept serves training
                out.sum().backward()

    def test_float16_on_the_cpu_is_refused_in_eager_mode_and_compiled(self):
        mask = mask_of("none")
        q, k, v = (x.detach().float() for x in inputs())
        with torch.autocast("cpu", dtype=torch.float16):
            self.refuses(ValueError, "q must be .* on cpu, got", tm.attention, q, k, v, mask)
            compiled = torch.compile(lambda q, k, v: tm.attention(q, k, v, mask), fullgraph=True, backend="aot_eager")
            with self.assertRaisesRegex(Exception, "q must be .* on cpu, got"):
                compiled(q, k, v)


class Functions(Case):
    def test_a_second_derivative_is_refused_everywhere(self):
        for name, mask in families().items():
            q, k, v = inputs()
            with self.subTest(name=name):
                for attend in (tm.attention, tm.softmax_attention):
                    try:
                        out = attend(q, k, v, mask)
                    except ValueError:  # softmax attention is not for every mask
                        continue
                    with self.assertRaisesRegex(RuntimeError, "attention: create_graph must be False.*differentiable once"):
                        torch.autograd.grad(out.sum(), q, create_graph=True)
                if isinstance(mask, tm.LibraryMask):
                    with self.assertRaisesRegex(RuntimeError, "matmul: create_graph must be False"):
                        torch.autograd.grad(mask(q).sum(), q, create_graph=True)

    def test_transforms_of_torch_func_are_refused_with_a_sentence(self):
        for name in ("none", "sparse", "grf", "toeplitz", "diffusion"):
            mask = mask_of(name, torch.float64)
            q, k, v = (x.detach() for x in inputs())

            def loss(q, mask=mask, k=k, v=v):
                return tm.attention(q, k, v, mask).sum()

            def softmax(q, mask=mask, k=k, v=v):
                return tm.softmax_attention(q, k, v, mask)

            with self.subTest(name=name):
                self.refuses(RuntimeError, "outside of torch.func", torch.func.grad(loss), q)
                self.refuses(RuntimeError, "outside of torch.func", torch.func.vmap(loss), q.expand(3, *q.shape))
                self.refuses(RuntimeError, "outside of torch.func", torch.func.vmap(mask), q.expand(3, *q.shape))
                self.refuses(RuntimeError, "outside of torch.func", torch.func.vjp, softmax, q)

    def test_what_is_made_of_tensors_under_a_transform_is_refused(self):
        graph = tm.Graph.grid(5, 6).to(torch.float64)
        q, pattern = inputs()[0].detach(), graph.pattern
        values = torch.ones(pattern.entries, dtype=torch.float64)
        walks, f = tm.sample_walks(graph), torch.ones(4, dtype=torch.float64)
        conv = tm.pyg.TransformerConv(4, 3).double()
        made_inside = {
            "NeighboursMask": lambda x: tm.attention(x, x, x, tm.NeighboursMask(graph)).sum(),
            "GRFMask": lambda x: tm.attention(x, x, x, tm.GRFMask(graph)).sum(),
            "Dense": lambda x: tm.attention(x, x, x, tm.dense_mask((x @ x.mT).reshape(-1, NODES, NODES)[0])).sum(),
        }
        for name, loss in made_inside.items():
            for transform in (torch.func.grad, torch.func.vmap, torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
                with self.subTest(name=name, transform=transform.__name__):
                    self.refuses(RuntimeError, f"topomask: {name} must be used outside of torch.func", transform(loss), q)
        functions = {
            "TransformerConv": lambda x: conv(x, graph.edge_index()),
            "matmul": lambda x: tm.matmul(pattern, values, x),
            "matmul_transposed": lambda x: tm.matmul_transposed(pattern, values, x),
        }
        for name, function in functions.items():
            with self.subTest(name=name):
                sentence = f"topomask: {name} must be used outside of torch.func's transforms"
                self.refuses(RuntimeError, sentence, torch.func.vmap(function), q)
                self.refuses(RuntimeError, sentence, torch.func.grad(lambda x, of=function: of(x).sum()), q[0])
        self.refuses(RuntimeError, "walk_features must be used outside",
                     torch.func.grad(lambda f: tm.walk_features(walks, f).sum()), f)  # fmt: skip
        self.refuses(
            RuntimeError, "normalised must be used outside", torch.func.grad(lambda x: graph.normalised().dense().sum()), q
        )
        torch.func.grad(lambda x: x.sum() * graph.num_edges)(q)  # nothing of the library is under the transform

    def test_forward_mode_derivatives_are_refused_with_a_sentence(self):
        graph = tm.Graph.grid(5, 6).to(torch.float64)
        conv = tm.pyg.TransformerConv(4, 3).double()
        x, pattern = inputs()[0].detach()[0], graph.pattern
        values = torch.ones(pattern.entries, dtype=torch.float64)
        masks = {name: mask_of(name, torch.float64) for name in ("none", "neighbours", "grf, one head", "diffusion")}
        calls = {
            **{f"{name}: attention": lambda x, m=m: tm.attention(*[x.expand(m.heads, -1, -1)] * 3, m) for name, m in masks.items()},
            "softmax_attention": lambda x: tm.softmax_attention(x, x, x, masks["neighbours"]),
            "mask: matmul": masks["neighbours"],
            "TransformerConv": lambda x: conv(x, graph.edge_index()),
            "matmul": lambda x: tm.matmul(pattern, values, x),
            "dense_mask": lambda x: tm.attention(x.detach(), x.detach(), x.detach(), tm.dense_mask(x @ x.mT)),
        }
        for name, call in calls.items():
            with self.subTest(name=name), forward_ad.dual_level():
                dual = forward_ad.make_dual(x, torch.ones_like(x))
                sentence = f"topomask: {name.split(': ')[-1]} has no forward-mode derivative"
                self.refuses(RuntimeError, sentence, call, dual)
                if name != "dense_mask":
                    call(x)  # what has no tangent is of no concern

    def test_layers_refuse_second_derivatives(self):
        graph = tm.Graph.grid(5, 6)
        x = random(NODES, 4, dtype=torch.float32).requires_grad_()
        walks = tm.NeighbourWalks(tm.cloud_neighbours(random(1, NODES, 3)))
        f = torch.ones(4, requires_grad=True)
        features = torch.rand(graph.num_entries, 2)
        plain, edged = tm.pyg.TransformerConv(4, 3), tm.pyg.TransformerConv(4, 3, edge_dim=2)
        gps = tm.pyg.GPSAttention(4, heads=2)
        gps.set_graph(graph.edge_index(), NODES)
        calls = {
            "TransformerConv": lambda: plain(x, graph.edge_index()),
            "TransformerConv ": lambda: edged(x, graph.edge_index(), features),
            "neighbour_attention": lambda: tm.neighbour_attention(x, x, x, walks, f),
            "attention": lambda: gps(x[None])[0],
        }
        for name, call in calls.items():
            with self.subTest(name=name):
                sentence = f"{name.strip()}: create_graph must be False; masks and attention are differentiable once"
                self.refuses(RuntimeError, sentence, torch.autograd.grad, call().sum(), x, create_graph=True)
                self.assertFalse(torch.autograd.grad(call().sum(), x)[0].requires_grad)

    def test_leading_dimensions_take_the_place_of_vmap(self):
        mask = mask_of("grf", torch.float64)
        q, k, v = (torch.stack([x.detach(), 2 * x.detach()]) for x in inputs())
        one_by_one = torch.stack([tm.attention(a, b, c, mask) for a, b, c in zip(q, k, v)])
        self.close(tm.attention(q, k, v, mask), one_by_one)

    def test_functional_call_uses_the_parameters_given(self):
        layer = tm.nn.MaskedAttention(8, heads=2, mask=mask_of("grf"))
        x = torch.rand(2, NODES, 8)
        other = {name: (p.detach() * 0.5).requires_grad_() for name, p in layer.named_parameters()}
        out = torch.func.functional_call(layer, other, (x,))
        out.square().sum().backward()
        self.assertTrue(all(p.grad is not None for p in other.values()))
        self.assertTrue(all(p.grad is None for p in layer.parameters()))
        before = layer(x)
        layer.load_state_dict({**layer.state_dict(), **{name: p.detach() for name, p in other.items()}})
        self.close(layer(x), out, 1e-6)
        self.assertFalse(torch.allclose(before, out))

    def test_what_is_kept_between_calls_follows_every_change(self):
        mask = mask_of("grf", torch.float64)
        q, k, v = (x.detach() for x in inputs())

        def right():
            fresh = tm.grf_mask(mask.argument("walks"), mask.f.detach().clone())
            self.close(tm.attention(q, k, v, mask), tm.attention(q, k, v, fresh))

        right()
        with torch.no_grad():
            mask.f.mul_(0.5)  # in place, as optimisers do
        right()
        mask.f = torch.nn.Parameter(mask.f.detach() + 1)  # by assignment
        right()
        mask.f.data = mask.f.data * 3  # other memory
        right()
        mask._parameters["f"] = torch.nn.Parameter(mask.f.detach() * 2)  # behind the module's back
        right()
        mask.f.requires_grad_(False)
        self.assertFalse(tm.attention(q, k, v, mask).requires_grad)
        mask.f.requires_grad_(True)
        self.assertTrue(tm.attention(q, k, v, mask).requires_grad)
        outer = tm.GlobalTokens(mask)
        x = random(2, NODES + 1, 4)
        before = tm.attention(x, x, x, outer)
        mask.f = torch.nn.Parameter(mask.f.detach() + 1)
        self.assertFalse(torch.allclose(before, tm.attention(x, x, x, outer)))


if __name__ == "__main__":
    unittest.main()
