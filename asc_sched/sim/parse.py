"""Reads the MLIR text of ASC-IR (`str(mod)` of pyasc, with or without location info) into `ir.Module`.

MLIR's printer puts one operation on a line and opens and closes regions at line ends, so this reads line by line and
keeps of each line what every printed form shares: results, name, operands, keywords, attributes, types, location.
What an operation means is left to the interpreter; only forms that break the common shape are treated here.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Mapping
from types import MappingProxyType

from asc_sched.errors import SimulationError
from asc_sched.sim.ir import UNKNOWN_LOC, Arg, Attr, Block, Func, Module, Op
from asc_sched.sim.stream import Loc

_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_LINE = re.compile(r'(?:(%[\w$.:, %-]+?) = )?"?([A-Za-z_][\w.]*)"?(.*)$', re.S)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LOC_ALIAS = re.compile(r" loc\((#loc\d*)\)$")
_FILE_LINE = re.compile(r'^"((?:[^"\\]|\\.)*)":(\d+):\d+$')
_ARG = re.compile(r"(%\w+): ")
_FOR = re.compile(r"(%[\w$.-]+) = (%\S+) to (%\S+) step (%\S+)")
_ITER = re.compile(r"(%[\w$.-]+) = (%[\w$.#-]+)")
_CONSTRUCT = re.compile(r"!ascendc\.(\w+)(?:<[^>]*>)?\(.*?\)\s*(?:\[([^\]]*)\])?")
_INT = re.compile(r"^-?\d+$")
_EMPTY: Mapping[str, Attr] = MappingProxyType({})
_FLOAT_BITS = {"f16": ("<H", "<e"), "f32": ("<I", "<f"), "f64": ("<Q", "<d")}


class ParseError(SimulationError):
    """The text isn't ASC-IR as pyasc prints it."""


@functools.lru_cache(maxsize=256)
def parse(asc_ir: str) -> Module:
    """The module in `asc_ir`. Results are cached by text. Raises `ParseError` with the line that can't be read."""
    return _Parser(asc_ir).module()


