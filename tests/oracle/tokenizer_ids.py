"""Small tokenizers and what the reference makes of many strings with them.

    .venv/bin/python tests/oracle/tokenizer_ids.py        (in the repository's root)

trains on datasets/tinyshakespeare and generated text of many scripts what is not there yet (training
is not the same to the last merge each time: the committed tokenizers stay), and writes to
tests/data/golden/tokenizers/:

gpt2/              vocab.json and merges.txt
llama3.json ...    tokenizer.json of each base
pieces.model       a SentencePiece model, BPE with byte fallback
golden.json        text       what strings are made of (see generated()): {lists, runs, ranges}
                   first      {base: the ids of the first strings, special tokens as text}
                   variants   {name: {base, patch}}: patch (RFC 7386) makes the variant of the base
                   planes     the planes whose every code point is in block_text()
NAME.digests       of each base, little-endian uint32: one a string, then one a plane
variants.digests   of each variant in the order of the names: one a hundred strings, then one a plane

A digest is the CRC-32 of: the ids with special tokens as text; -1; the ids with special tokens; -1 (each
as four bytes); the decoded text with special tokens and without, the latter two from the second ids.

Made with tokenizers 0.23.3 and sentencepiece 0.2.3.
"""

import json
import struct
import zlib
from pathlib import Path

import sentencepiece
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

FOLDER = Path("tests/data/golden/tokenizers")
STRINGS = 10_000
FIRST = 50
PLANES = [0, 1, 2, 3, 14]
MASK = (1 << 64) - 1

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TEXT = {
    "lists": [
        ["the", " the", " of", "Hello", " world", "ing", " and", "tion", "WORLD", " a", "x", " I"],
        [".", ",", "!", " -", "--", "...", "(", ")", " \"", "'", "/", "\\", "<", ">", "#", "@", "_"],
        ["'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'ve", "'VE", "'m", "'M", "'ll", "'LL", "'lL",
         "'d", "'D", "'\u017f", "'r", "'v", "'l", "'x", "\u2019s", "don't", "I'M", "we'LL", "it'\u017f"],
        ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f", "\U0001f1e9\U0001f1ea",
         "\U0001f44d\U0001f3fd", "1\ufe0f\u20e3", "\U0001faf6", "\U0001f6dc"],
        ["e\u0301", "\u00e9", "a\u0323\u0302", "a\u0302\u0323", "n\u0303o", "\u1e9b\u0323", "\u0130", "\ufb01",
         "\u2126", "\u212b", "\u212a", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0344", "\uf900", "\u00df", "\u03a3\u03c2",
         "q\u0307\u0323", "\U00011935\U00011930", "\u0915\u093c", "\u1e9e"],
        ["0", "1", "12", "123", "1234", "12345", " 7", "3.14", "1,000", "\u00b2", "\u0665\u0666", "\u2167", "\u00bd",
         "\U00011de0", "\U00016ff4"],
        [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\u00a0", "\u3000", "\u2003", "\u0085", "\u180e",
         "\u200b", "\ufeff", "\u2028", "\x0b", "\x1c", "\u2581"],
        ["<|endoftext|>", "<s>", "</s>", "<unk>", " <|pad|> ", "<|endoftext", "<tool>", "wordy", " wordy ",
         "<|begin_of_text|>", "<0x0A>", "<|eot", "\u0120", "Lower", "word"],
    ],
    "runs": [" ", "\n", "\r\n", "\t", "a", "A", "0", "=", "\u3000", "\u2581", "ab", "\u00e9", "\u0301", "\U0001f600", " \n"],
    "ranges": [
        [0, 0x7F], [0x80, 0xFF], [0x100, 0x24F], [0x250, 0x36F], [0x370, 0x52F], [0x590, 0x6FF],
        [0x700, 0x8FF], [0x900, 0xDFF], [0xE00, 0xFFF], [0x1000, 0x13FF], [0x1780, 0x1CFF],
        [0x1D00, 0x1FFF], [0x2000, 0x206F], [0x2070, 0x2BFF], [0x2C00, 0x2FFF], [0x3000, 0x31FF],
        [0x3200, 0x4DBF], [0x4E00, 0x9FFF], [0xA000, 0xABFF], [0xAC00, 0xD7FF], [0xE000, 0xF8FF],
        [0xF900, 0xFFFF], [0x10000, 0x107FF], [0x10800, 0x10FFF], [0x11000, 0x11FFF],
        [0x12000, 0x16FFF], [0x17000, 0x1CFFF], [0x1D000, 0x1DFFF], [0x1E000, 0x1F2FF],
        [0x1F300, 0x1FAFF], [0x20000, 0x323AF], [0xE0000, 0xE01FF], [0xF0000, 0x10FFFF],
    ],
}


