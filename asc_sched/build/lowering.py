"""One kernel through the real pyasc: front end, passes, C++ emission. Runs inside a worker process only.

pyasc can take the whole process down (it segfaults on some kernels) and isn't thread-safe, so nothing here is called
from the user's process.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
from dataclasses import fields
from pathlib import Path
from types import FunctionType
from typing import Any

from asc.codegen.errors import CodegenError, UnsupportedSyntaxError
from asc.codegen.function import Function
from asc.codegen.function_visitor import CodegenOptions
from asc.codegen.specialization import PlainArgType, PointerArgType, Specialization
from asc.common.compat import get_annotations
from asc.language.core.constexpr import ConstExpr
from asc.language.core.dtype import DataType
from asc.language.core.utils import Overload, OverloadDispatcher
from asc.runtime.compiler import CompileOptions, Compiler
from asc.runtime.jit import JITFunction

from asc_sched.build import sources

_CONST_TYPES = {"int": int, "float": float, "bool": bool, "str": str}


class Refusal(Exception):
    """pyasc (or this module on its behalf) refuses the kernel: reason, and line where known (1-based)."""

    def __init__(self, reason: str, line: int | None = None, text: str | None = None, file: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.line, self.text, self.file = reason, line, text, file


#: Kernels lowered in one MLIR context before the next is made. Making one takes about as long as running the passes; it
#: keeps the types and locations of all its kernels.
KERNELS_PER_CONTEXT = 64

_pyasc_context = JITFunction.create_context
_context: Any = None
_context_uses = 0


def _shared_context() -> Any:
    global _context, _context_uses
    if _context is None or _context_uses >= KERNELS_PER_CONTEXT:
        _context, _context_uses = _pyasc_context(), 0
    _context_uses += 1
    return _context


def _drop_context() -> None:
    global _context
    _context = None


JITFunction.create_context = staticmethod(_shared_context)


_register_overload = OverloadDispatcher.register_auto
_overloads: dict[Any, Any] = {}


def _register_known_overload(dispatcher: Any, fn: Any) -> Any:
    """As pyasc's own, which inspects a function's signature at each call of an instruction that has overloads: the
    functions are new each time, what their arguments are is not."""
    key = (fn.__code__, fn.__defaults__, fn.__kwdefaults__, *fn.__annotations__.items())
    try:
        args = _overloads.get(key)
    except TypeError:  # a default that can't be hashed
        return _register_overload(dispatcher, fn)
    if args is None:
        _register_overload(dispatcher, fn)
        _overloads[key] = dispatcher.overloads[-1].args
    else:
        dispatcher.add_overload(Overload(args, fn))
    return fn


OverloadDispatcher.register_auto = _register_known_overload


class _Passes(Compiler):  # type: ignore[misc]
    """pyasc's own passes and emission without its search for the device compiler."""

    def __init__(self, options: CompileOptions) -> None:
        self.options = options
        self.enable_debug = False


def lower_source(request: dict[str, Any]) -> dict[str, str]:
    """Lower ``LowerRequest.message()``; returns ``asc_ir`` and ``ascendc``. Raises `Refusal`."""
    filename = request["filename"]
    namespace: dict[str, Any] = {"__name__": Path(filename).stem, "__builtins__": __builtins__}
    try:
        _run_module(request["source"], filename, namespace)
        return lower_function(_pick(namespace, request["entry"]), request)
    finally:
        # Globals and functions refer to each other; cutting that frees pyasc's contexts now instead of at a later gc.
        namespace.clear()
        sources.forget(filename)


def lower_file(request: dict[str, Any]) -> dict[str, str]:
    """Lower function ``request["function"]`` of the file ``request["path"]``. Raises `Refusal`."""
    path = Path(request["path"])
    fn: Any = _import_file(path)
    for part in request["function"].split("."):
        fn = getattr(fn, part, None)
    if not isinstance(fn, JITFunction):
        what = "is not decorated with @asc.jit" if fn is not None else "is not there"
        raise Refusal(f"{path.name}: function {request['function']!r} {what}")
    try:
        _ = fn.cache_key  # what a launch computes first; it refuses kernels that refer to plain Python functions
    except Exception as err:
        raise Refusal(f"{type(err).__name__}: {err}", fn.starting_line_number, None, path.name) from err
    return lower_function(fn, request)


def _import_file(path: Path) -> Any:
    """The module of a file, under its dotted name when it is part of a package, so that relative imports work."""
    parts, folder = [path.stem if path.stem not in sys.modules else f"kernels_of_{path.stem}"], path.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        parts, folder = [folder.name, *parts], folder.parent
    sys.path.insert(0, str(folder))
    sys.argv = [str(path)]
    name = ".".join(parts)
    try:
        if len(parts) > 1:
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError("it isn't a Python source file (.py)")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    except SyntaxError as err:
        raise Refusal(
            f"{type(err).__name__}: {err.msg}", err.lineno, err.text, Path(err.filename or path).name
        ) from err
    except (Exception, SystemExit) as err:
        reason = f"importing {path.name} failed with {type(err).__name__}: {err}"
        raise Refusal(reason, _line_in(err, str(path)), None, path.name) from err


