"""A built library, opened: its operators registered with torch, once per process."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from .backends import npu_chip
from .choice import Variant
from .errors import BackendError, ClashError, LibraryError
from .manifest import read_manifest
from .operators import Operator, register

#: Every copy of this module in one process meets here: which library defined which operator.
_REGISTRY = "_asc_sched_libraries"


class BuiltLibrary:
    """One library: `name`, its `manifest`, the `target` whose kernels are used, its operators.

    `target` is the chip that ASC_SCHED_TARGET names, if the library has kernels for it; else, on a machine with an NPU,
    that one; else the first of the manifest's.
    """

    def __init__(self, root: Path, manifest: dict[str, Any], sha256: str, tilings: Mapping[str, Any]) -> None:
        self.root, self.manifest, self.sha256 = root, manifest, sha256
        self.name: str = manifest["name"]
        self.tilings: Mapping[str, Callable[[int, int], int]] = tilings
        self.targets: tuple[str, ...] = tuple(manifest["targets"])
        self._target: str | None = None
        self.operators = {
            name: Operator(self, name, data, _variants(self.name, name, data, manifest["kernels"]))
            for name, data in manifest["operators"].items()
        }

    def __repr__(self) -> str:
        return f"<library {self.name} {self.manifest['version']}, {len(self.operators)} operators, {self.root}>"

    @property
    def target(self) -> str:
        """The chip whose kernels are used."""
        if self._target is None:
            self._target = os.environ.get("ASC_SCHED_TARGET") or self._own_target()
            if self._target not in self.targets:
                has = ", ".join(self.targets)
                wrong, self._target = self._target, None
                raise LibraryError(f"{self.name} has no kernels for {wrong}; it was built for {has}")
        return self._target

    def _own_target(self) -> str:
        if "torch_npu" in sys.modules:
            with contextlib.suppress(BackendError):  # told when NPU tensors come; CPU tensors can do without
                return npu_chip()[0]
        return self.targets[0]

    def operator(self, name: str) -> Any:
        """``torch.ops.<library>.<name>``."""
        return getattr(getattr(torch.ops, self.name), name)


def _variants(
    library: str, name: str, data: Mapping[str, Any], kernels: Mapping[str, Any]
) -> dict[tuple[str, ...], Variant]:
    return {tuple(v["inputs"]): Variant(f"{library}::{name}", v, kernels) for v in data["variants"]}


def open_library(package_file: str, manifest_sha256: str, tilings: Mapping[str, Any]) -> BuiltLibrary:
    """Read and check the manifest beside `package_file`, and register every operator with torch.

    Loading the same library again (reload, fork) gives what was loaded first. Raises `ClashError` naming both libraries
    when another one has an operator of the same name, and `LibraryError` for files that aren't what was built.
    """
    root = Path(package_file).resolve().parent
    manifest = read_manifest(root / "manifest.json", manifest_sha256)
    library = BuiltLibrary(root, manifest, manifest_sha256, tilings)
    registry = _registry()
    for loaded in registry.values():
        if loaded["name"] == library.name and loaded["sha256"] == manifest_sha256:
            same: BuiltLibrary = loaded["library"]
            return same
    _check_clashes(library, registry)
    handle = register(library.name, library.operators, npu=importlib.util.find_spec("torch_npu") is not None)
    registry[f"{library.name} {root}"] = {
        "name": library.name, "root": str(root), "sha256": manifest_sha256, "library": library,
        "operators": frozenset(library.operators), "handle": handle,
    }  # fmt: skip
    return library


def _registry() -> dict[str, Any]:
    module = sys.modules.setdefault(_REGISTRY, types.ModuleType(_REGISTRY))
    found: dict[str, Any] = module.__dict__.setdefault("loaded", {})
    return found


def _check_clashes(library: BuiltLibrary, registry: Mapping[str, Any]) -> None:
    for loaded in registry.values():
        both = sorted(loaded["operators"] & set(library.operators)) if loaded["name"] == library.name else []
        if both:
            others = f" and {len(both) - 1} others" if len(both) > 1 else ""
            rebuilt = " (start Python anew after a rebuild)" if loaded["root"] == str(library.root) else ""
            raise ClashError(
                f"two libraries define torch.ops.{library.name}.{both[0]}{others}: {loaded['root']}, loaded before, "
                f"and {library.root}; load one of them, or build one under another name{rebuilt}"
            )
    namespace = getattr(torch.ops, library.name)
    for name in library.operators:
        if hasattr(namespace, name):
            raise ClashError(
                f"torch.ops.{library.name}.{name} is defined already, by something else than a library of asc_sched, "
                f"and {library.root} defines it too; build the library under another name"
            )