class Random:
    """Knuth's 64-bit congruential generator, its upper bits."""

    def __init__(self, seed):
        self.state = seed & MASK

    def below(self, bound):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK
        return (self.state >> 33) % bound


def one_point(point):
    return chr(0xD7FF if 0xD800 <= point <= 0xDFFF else point)


def generated(number):
    random = Random(number * 0x9E3779B97F4A7C15 + 1)
    text = ""
    for _ in range(1 + random.below(12)):
        kind = random.below(8)
        if kind < 4:
            strings = TEXT["lists"][random.below(len(TEXT["lists"]))]
            text += strings[random.below(len(strings))]
        elif kind == 4:
            run = TEXT["runs"][random.below(len(TEXT["runs"]))]
            text += run * (1 + random.below(60))
        elif kind < 7:
            first, last = TEXT["ranges"][random.below(len(TEXT["ranges"]))]
            for _ in range(1 + random.below(6)):
                text += one_point(first + random.below(last - first + 1))
        else:
            text += one_point(random.below(0x110000))
    return text


def block_text(block):
    """Every code point of a block of 256 beside a letter, spaces, a digit and a line end."""
    points = [c for c in range(block * 256, block * 256 + 256) if not 0xD800 <= c <= 0xDFFF]
    return "".join(f"a{chr(c)} {chr(c)}1{chr(c)}\n" for c in points)


def packed(ids):
    return struct.pack(f"<{len(ids)}i", *ids)


class Reference:
    """A tokenizer of either package: what a digest is of."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def ids(self, text, special):
        self.tokenizer.encode_special_tokens = not special
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def record(self, text):
        plain, special = self.ids(text, False), self.ids(text, True)
        shown = self.tokenizer.decode(special, skip_special_tokens=False)
        skipped = self.tokenizer.decode(special, skip_special_tokens=True)
        return packed([*plain, -1, *special, -1]) + shown.encode() + skipped.encode()


class Pieces(Reference):
    def ids(self, text, special):
        return self.tokenizer.encode(text)

    def record(self, text):
        ids = self.ids(text, False)
        return packed([*ids, -1]) + self.tokenizer.decode(ids).encode()


def digests(reference, together):
    """One a `together` strings, then one a plane."""
    made = []
    for start in range(0, STRINGS, together):
        value = 0
        for number in range(start, start + together):
            value = zlib.crc32(reference.record(generated(number)), value)
        made.append(value)
    for plane in PLANES:
        value = 0
        for block in range(plane * 256, plane * 256 + 256):
            value = zlib.crc32(reference.record(block_text(block)), value)
        made.append(value)
    return struct.pack(f"<{len(made)}I", *made)


def special(text, **options):
    return AddedToken(text, special=True, normalized=False, **options)


def train(tokenizer, vocabulary, tokens, corpus, alphabet=()):
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=tokens, show_progress=False, min_frequency=2,
        initial_alphabet=list(alphabet), limit_alphabet=400, max_token_length=16,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def byte_level(pattern, normalizer=None):
    tokenizer = Tokenizer(models.BPE(ignore_merges=pattern == LLAMA3))
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not pattern))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if pattern else steps[0]
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    return tokenizer


def bases(corpus):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    gpt2 = train(byte_level(None), 2000, [special("<|endoftext|>")], corpus, alphabet)
    llama3 = train(byte_level(LLAMA3), 1100, [], corpus, alphabet)
    # Reached by its whole spelling alone.
    llama3.add_special_tokens([special(t) for t in ["<|begin_of_text|>", "<|endoftext|>", "<|eot"]])
    llama3.add_tokens([AddedToken("<tool>", normalized=False)])
    qwen2 = train(byte_level(QWEN2, normalizers.NFC()), 1000, [], corpus, alphabet)
    qwen2.add_special_tokens([special("<|endoftext|>")])
    llama2 = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    llama2.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    llama2.pre_tokenizer = pre_tokenizers.Metaspace()
    tokens = [special(t) for t in ["<unk>", "<s>", "</s>"]]
    tokens += [AddedToken(f"<0x{b:02X}>", normalized=False) for b in range(256)]
    train(llama2, 1300, tokens, corpus)
    made = json.loads(llama2.to_str())
    # As in Llama 2's file: nothing is split, and tokens of bytes are no added tokens.
    made["pre_tokenizer"] = None
    made["added_tokens"] = made["added_tokens"][:3]
    llama2 = Tokenizer.from_str(json.dumps(made))
    llama2.decoder = decoders.Sequence([
        decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ])
    return {"gpt2": gpt2, "llama3": llama3, "llama2": llama2, "qwen2": qwen2}


def split(pattern, behaviour, invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behaviour, "invert": invert}


def byte_steps(*steps):
    last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [*steps, last]}}


def sequence(*steps):
    return {"normalizer": {"type": "Sequence", "normalizers": list(steps)}}


def metaspace(scheme, cut):
    part = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": cut}
    return {"normalizer": None, "pre_tokenizer": part, "decoder": part}


def added(vocabulary, *tokens):
    """Each (content, options); ids as the package gives them out."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
    made, following = [], len(vocabulary)
    for content, options in tokens:
        known = vocabulary.get(content)
        made.append({**plain, "id": following if known is None else known, "content": content, **options})
        following += known is None
    return made