class _Locs:
    """The `#loc` aliases of a module, resolved on demand; a call site resolves to the innermost (callee's) line."""

    def __init__(self, lines: list[str]) -> None:
        self._text: dict[str, str] = {}
        for line in lines:
            if line.startswith("#loc"):
                name, _, value = line.partition(" = loc(")
                self._text[name] = value[:-1]
        self._known: dict[str, Loc] = {}

    def resolve(self, text: str) -> Loc:
        """The place that the inside of a `loc(...)` names."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._read(text)
        return found

    def _read(self, text: str) -> Loc:
        if text.startswith("#"):
            return self.resolve(self._text.get(text, "unknown"))
        if text.startswith("callsite("):
            return self.resolve(text[len("callsite(") : -1].partition(" at ")[0])
        if text.startswith("fused"):
            return self.resolve(text.partition("[")[2].partition(",")[0].rstrip("]"))
        m = _FILE_LINE.match(text)
        if m:
            return Loc(_unescape(m.group(1)), int(m.group(2)))
        if text.startswith('"') and text.endswith(")"):  # a name: "x"(#loc1)
            return self.resolve(text[text.index('"(') + 2 : -1])
        return UNKNOWN_LOC


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines = [s for s in (line.strip() for line in text.splitlines()) if s]
        self._locs = _Locs(self._lines)
        self._at = 0
        self._values = 0

    # -- module and functions ----------------------------------------------------------------------------------
    def module(self) -> Module:
        funcs = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("func.func"):
                funcs.append(self._func())
            else:
                self._at += 1
        if not funcs:
            raise ParseError("no func.func in the text: it isn't the ASC-IR of a pyasc kernel")
        return Module(tuple(funcs))

    def _func(self) -> Func:
        line = self._lines[self._at]
        name = line[line.index("@") + 1 : line.index("(")]
        inside, rest = _balanced(line, line.index("("))
        self._values = 0
        names: dict[str, int] = {}
        args = tuple(self._arg(part, names) for part in _split(inside) if part)
        if not line.endswith("{"):
            raise ParseError(f"function {name!r} has no body: {line[:120]}")
        self._at += 1
        block = self._block(names, ())
        loc = self._close_loc()
        return Func(name, args, block, self._values, "ascendc.global" in rest, loc)

    def _arg(self, text: str, names: dict[str, int]) -> Arg:
        m = _ARG.match(text)
        if m is None:
            raise ParseError(f"unreadable function argument: {text}")
        type_text = text[m.end() :].partition(" {")[0].partition(" loc(")[0]
        kind = re.search(r"kernel_arg (\w+)>", text)
        source = re.search(r'loc\("([^"]*)"', text)
        value = self._define(m.group(1), names)
        return Arg(source.group(1) if source else m.group(1), type_text, kind.group(1) if kind else "explicit", value)

    # -- blocks ------------------------------------------------------------------------------------------------
    def _block(self, names: dict[str, int], args: tuple[int, ...]) -> Block:
        ops: list[Op] = []
        while True:
            if self._at >= len(self._lines):
                raise ParseError("the text ends inside a region")
            line = self._lines[self._at]
            if line[0] == "}":
                return Block(args, tuple(ops))
            ops.append(self._op(line, names))

    def _region(self, names: dict[str, int], arg_names: tuple[str, ...] = ()) -> Block:
        """The region that starts at the current line; stops at its closing line."""
        inner = dict(names)
        args = tuple(self._define(n, inner) for n in arg_names)
        return self._block(inner, args)

    def _close_loc(self) -> Loc:
        """Reads a region's closing line and gives its location."""
        line = self._lines[self._at]
        self._at += 1
        return self._loc(line)[1]

    # -- operations --------------------------------------------------------------------------------------------
    def _op(self, line: str, names: dict[str, int]) -> Op:
        self._at += 1
        body, loc = self._loc(line)
        strings: list[str] = []
        if '"' in body:
            body = _hide_strings(body, strings)
        m = _LINE.match(body)
        if m is None:
            raise ParseError(f"unreadable operation: {line}")
        results, name, rest = m.group(1), m.group(2), m.group(3)
        if name.startswith("scf.") and rest.endswith("{"):
            return self._structured(name, results, rest, names)
        if rest.endswith("{"):
            raise ParseError(f"unknown operation with a region: {line}")
        attrs_found = _EMPTY
        if "{" in rest:
            rest, attrs_found = _take_attrs(rest, strings)
        head, types = _types(rest)
        operands = tuple(self._use(v, names, line) for v in _VALUE.findall(head))
        if name == "arith.constant":
            words: tuple[str, ...] = ()
            attrs_found = {"value": _constant(head.strip(), types[0] if types else "i1")}
            types = types or ("i1",)
        elif name == "ascendc.construct":
            words, attrs_found = (), _construct(head)
        else:
            words = _words(head, strings)
        return Op(name, operands, self._results(results, names), types, attrs_found, words, (), loc)

    def _structured(self, name: str, results: str | None, rest: str, names: dict[str, int]) -> Op:
        """scf.for, scf.if and scf.while: the operations with regions."""
        head, _, tail = rest[:-1].partition(" : ")
        types = _split(tail.strip()) if tail else ()
        regions: list[Block] = []
        if name == "scf.for":
            m = _FOR.search(head)
            if m is None:
                raise ParseError(f"unreadable loop: {rest}")
            carried = _ITER.findall(head[m.end() :])
            operands = tuple(self._use(v, names, rest) for v in (*m.groups()[1:], *(init for _, init in carried)))
            regions.append(self._region(names, (m.group(1), *(arg for arg, _ in carried))))
        elif name == "scf.while":
            carried = _ITER.findall(head)
            operands = tuple(self._use(init, names, rest) for _, init in carried)
            regions.append(self._region(names, tuple(arg for arg, _ in carried)))
        else:
            operands = tuple(self._use(v, names, rest) for v in _VALUE.findall(head))
            regions.append(self._region(names))
        while self._lines[self._at].startswith(("} else {", "} do {")):
            self._at += 1
            block_args: tuple[str, ...] = ()
            if self._lines[self._at].startswith("^"):
                block_args = tuple(_VALUE.findall(self._lines[self._at]))
                self._at += 1
            regions.append(self._region(names, block_args))
        loc = self._close_loc()
        return Op(name, operands, self._results(results, names), tuple(types), _EMPTY, (), tuple(regions), loc)

    # -- values ------------------------------------------------------------------------------------------------
    def _define(self, name: str, names: dict[str, int]) -> int:
        number = names[name] = self._values
        self._values += 1
        return number

    def _use(self, name: str, names: dict[str, int], line: str) -> int:
        try:
            return names[name]
        except KeyError:
            raise ParseError(f"value {name} is used before it is defined: {line}") from None

    def _results(self, text: str | None, names: dict[str, int]) -> tuple[int, ...]:
        if not text:
            return ()
        found: list[int] = []
        for part in text.split(", "):
            name, _, count = part.partition(":")
            if count:
                found += [self._define(f"{name}#{i}", names) for i in range(int(count))]
            else:
                found.append(self._define(name, names))
        return tuple(found)

    # -- locations ---------------------------------------------------------------------------------------------
    def _loc(self, line: str) -> tuple[str, Loc]:
        """A line without its trailing location, and the location."""
        m = _LOC_ALIAS.search(line)
        if m:
            return line[: m.start()], self._locs.resolve(m.group(1))
        start = line.rfind(" loc(") if line.endswith(")") else -1
        if start >= 0:
            return line[:start], self._locs.resolve(line[start + 5 : -1])
        return line, UNKNOWN_LOC


# -- pieces of a line ------------------------------------------------------------------------------------------
def _hide_strings(body: str, strings: list[str]) -> str:
    """Replaces string literals by ``"0"``, ``"1"``... so that their contents can't look like syntax."""
    generic = re.match(r'(?:%[\w:#]+ = )?"[\w.]+"\(', body)  # the name of an op in generic form is no literal
    start = generic.end() - 1 if generic else 0

    def hide(m: re.Match[str]) -> str:
        strings.append(_unescape(m.group(1)))
        return f'"{len(strings) - 1}"'

    return body[:start] + _STRING.sub(hide, body[start:])