def _run_module(source: str, filename: str, namespace: dict[str, Any]) -> None:
    try:
        tree = ast.parse(source, filename)
        code = compile(tree, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        line = getattr(err, "lineno", None)
        raise Refusal(f"{type(err).__name__}: {getattr(err, 'msg', err)}", line, getattr(err, "text", None)) from err
    sources.register(filename, source, tree)
    try:
        exec(code, namespace)
    except (Exception, SystemExit) as err:
        raise Refusal(f"{type(err).__name__}: {err}", _line_in(err, filename)) from err


def _line_in(err: BaseException, filename: str) -> int | None:
    line, trace = None, err.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _pick(namespace: dict[str, Any], entry: str) -> Any:
    fn = namespace.get(entry)
    if isinstance(fn, JITFunction):
        return fn
    kernels = [name for name, value in namespace.items() if isinstance(value, JITFunction)]
    has = f"it has {', '.join(kernels)}" if kernels else "it has none"
    if isinstance(fn, FunctionType):
        raise Refusal(f"function {entry!r} is not decorated with @asc.jit", fn.__code__.co_firstlineno)
    raise Refusal(f"the source has no @asc.jit function {entry!r}; {has}")


def lower_function(fn: Any, request: dict[str, Any]) -> dict[str, str]:
    """Code generation, passes and emission of one `JITFunction`; raises `Refusal`."""
    try:
        options = dict(fn.default_options) | dict(request["options"])
        spec = _specialize(fn, request)
        module = fn._run_codegen(spec, _pick_options(CodegenOptions, options))
        passes = _Passes(_pick_options(CompileOptions, options))
        passes.run_passes(module)
        return {"asc_ir": str(module), "ascendc": passes.run_translation(module)}
    except Refusal:
        raise
    except CodegenError as err:
        _drop_context()
        raise _from_codegen(err, fn) from err
    except Exception as err:
        # pyasc raises bare exceptions of many kinds; all of them mean the same to the caller.
        _drop_context()
        raise Refusal(f"{type(err).__name__}: {err}") from err
    finally:
        fn.context = None


def _pick_options(cls: Any, options: dict[str, Any]) -> Any:
    names = {field.name for field in fields(cls)}
    return cls(**{name: value for name, value in options.items() if name in names})


def _specialize(fn: Any, request: dict[str, Any]) -> Any:
    names = list(inspect.signature(fn.fn).parameters)
    consts = {name: _CONST_TYPES[kind](value) for name, kind, value in request["constexprs"]}
    unknown = [name for name in consts if name not in names]
    if unknown:
        raise Refusal(f"constexpr {unknown[0]!r} is no parameter of {fn.__name__!r}; it has {', '.join(names)}")
    runtime = [name for name in names if name not in consts]
    types = request["arg_types"]
    if len(types) != len(runtime):
        raise Refusal(f"{len(runtime)} run-time arguments ({', '.join(runtime)}), but {len(types)} types are given")
    given = {name: _arg_type(*kind) for name, kind in zip(runtime, types, strict=True)} | consts
    args, constexprs = Function.split_args({name: given[name] for name in names}, get_annotations(fn.fn))
    for name in names:
        if (name in constexprs) != (name in consts):
            what = "is an asc.ConstExpr and needs a value" if name in constexprs else "is not an asc.ConstExpr"
            raise Refusal(f"parameter {name!r} {what}")
    return Specialization(args, {name: ConstExpr(value) for name, value in constexprs.items()})


def _arg_type(kind: str, dtype: str) -> Any:
    return (PointerArgType if kind == "pointer" else PlainArgType)(DataType(dtype))


def _from_codegen(err: Any, fn: Any) -> Refusal:
    """pyasc's code generation error with the place in the file of the function at fault (the kernel or a helper).

    pyasc's own excerpt is off: it numbers lines from `def` but takes its text from the decorator on.
    """
    reason = str(err.error_message or "").strip() or type(err).__name__
    if isinstance(err, UnsupportedSyntaxError) and not err.error_message:
        reason = f"{type(err.node).__name__} syntax is not supported"
    node_line = getattr(err.node, "lineno", None)
    functions = [fn, *(value for value in fn.__globals__.values() if isinstance(value, Function))]
    owner = next((f for f in functions if f.src is err.src), None)
    if node_line is None or owner is None:
        return Refusal(reason)
    line = owner.location.line_offset + node_line
    index = line - owner.starting_line_number
    text = owner.src[index] if 0 <= index < len(owner.src) else None
    return Refusal(reason, line, text, owner.location.filename)


_DIAGNOSTIC = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+)(?::\d+)?: error: (?P<text>.*)$", re.MULTILINE)


def explain(refusal: Refusal, diagnostics: str) -> Refusal:
    """Adds what MLIR wrote about the failure to pyasc's bare "Failed to run passes"."""
    found = _DIAGNOSTIC.search(diagnostics)
    if found is None or refusal.line is not None:
        return refusal
    reason = f"{refusal.reason}: {found['text']}"
    if found["file"] == "<unknown>":
        return Refusal(reason)
    return Refusal(reason, int(found["line"]), None, found["file"])
