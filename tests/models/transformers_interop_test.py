"""Folders of transformers and adapters of peft go there and back without a change of result.

    transformers_interop_test.py MODEL_TOOL        exits with 77 where a package is missing
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import (AutoModelForCausalLM, AutoModelForImageClassification, GPT2Config,
                              GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig,
                              MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, ViTConfig,
                              ViTForImageClassification)
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import formula  # noqa: E402

MODEL_TOOL = pathlib.Path(sys.argv.pop(1)).resolve()
VOCABULARY = 65
LLAMA = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=32, vocab_size=VOCABULARY,
             bos_token_id=None, eos_token_id=None)
ROPE = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 16}


def language_models():
    yield "gpt2", GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=32,
                                             vocab_size=VOCABULARY, bos_token_id=None,
                                             eos_token_id=None))
    yield "llama", LlamaForCausalLM(LlamaConfig(**LLAMA, rope_parameters=ROPE))
    yield "mistral", MistralForCausalLM(MistralConfig(**LLAMA, head_dim=16))
    yield "qwen2", Qwen2ForCausalLM(Qwen2Config(**LLAMA, tie_word_embeddings=True))


def widened(model):
    """Larger weights than a fresh model's, so that a mistake shows in the logits."""
    torch.manual_seed(1)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) * 0.15)
    return model.eval()


class InteropTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_tool(self, *arguments):
        result = subprocess.run([MODEL_TOOL, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)

    def assert_close(self, actual, wanted):
        distance = ((actual - wanted).abs().max() / wanted.abs().max()).item()
        self.assertLessEqual(distance, 1e-5)

    def logits(self, model):
        with torch.no_grad():
            if model.config.model_type == "vit":
                return model.eval()(formula.model_input([2, 3, 32, 32])).logits
            tokens = formula.targets(2 * 24, VOCABULARY, 11).reshape(2, 24)
            return model.eval()(tokens).logits

    def check_folder(self, name, model, auto):
        theirs, ours = self.folder / name, self.folder / f"{name}-back"
        wanted = self.logits(widened(model))
        model.save_pretrained(theirs)
        ours.mkdir()
        self.run_tool("folder", theirs, ours)
        self.assert_close(load_file(ours / "logits")["logits"], wanted)
        back, info = auto.from_pretrained(ours, output_loading_info=True)
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(info[kind], kind)
        self.assert_close(self.logits(back), wanted)

    def test_language_models(self):
        for name, model in language_models():
            with self.subTest(name):
                self.check_folder(name, model, AutoModelForCausalLM)

    def test_vit(self):
        model = ViTForImageClassification(ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            image_size=32, patch_size=8, num_labels=5))
        self.check_folder("vit", model, AutoModelForImageClassification)

    def test_adapters(self):
        for name, model in language_models():
            with self.subTest(name):
                theirs, ours = self.folder / name, self.folder / f"{name}-adapter"
                widened(model).save_pretrained(theirs)
                ours.mkdir()
                self.run_tool("adapter", theirs, ours)
                wanted = load_file(ours / "logits")["logits"]
                base = AutoModelForCausalLM.from_pretrained(theirs)
                self.assertGreater((self.logits(base) - wanted).abs().max().item(), 1e-2)
                adapted = PeftModel.from_pretrained(base, ours)
                self.assert_close(self.logits(adapted), wanted)
                self.assert_close(self.logits(adapted.merge_and_unload()), wanted)


if __name__ == "__main__":
    unittest.main()
