"""The Unicode tables that tokenizers need, as the `tokenizers` package has them.

    .venv/bin/python tests/oracle/unicode_tables.py        (in the repository's root)

writes src/data/text/unicode_tables.cpp. The package mixes the Unicode versions of its libraries
(Oniguruma's patterns, Rust's own characters, an old normaliser); each table holds what the package
answered for every code point, so that ids do not depend on the versions installed here.

Made with tokenizers 0.23.3 and Python's unicodedata 14.0.0, which is also PCRE2 10.42's version.
"""

import unicodedata
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

FILE = Path("src/data/text/unicode_tables.cpp")
POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co"


def matching(pattern):
    """The code points that a pattern of one character matches."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = set()
    for start in range(0, len(POINTS), 4096):
        part = POINTS[start : start + 4096]
        kept = set("".join(p for p, _ in split.pre_tokenize_str("".join(map(chr, part)))))
        found |= {c for c in part if chr(c) not in kept}
    return found


def ranges(points):
    found = []
    for c in sorted(points):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def stand_ins(space):
    """(first, last, stand-in): code points whose category PCRE2 does not know yet."""
    known = {c: unicodedata.category(chr(c)) for c in POINTS}
    han = matching(r"\p{Han}")
    changed = {}
    for category in CATEGORIES.split():
        changed |= {c: category for c in matching(rf"\p{{{category}}}") if known[c] != category}
    # Space to PCRE2 alone.
    changed[0x180E] = "Cf"
    assert 0x180E not in space

    def stand_in(c):
        size, category = len(chr(c).encode()), changed[c]
        if c in han and category == "Lo":
            return {3: 0x4E00, 4: 0x20000}[size]
        for other in POINTS:
            if other not in changed and other not in han and known[other] == category:
                if len(chr(other).encode()) == size:
                    return other
        raise ValueError(f"no stand-in for U+{c:04X} {category}")

    of = {}
    table = []
    for c in sorted(changed):
        kind = (changed[c], c in han and changed[c] == "Lo", len(chr(c).encode()))
        if kind not in of:
            of[kind] = stand_in(c)
        if table and table[-1][1] == c - 1 and table[-1][2] == of[kind]:
            table[-1][1] = c
        else:
            table.append([c, c, of[kind]])
    return table


def numeric():
    split = pre_tokenizers.Digits(True)
    return {c for c in POINTS if len(split.pre_tokenize_str("a" + chr(c))) > 1}


def word(space):
    split = pre_tokenizers.Whitespace()
    return {c for c in POINTS if c not in space and len(split.pre_tokenize_str("a" + chr(c))) == 1}


def not_normalised():
    """What the package's normaliser takes for unassigned, and newer ones change or reorder."""
    forms = {name: getattr(normalizers, name)() for name in ["NFD", "NFC", "NFKD", "NFKC"]}

    def differs(form, text):
        return forms[form].normalize_str(text) != unicodedata.normalize(form, text)

    found = {c for c in POINTS if any(differs(form, chr(c)) for form in forms)}
    # Marks are put in order: behind one of class 240, and before one of class 1.
    found |= {c for c in POINTS if differs("NFD", "a\u0345" + chr(c)) or differs("NFD", "a" + chr(c) + "\u0334")}
    # U+11938 is U+11935 and U+11930 composed.
    found |= {0x11930}
    # Unicode 15 and 16: marks and compositions that Python does not know either.
    for first, last in [
        (0x0897, 0x0897), (0x0ECE, 0x0ECE), (0x105C9, 0x105C9), (0x105E4, 0x105E4),
        (0x10D69, 0x10D6D), (0x10EFD, 0x10EFF), (0x11382, 0x1138E), (0x11390, 0x113D0),
        (0x11F41, 0x11F42), (0x1133B, 0x1133B), (0x1611E, 0x1612F), (0x16D63, 0x16D6A),
        (0x1E030, 0x1E08F), (0x1E4EC, 0x1E4EF), (0x1E5EE, 0x1E5EF),
    ]:
        found |= set(range(first, last + 1))
    return found


def lower():
    """Pairs that Unicode 14 lacks. U+0130, which becomes two, is left to the code."""
    change = normalizers.Lowercase()
    pairs = []
    for c in POINTS:
        made = change.normalize_str(chr(c))
        if made != chr(c).lower():
            assert len(made) == 1
            pairs.append((c, ord(made)))
    return pairs


def rows(values):
    lines, line = [], " "
    for value in values:
        cell = " {" + ", ".join(f"0x{v:x}" for v in value) + "},"
        if len(line) + len(cell) > 100:
            lines.append(line)
            line = " "
        line += cell
    return "\n".join([*lines, line])


def table(kind, name, values):
    return f"constexpr {kind} {name}[] = {{\n{rows(values)}\n}};\n"


def main():
    space = matching(r"\s")
    parts = {
        "letters": ("CodeRange", ranges(matching(r"\p{L}"))),
        "numbers": ("CodeRange", ranges(matching(r"\p{N}"))),
        "spaces": ("CodeRange", ranges(space)),
        "words": ("CodeRange", ranges(word(space))),
        "numeric": ("CodeRange", ranges(numeric())),
        "inert": ("CodeRange", ranges(not_normalised())),
        "stand_ins": ("StandIn", stand_ins(space)),
        "lower": ("CodePair", lower()),
    }
    names = {name: "k" + "".join(p.title() for p in name.split("_")) for name in parts}
    text = "// Written by tests/oracle/unicode_tables.py, which says how. Do not edit.\n"
    text += '#include "data/text/unicode.h"\n\nnamespace trainer::data {\nnamespace {\n\n'
    text += "// clang-format off\n"
    text += "\n".join(table(kind, names[name], values) for name, (kind, values) in parts.items())
    text += "// clang-format on\n\n}  // namespace\n\nconst UnicodeTables& unicode_tables() {\n"
    cells = [f"{name}," for name in names.values()]
    width = [max(len(a), len(b)) for a, b in zip(cells[:4], cells[4:])]
    for start, line in [("  static constexpr UnicodeTables kTables{", cells[:4]), (" " * 41, cells[4:])]:
        row = " ".join(cell.ljust(size) for cell, size in zip(line, width)).rstrip()
        text += start + row + "\n"
    text = text.removesuffix(",\n") + "};\n"
    text += "  return kTables;\n}\n\n}  // namespace trainer::data\n"
    FILE.write_text(text)


if __name__ == "__main__":
    main()