def variants(qwen2):
    """`qwen2`: the vocabulary of that base, without added tokens."""
    patterns = {f"split {b}": split(r"[aeiou\p{N}]+|\s", b) for b in
                ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]}
    patterns |= {f"invert {b}": split(r" ?\p{L}+", b, True) for b in
                 ["Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]}
    patterns |= {
        "literal": split(" ", "MergedWithNext", kind="String"),
        "o200k": split(O200K, "Isolated"),
        "llama3 as a regex": split(LLAMA3 + r"|\p{Co}{2,}x", "Isolated"),
        "gpt2 removed": split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
                              "Removed", True),
        "categories": split(r"\p{Lu}+|\p{Ll}+|\p{Lo}+|\p{M}+|\p{P}+|\p{S}+|\p{Nd}+|\p{C}+|\P{L}", "Isolated"),
        "han": split(r"\p{Han}+|(?<=\d)[^\d\s](?=\S)|(?>x+)\S{2,3}|\x41\u0042", "Isolated"),
        "folded": split(r"(?i:k[st]|re)+|(?i:a)x", "Isolated"),
        "digits": {"type": "Digits", "individual_digits": False},
        "digit": {"type": "Digits", "individual_digits": True},
        "whitespace": {"type": "Whitespace"},
        "whitespace split": {"type": "WhitespaceSplit"},
    }
    made = {name: {"base": "qwen2", "patch": byte_steps(step)} for name, step in patterns.items()}
    deepseek = [split("\\p{N}{1,3}", "Isolated"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", "Isolated"),
                split(DEEPSEEK, "Isolated")]
    made["deepseek"] = {"base": "qwen2", "patch": byte_steps(*deepseek)}
    prefixed = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    made["prefix space"] = {"base": "llama3", "patch": {"pre_tokenizer": prefixed}}
    made["smollm"] = {"base": "llama3", "patch": {"pre_tokenizer": {
        "type": "Sequence", "pretokenizers": [patterns["digit"], {**prefixed, "add_prefix_space": False}]}}}
    for form in ["NFD", "NFKC", "NFKD"]:
        made[form] = {"base": "qwen2", "patch": {"normalizer": {"type": form}}}
    made["lower"] = {"base": "qwen2", "patch": sequence(
        {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True})}
    made["strip"] = {"base": "qwen2", "patch": sequence(
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": r"\s{2,}|\p{N}"}, "content": "\u00e9 "})}
    for scheme in ["first", "always", "never"]:
        for cut in [True, False]:
            made[f"metaspace {scheme} {cut}"] = {"base": "llama2", "patch": metaspace(scheme, cut)}
    made["unknown"] = {"base": "llama2", "patch": {"model": {"byte_fallback": False, "fuse_unk": False}}}
    made["fused"] = {"base": "llama2", "patch": {"model": {"byte_fallback": False}}}
    made["dropped"] = {"base": "llama2", "patch": {"model": {"byte_fallback": False, "unk_token": None}}}
    made["whole"] = {"base": "llama2", "patch": {"model": {"ignore_merges": True}}}
    special_token = {"special": True, "normalized": False}
    made["added"] = {"base": "qwen2", "patch": {"added_tokens": added(
        qwen2, ("<|endoftext|>", {**special_token, "lstrip": True, "rstrip": True}),
        ("<|pad|>", {"lstrip": True}), ("wordy", {"single_word": True}), ("word", {"rstrip": True}),
        ("<tool>", {"normalized": False, "single_word": True, "lstrip": True}), ("\u2126", {}),
        ("<s>", {"special": True}), ("  ", {"normalized": False}))}}
    made["added lower"] = {"base": "qwen2", "patch": {
        "normalizer": {"type": "Lowercase"},
        "added_tokens": added(qwen2, ("LOWER", {}), ("World", {"single_word": True}), ("<|endoftext|>", special_token))}}
    return made


def merged(target, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merged(target.get(key), value)
    return target


def train_pieces(lines):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(FOLDER / "pieces"), vocab_size=900,
        model_type="bpe", byte_fallback=True, character_coverage=0.99, normalization_rule_name="identity",
        remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
        num_threads=1, minloglevel=2, max_sentence_length=100000,
    )
    (FOLDER / "pieces.vocab").unlink()


def corpus():
    text = Path("datasets/tinyshakespeare/input.txt").read_text()[:400_000]
    return text.splitlines(keepends=True) + [generated(STRINGS + number) for number in range(3000)]


def train_all():
    (FOLDER / "gpt2").mkdir(parents=True, exist_ok=True)
    lines = corpus()
    for name, tokenizer in bases(lines).items():
        if name == "gpt2":
            tokenizer.model.save(str(FOLDER / "gpt2"))
        else:
            (FOLDER / f"{name}.json").write_text(tokenizer.to_str(pretty=False))
    train_pieces([line for line in lines if line.isascii() and "\0" not in line])


def read_bases():
    gpt2 = byte_level(None)
    gpt2.model = models.BPE.from_file(str(FOLDER / "gpt2/vocab.json"), str(FOLDER / "gpt2/merges.txt"))
    gpt2.add_special_tokens([special("<|endoftext|>")])
    others = ["llama3", "llama2", "qwen2"]
    return {"gpt2": gpt2} | {name: Tokenizer.from_file(str(FOLDER / f"{name}.json")) for name in others}


def main():
    if not (FOLDER / "pieces.model").exists():
        train_all()
    references = {name: Reference(tokenizer) for name, tokenizer in read_bases().items()}
    qwen2 = references["qwen2"].tokenizer.get_vocab(with_added_tokens=False)
    golden = {"text": TEXT, "planes": PLANES, "first": {}, "variants": variants(qwen2)}
    references["pieces"] = Pieces(
        sentencepiece.SentencePieceProcessor(model_file=str(FOLDER / "pieces.model")))
    for name, reference in references.items():
        golden["first"][name] = [reference.ids(generated(i), False) for i in range(FIRST)]
        (FOLDER / f"{name}.digests").write_bytes(digests(reference, 1))
    of_variants = b""
    for name in sorted(golden["variants"]):
        variant = golden["variants"][name]
        content = merged(json.loads(references[variant["base"]].tokenizer.to_str()), variant["patch"])
        of_variants += digests(Reference(Tokenizer.from_str(json.dumps(content))), 100)
    (FOLDER / "variants.digests").write_bytes(of_variants)
    (FOLDER / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
