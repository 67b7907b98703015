"""Masks in timm's vision transformers: what people do with a model."""

import copy
import io
import subprocess
import sys
import tempfile
import unittest

import torch
from support import Case, needs, tm

SIZES = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 3, "num_classes": 5}


def vit(share=False, kind="kernel", **options):
    from timm.models.vision_transformer import VisionTransformer

    torch.manual_seed(0)
    mask = tm.GlobalTokens(tm.PowerSeriesMask(tm.Graph.grid(4, 4), heads=3))
    return VisionTransformer(**{**SIZES, **options}, attn_layer=tm.timm.attn_layer(mask, kind=kind, share=share))


@needs("timm")
class Timm(Case):
    def setUp(self):
        self.images = torch.rand(2, 3, 16, 16)

    def test_pickle(self):
        for share in (False, True):
            model = vit(share).eval()
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            again = torch.load(file, weights_only=False)
            self.assertTrue(torch.equal(again(self.images), model(self.images)))
            alphas = [p for name, p in again.named_parameters() if name.endswith("alpha")]
            self.assertEqual(len(alphas), 1 if share else 2)

    def test_a_pickle_in_another_process(self):
        model = vit().eval()
        with tempfile.TemporaryDirectory() as folder:
            torch.save((model, self.images, model(self.images).detach()), f"{folder}/model.pt")
            code = (
                "import torch; model, images, want = torch.load('model.pt', weights_only=False);"
                "assert torch.allclose(model(images), want)"
            )
            said = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=folder, capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr[-2000:])

    def test_copies_and_states(self):
        model = vit().eval()
        want = model(self.images)
        teacher = copy.deepcopy(model)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("alpha"):
                    parameter.add_(torch.arange(4.0))
        self.assertFalse(torch.allclose(model(self.images), want))
        self.assertTrue(torch.equal(teacher(self.images), want))
        teacher.load_state_dict(model.state_dict())
        self.assertTrue(torch.equal(teacher(self.images), model(self.images)))

    def test_a_model_by_name(self):
        import timm

        mask = tm.GlobalTokens(tm.GRFMask(tm.Graph.grid(4, 4), heads=3, walkers=4))
        layer = tm.timm.attn_layer(mask, kind="softmax")
        model = timm.create_model("vit_tiny_patch16_224", img_size=64, attn_layer=layer, num_classes=3)
        self.assertTrue(all(type(block.attn) is tm.timm.MaskedAttention for block in model.blocks))
        model.set_grad_checkpointing()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.rand(2, 3, 64, 64)).float().square().sum()
        loss.backward()
        self.assertTrue(all(p.grad is not None for p in model.parameters()))

    def test_compiled(self):
        for kind in ("kernel", "softmax"):
            model = vit(kind=kind).eval()
            compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
            self.close(compiled(self.images), model(self.images), 1e-5)

    def test_errors(self):
        self.refuses(TypeError, "mask must be a topomask.Mask, got int", tm.timm.attn_layer, 3)
        self.refuses(ValueError, "features must be one of", tm.timm.attn_layer, tm.NoneMask(17), features="square")
        self.refuses(ValueError, "mask must have 1 or 4 heads, got 3", vit, num_heads=4)
        self.refuses(ValueError, "attn_drop must be 0, got 0.1", vit, attn_drop_rate=0.1)
        self.refuses(ValueError, "attn_mask must be None", vit().blocks[0].attn, torch.rand(1, 17, 24), torch.ones(17, 17))
        self.refuses(AttributeError, "has no attribute 'Missing'", getattr, tm.timm, "Missing")


if __name__ == "__main__":
    unittest.main()
