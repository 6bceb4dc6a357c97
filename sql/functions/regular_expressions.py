r"""Regular expressions of PostgreSQL ("advanced" ones), parsed and rewritten for RE2.

RE2 takes time linear in the text, whatever the pattern, so no pattern can block a statement. It therefore lacks
features that need backtracking or context beyond the match: back references and look-around, which are rejected by
name. Syntax that the two interpret differently is translated:

    PostgreSQL                                  RE2
    \y \Y \Z                                    \b \B \z
    \m \M                                       \b, where a word character stands next to it in the pattern
    \w \s [[:alpha:]] [[:upper:]] ...           classes of all scripts; \d and the others are of ASCII in both
    \uXXXX \UXXXXXXXX \xHH \cX \e \0            \x{...}
    [[=x=]] [[.x.]]                             x
    flags i c n m p s w x, also as (?flags)     (?s:...), (?i-s:...) around the pattern; blanks and comments left out

Flags: `i` ignore case, `c` do not; `n` or `m` newline-sensitive (`.` and `[^...]` stop at line ends, `^` and `$` match
there); `p` only the former, `w` only the latter, `s` neither (the default); `x` blanks and comments in the pattern are
ignored; `g` all matches. The last of contradictory flags wins.

Alternatives are tried from left to right, as in Perl; PostgreSQL takes the longest. Word boundaries (`\y`, `\m`, `\M`)
are those of ASCII words.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn

from ...errors import DataError, InvalidText, NotSupportedError
from ...model.lazy_dataclass import dataclass

_FLAGS = "gicnmpswx"
_MOST_REPEATED = 1000
_DEEPEST = 200
_ESCAPED = {"a": "\a", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_EDGES = {"A": r"\A", "Z": r"\z", "z": r"\z", "y": r"\b", "b": r"\b", "Y": r"\B", "B": r"\B"}

_WORD = r"\p{L}\p{N}_"
_NO_WORD = (
    r"\p{M}\p{S}\p{Z}\p{C}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}"
    r"\x{203f}\x{2040}\x{2054}\x{fe33}\x{fe34}\x{fe4d}-\x{fe4f}\x{ff3f}"
)
_SPACE = r"\t-\r\x{85}\p{Z}"
_NO_SPACE = r"\x{0}-\x{8}\x{e}-\x{1f}!-\x{84}\x{86}-\x{9f}\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}"
_SHORTHANDS = {"d": "0-9", "w": _WORD, "s": _SPACE, "D": r"\x{0}-/:-\x{10ffff}", "W": _NO_WORD, "S": _NO_SPACE}
"""The class in brackets for an escape; outside, `\\D \\W \\S` are the negated brackets of the others."""
_CLASSES = {
    **{name: f"[:{name}:]" for name in ("xdigit", "blank", "cntrl", "ascii")},
    "alpha": r"\p{L}", "digit": "0-9", "alnum": r"\p{L}\p{N}", "upper": r"\p{Lu}", "lower": r"\p{Ll}",
    "space": _SPACE, "punct": r"[:punct:]\p{P}\p{S}", "word": _WORD,
    "graph": r"!-~\p{L}\p{M}\p{N}\p{P}\p{S}", "print": r" -~\p{L}\p{M}\p{N}\p{P}\p{S}",
}  # fmt: skip
_OF_WORDS = ("d", "w", "alpha", "digit", "alnum", "upper", "lower", "xdigit", "word")
_LACKING = {
    "=": "lookahead, (?=...)", "!": "negative lookahead, (?!...)", "<=": "lookbehind, (?<=...)",
    "<!": "negative lookbehind, (?<!...)", ">": "atomic groups, (?>...)", "P=": "back references, (?P=name)",
    "(": "conditional groups, (?(...)...)",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern for RE2, the flags inside; it can be part of a larger pattern.

    Attributes
    ----------
    plain : without groups that capture
    capturing : the same with the groups `g1`, `g2`, ... by name
    groups : number of groups
    """

    plain: str
    capturing: str
    groups: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a pattern; records whether it can match the empty text, and whether every other match begins or ends
    with a word character.

    `edge` is "m" or "M" if its neighbours determine the translation.
    """

    plain: str
    capturing: str
    empty: bool = False
    starts: bool = False
    ends: bool = False
    edge: str = ""


@lru_cache(maxsize=1024)
def parse(pattern: str, flags: str = "") -> Regex:
    """Parses a regular expression and rewrites it for RE2.

    Raises
    ------
    InvalidText
        If it is not a regular expression, or a flag is unknown.
    NotSupportedError
        If it needs a feature that RE2 does not have.
    """
    parser = _Parser(pattern)
    check_flags(flags)
    for flag in (*flags, *parser.options()):
        parser.set(flag)
    whole = parser.alternatives()
    if parser.more:
        parser.refuse("a ) without its (")
    if parser.is_within_words and whole.empty:
        # RE2 would match it between the bytes of a character.
        parser.lacks(r"\Y (no edge of a word) in a pattern that may match the empty text")
    scope = f"(?{'i' if parser.ignore_case else ''}{'m' if parser.lines else ''}{'' if parser.stops else 's'}:"
    return Regex(f"{scope}{whole.plain})", f"{scope}{whole.capturing})", parser.groups)


@lru_cache(maxsize=256)
def similar_pattern(pattern: str, escape: str = "\\") -> str:
    r"""A pattern of SIMILAR TO as a regular expression for the whole text.

    >>> similar_pattern("%(b|d)%")
    '\\A(?:.*(?:b|d).*)\\Z'
    """
    out: list[str] = []
    chars = iter(pattern)
    bracket = False
    for char in chars:
        if escape and char == escape:
            following = next(chars, None)
            if following is None:
                raise DataError(f"the SIMILAR TO pattern {pattern!r} ends in an escape character")
            out.append(following if following.isalnum() or following == "_" else f"\\{following}")
        elif bracket:
            bracket = char != "]"
            out.append("\\\\" if char == "\\" else char)
        elif char == "[":
            bracket = True
            out.append(char)
        else:
            out.append(
                {"%": ".*", "_": ".", "(": "(?:", ".": r"\.", "^": r"\^", "$": r"\$", "\\": r"\\"}.get(char, char)
            )
    return rf"\A(?:{''.join(out)})\Z"


def check_flags(flags: str) -> None:
    """Raises `InvalidText` if a flag is unknown."""
    for flag in flags:
        if flag not in _FLAGS:
            raise InvalidText(f"'{flag}' is not a flag of regular expressions; there are {', '.join(_FLAGS)}")


class _Parser:
    """Recursive descent parser: alternatives of sequences of pieces, each optionally repeated."""

    def __init__(self, pattern: str) -> None:
        self.groups = 0
        self.ignore_case = self.lines = self.stops = self._expanded = False
        self.is_within_words = False
        self._text = pattern
        self._at = 0
        self._depth = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._text)

    def refuse(self, what: str) -> NoReturn:
        raise InvalidText(f"'{self._text}' is not a regular expression: {what}, at character {self._at}")

    def lacks(self, what: str) -> NoReturn:
        raise NotSupportedError(
            f"the regular expression '{self._text}' needs {what}, which RE2 does not have: every pattern runs in time "
            "linear in the text"
        )

    def options(self) -> str:
        """The flags of a leading `(?flags)`, which is skipped."""
        end = self._text.find(")")
        letters = self._text[2:end]
        if not self._text.startswith("(?") or end < 3 or not set(letters) <= set("cimnpstwx"):
            return ""
        self._at = end + 1
        return letters.replace("t", "")

    def set(self, flag: str) -> None:
        """Sets a flag."""
        if flag in "ic":
            self.ignore_case = flag == "i"
        elif flag in "nmpsw":
            self.lines, self.stops = flag in "nmw", flag in "nmp"
        elif flag == "x":
            self._expanded = True

    # ---- reading ------------------------------------------------------------------------------------------------

    def _next(self, what: str) -> str:
        if not self.more:
            self.refuse(f"it ends where {what} is expected")
        self._at += 1
        return self._text[self._at - 1]

    def _skip(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _until(self, end: str, what: str) -> str:
        place = self._text.find(end, self._at)
        if place < 0:
            self.refuse(f"{what} has no {end}")
        found, self._at = self._text[self._at : place], place + len(end)
        return found

    def _skip_blanks(self) -> None:
        while self.more:
            if self._text.startswith("(?#", self._at):
                self._until(")", "a comment")
            elif self._expanded and self._text[self._at].isspace():
                self._at += 1
            elif self._expanded and self._text[self._at] == "#":
                self._at = (self._text.find("\n", self._at) + 1) or len(self._text)
            else:
                return

    # ---- structure ----------------------------------------------------------------------------------------------

    def alternatives(self) -> _Piece:
        """`a|b|c`, to the end or an unmatched parenthesis."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self.refuse(f"groups lie in each other more than {_DEEPEST} deep")
        found = [self._sequence()]
        while self._skip("|"):
            found.append(self._sequence())
        self._depth -= 1
        if len(found) == 1:
            return found[0]
        return _Piece(
            "|".join(each.plain for each in found),
            "|".join(each.capturing for each in found),
            any(each.empty for each in found),
            all(each.starts for each in found),
            all(each.ends for each in found),
        )

    def _sequence(self) -> _Piece:
        pieces: list[_Piece] = []
        while True:
            self._skip_blanks()
            if not self.more or self._text[self._at] in "|)":
                break
            pieces.append(self._repeated(self._piece()))
        for place, piece in enumerate(pieces):
            beside = pieces[place + 1 :] if piece.edge == "m" else pieces[:place][::-1]
            if piece.edge and (all(p.empty for p in beside) or not _is_word(beside, piece.edge == "m")):
                side = "before" if piece.edge == "m" else "behind"
                self.lacks(
                    f"lookahead for \\{piece.edge}, unless it stands {side} what begins or ends with a word character "
                    "(\\y is either edge of a word)"
                )
        return _Piece(
            "".join(piece.plain for piece in pieces),
            "".join(piece.capturing for piece in pieces),
            all(piece.empty for piece in pieces),
            _is_word(pieces, True),
            _is_word(pieces[::-1], False),
        )

    def _repeated(self, piece: _Piece) -> _Piece:
        self._skip_blanks()
        quantifier = self._quantifier()
        if not quantifier:
            return piece
        if piece.edge:
            self.refuse(f"nothing is there to repeat behind \\{piece.edge}")
        empty = quantifier[0] in "*?" or quantifier.startswith(("{0}", "{0,"))
        self._skip_blanks()
        if self._quantifier():
            self.refuse("a repetition cannot be repeated")
        return _Piece(
            piece.plain + quantifier,
            piece.capturing + quantifier,
            piece.empty or empty,
            piece.starts and quantifier[:3] != "{0}",
            piece.ends and quantifier[:3] != "{0}",
        )

    def _quantifier(self) -> str:
        """`*`, `+`, `?` or `{m,n}`, non-greedy with a `?` after it; "" if there is none."""
        if not self.more:
            return ""
        found = self._text[self._at]
        if found == "{" and self._text[self._at + 1 : self._at + 2].isdecimal():
            self._at += 1
            found = "{" + self._until("}", "a number of repetitions") + "}"
            self._check_bounds(found)
        elif found in "*+?":
            self._at += 1
        else:
            return ""
        return found + ("?" if self._skip("?") else "")

    def _check_bounds(self, quantifier: str) -> None:
        least, comma, most = quantifier[1:-1].partition(",")
        numbers = [least, *([most] if comma and most else [])]
        if not all(number.isascii() and number.isdecimal() for number in numbers):
            self.refuse(f"{quantifier} is not a number of repetitions")
        counts = [int(number) for number in numbers]
        if counts != sorted(counts) or counts[-1] > _MOST_REPEATED:
            self.refuse(f"{quantifier} must ascend, to {_MOST_REPEATED} at most")

    # ---- pieces -------------------------------------------------------------------------------------------------

    def _piece(self) -> _Piece:
        char = self._next("a character")
        if char == "(":
            return self._group()
        if char == "[":
            return self._bracket()
        if char == "\\":
            return self._escape()
        if char in "^$":
            return _Piece(char, char, True, True, True)
        if char == ".":
            return _Piece(".", ".")
        if char in "*+?" or (char == "{" and self._text[self._at : self._at + 1].isdecimal()):
            self.refuse(f"nothing is there to repeat with {char}")
        return _literal(char)

    def _group(self) -> _Piece:
        opening = "(?:"
        named = ""
        if not self._skip("?"):
            self.groups += 1
            named = f"(?P<g{self.groups}>"
        elif not self._skip(":"):
            for sign, what in _LACKING.items():
                if self._skip(sign):
                    self.lacks(what)
            if self._skip("P<") or self._skip("<"):
                self._until(">", "a group's name")
                self.groups += 1
                named = f"(?P<g{self.groups}>"
            else:
                opening = "(?" + self._switches()
                if opening.endswith(")"):
                    return _Piece(opening, opening, True, True, True)
        inner = self.alternatives()
        if not self._skip(")"):
            self.refuse("a ( without its )")
        return _Piece(
            f"{opening}{inner.plain})", f"{named or opening}{inner.capturing})", inner.empty, inner.starts, inner.ends
        )

    def _switches(self) -> str:
        """`i:` or `i)`, and the like: RE2's flags, up to the end of the group."""
        start = self._at
        while self.more and self._text[self._at] in "imsU-":
            self._at += 1
        if self._at == start or not self.more or self._text[self._at] not in ":)":
            self.refuse("an unknown kind of group")
        self._at += 1
        return self._text[start : self._at]

    def _escape(self) -> _Piece:
        char = self._next("a character after \\")
        if char in _EDGES:
            self.is_within_words |= char in "YB"
            return _Piece(_EDGES[char], _EDGES[char], True, True, True)
        if char in "mM":
            return _Piece(r"\b", r"\b", True, True, True, char)
        if char in "DWS":
            members = f"[^{_SHORTHANDS[char.lower()]}]"
            return _Piece(members, members)
        if char in "dws":
            members = f"[{_SHORTHANDS[char]}]"
            return _Piece(members, members, False, char in _OF_WORDS, char in _OF_WORDS)
        if char in "pP":
            return _Piece(found := self._property(char), found)
        if char in "123456789":
            self.lacks(f"back references, \\{char}")
        return _literal(self._escaped(char))

    def _property(self, char: str) -> str:
        if self._skip("{"):
            return f"\\{char}{{{self._until('}', 'a class of characters')}}}"
        return f"\\{char}{self._next('a class of characters')}"

    def _escaped(self, char: str) -> str:
        """The one character that an escape represents."""
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char == "c":
            return chr(ord(self._next("a control character")) & 31)
        if char in _HEX_DIGITS:
            return self._code_point(char)
        if char.isalnum():
            self.refuse(f"\\{char} is not an escape")
        return char

    def _code_point(self, char: str) -> str:
        if char == "x" and self._skip("{"):
            digits = self._until("}", "a character's number")
        else:
            digits = self._text[self._at : self._at + _HEX_DIGITS[char]]
            self._at += len(digits)
        try:
            found = chr(int(digits, 16))
            found.encode()
        except (ValueError, OverflowError):
            self.refuse(f"\\{char} is followed by a character's number in hexadecimal digits")
        return found

    # ---- brackets -----------------------------------------------------------------------------------------------

    def _bracket(self) -> _Piece:
        negated = self._skip("^")
        members: list[str] = []
        of_words = not negated
        while not (members and self._skip("]")):
            char, member, is_word = self._member()
            if char and self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                last, _, is_last_word = self._member()
                if not last or last < char:
                    self.refuse(f"a range from {char} must end with a character that is not before it")
                member = f"{member}-{_quoted(last)}"
                is_word = is_word and is_last_word and _kind(char) == _kind(last)
            members.append(member)
            of_words = of_words and is_word
        if negated and self.stops:
            members.append(r"\n")
        found = f"[{'^' if negated else ''}{''.join(members)}]"
        return _Piece(found, found, False, of_words, of_words)

    def _member(self) -> tuple[str, str, bool]:
        """A character, or "" for a class; its form in brackets; True if it contains only word characters."""
        if self._skip("[:"):
            name = self._until(":]", "a class")
            if name not in _CLASSES:
                self.refuse(f"there is no class [:{name}:]; there are {', '.join(sorted(_CLASSES))}")
            return "", _CLASSES[name], name in _OF_WORDS
        for mark in "=.":
            if self._skip(f"[{mark}"):
                char = self._until(f"{mark}]", "a character's class")
                if len(char) != 1:
                    self.refuse(f"[{mark}{char}{mark}] must be of one character")
                return char, _quoted(char), _is_word_character(char)
        char = self._next("a ]")
        if char == "\\":
            char = self._next("a character after \\")
            if char in _SHORTHANDS:
                return "", _SHORTHANDS[char], char in _OF_WORDS
            if char in "pP":
                return "", self._property(char), False
            char = "\b" if char == "b" else self._escaped(char)
        return char, _quoted(char), _is_word_character(char)


def _literal(char: str) -> _Piece:
    found, is_word = _quoted(char), _is_word_character(char)
    return _Piece(found, found, False, is_word, is_word)


def _quoted(char: str) -> str:
    if char.isascii() and not char.isalnum():
        return f"\\x{{{ord(char):x}}}"
    return char


def _is_word_character(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


def _kind(char: str) -> tuple[bool, bool]:
    return char.isdigit(), char.isupper()


def _is_word(pieces: list[_Piece], at_start: bool) -> bool:
    """True if every non-empty match of the pieces in sequence begins with a word character. (With the pieces reversed:
    ends.)"""
    for piece in pieces:
        if not (piece.starts if at_start else piece.ends):
            return False
        if not piece.empty:
            break
    return True