def _unescape(text: str) -> str:
    """MLIR escapes: two hex digits, or a backslash before a quote or backslash."""
    if "\\" not in text:
        return text

    def one(m: re.Match[str]) -> str:
        code = m.group(1)
        if len(code) == 2:
            return chr(int(code, 16))
        return {"n": "\n", "t": "\t"}.get(code, code)

    raw = re.sub(r"\\([0-9A-Fa-f]{2}|.)", one, text)
    return raw.encode("latin-1", "replace").decode("utf-8", "replace") if raw.isascii() is False else raw


def _balanced(text: str, start: int) -> tuple[str, str]:
    """The inside of the bracket that opens at `start`, and what follows it. Strings are skipped."""
    depth, i = 0, start
    while i < len(text):
        c = text[i]
        if c == '"':
            m = _STRING.match(text, i)
            i = m.end() if m else i + 1
            continue
        if c in "([{<":
            depth += 1
        elif c in ")]}" or (c == ">" and text[i - 1] != "-"):
            depth -= 1
            if depth == 0:
                return text[start + 1 : i], text[i + 1 :]
        i += 1
    raise ParseError(f"unbalanced brackets: {text}")


def _split(text: str) -> list[str]:
    """Splits at commas outside all brackets and strings."""
    if "<" not in text and "(" not in text and "{" not in text and "[" not in text:
        return [part.strip() for part in text.split(",")]
    parts, depth, last, i = [], 0, 0, 0
    while i < len(text):
        c = text[i]
        if c == '"':
            m = _STRING.match(text, i)
            i = m.end() if m else i + 1
            continue
        if c in "([{<":
            depth += 1
        elif c in ")]}" or (c == ">" and text[i - 1] != "-"):
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[last:i].strip())
            last = i + 1
        i += 1
    parts.append(text[last:].strip())
    return parts


def _take_attrs(rest: str, strings: list[str]) -> tuple[str, Mapping[str, Attr]]:
    """Cuts the attribute dictionary (``{...}`` or ``<{...}>``) out of an operation's text."""
    start = rest.index("{")
    inside, after = _balanced(rest, start)
    before = rest[:start]
    if before.endswith("<"):
        before, after = before[:-1], after[1:]
    found: dict[str, Attr] = {}
    for part in _split(inside):
        key, eq, value = part.partition(" = ")
        found[key] = _attr(value, strings) if eq else True
    return before + after, found


def _attr(text: str, strings: list[str]) -> Attr:
    value, _, kind = text.partition(" : ")
    if _INT.match(value):
        return int(value)
    if value in ("true", "false"):
        return value == "true"
    if value.startswith('"'):
        return strings[int(value.strip('"'))]
    if text.startswith("array<"):
        return tuple(int(v) for v in text[:-1].partition(": ")[2].split(",") if v.strip())
    if kind and kind[0] == "f":
        return _constant(value, kind)
    return text


def _types(rest: str) -> tuple[str, tuple[str, ...]]:
    """Splits an operation's text at the colon before its types."""
    if rest.startswith(" : "):
        head, tail = "", rest[3:]
    else:
        head, _, tail = rest.partition(" : ")
    tail = tail.strip().rstrip(":").strip()
    if not tail:
        return head.rstrip(" :"), ()
    for arrow in (" -> ", " to "):
        if arrow in tail:
            left, _, right = tail.partition(arrow)
            sides = [part.strip("()") for part in (left, right)]
            return head, tuple(t for side in sides if side for t in _split(side))
    return head, tuple(_split(tail))


def _words(head: str, strings: list[str]) -> tuple[str, ...]:
    """The keywords of an operation's text: what is neither operand nor punctuation; string literals in full."""
    if not head or head.isspace():
        return ()
    found = []
    for part in _VALUE.sub("", head).replace("[", ",").replace("]", ",").split(","):
        word = part.strip()
        if word.startswith('"'):
            found.append(strings[int(word.strip('"'))])
        elif word and word not in ("()",):
            found += word.split()
    return tuple(found)


def _constant(text: str, kind: str) -> Attr:
    if text in ("true", "false"):
        return text == "true"
    if kind in _FLOAT_BITS or kind == "bf16":
        if not text.startswith(("0x", "0X")):
            return float(text)
        if kind == "bf16":
            return float(struct.unpack("<f", struct.pack("<I", int(text, 16) << 16))[0])
        as_int, as_float = _FLOAT_BITS[kind]
        return float(struct.unpack(as_float, struct.pack(as_int, int(text, 16)))[0])
    if _INT.match(text):
        return int(text)
    raise ParseError(f"unsupported constant: {text} : {kind}")


def _construct(head: str) -> Mapping[str, Attr]:
    m = _CONSTRUCT.search(head)
    if m is None:
        raise ParseError(f"unreadable construct: {head}")
    fields = tuple(f.strip() for f in m.group(2).split(",")) if m.group(2) else ()
    return {"struct": m.group(1), "fields": fields}
