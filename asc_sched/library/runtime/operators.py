"""Operators as torch sees them: schema, kernels, fake implementation, autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .backends import Launch, run
from .choice import Variant, core_num, find_variant
from .errors import NoKernelError
from .layout import flat, result_layout

if TYPE_CHECKING:
    from .library import BuiltLibrary


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


class Operator:
    """One operator: called with real tensors it launches a kernel, `fake` says what would come out."""

    def __init__(
        self, library: BuiltLibrary, name: str, data: Mapping[str, Any], variants: Mapping[tuple[str, ...], Variant]
    ) -> None:
        self.library, self.name, self.data, self.variants = library, name, data, variants
        self.schema: str = data["schema"]
        self.inputs: tuple[str, ...] = tuple(i["name"] for i in data["inputs"])
        self._defaults = {s["argument"]: _number(s["default"]) for s in data["scalars"] if s["default"] is not None}
        self._names = {s["argument"]: s["name"] for s in data["scalars"]}

    @property
    def full_name(self) -> str:
        return f"{self.library.name}::{self.name}"

    def variant(self, tensors: Sequence[torch.Tensor]) -> Variant:
        """The kernels for these tensors' dtypes. Raises `NoKernelError`."""
        dtypes = tuple(_dtype_name(t) for t in tensors)
        found = find_variant(self.full_name, self.variants, dtypes)
        if len(set(dtypes)) > 1 and any(t.dim() == 0 for t in tensors) and any(t.dim() for t in tensors):
            raise NoKernelError(
                f"{self.full_name}: a 0-d tensor weighs less in torch's type promotion than the kernels for "
                f"({', '.join(dtypes)}) were built with; give it a dimension with x[None], or the others' dtype"
            )
        return found

    def __call__(self, *tensors: torch.Tensor, **scalars: Any) -> Any:
        variant = self.variant(tensors)
        device = _device(self.full_name, tensors)
        shape, strides = result_layout(tensors)
        results = [
            torch.empty_strided(shape, strides, dtype=getattr(torch, d), device=device) for d in variant.outputs
        ]
        total_length = results[0].numel()
        kernel = variant.kernel(total_length, self.library.target)
        if total_length:
            flats = [flat(t, shape, strides) for t in (*tensors, *results)]
            numbers = _numbers(kernel, total_length, self._scalars(scalars))
            cores = core_num(kernel, total_length, self.library.tilings)
            run(Launch(self.library.root, kernel, flats, numbers, cores), device)
        return results[0] if len(results) == 1 else tuple(results)

    def _scalars(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All runtime scalars by their declared names; torch leaves out arguments that equal their defaults."""
        return {self._names[argument]: value for argument, value in (self._defaults | dict(given)).items()}

    def fake(self, *tensors: torch.Tensor, **scalars: Any) -> Any:
        """Empty results of the right dtype, shape and strides; for traced tensors, which have no data."""
        variant = self.variant(tensors)
        shape, strides = result_layout(tensors)
        device = _device(self.full_name, tensors)
        results = [
            torch.empty_strided(shape, strides, dtype=getattr(torch, d), device=device) for d in variant.outputs
        ]
        return results[0] if len(results) == 1 else tuple(results)

    # -- autograd ------------------------------------------------------------------------------------------------
    def save(self, ctx: Any, inputs: tuple[Any, ...], scalars: Mapping[str, Any]) -> None:
        """What the backward pass needs: the inputs that the derivative reads, the scalars, the inputs' shapes."""
        variant = self.variant(inputs)
        gradient = variant.gradient or {"saved": ()}
        ctx.save_for_backward(*(t for n, t in zip(self.inputs, inputs, strict=True) if n in gradient["saved"]))
        ctx.scalars = self._scalars(scalars)
        ctx.shapes = [t.shape for t in inputs]
        ctx.dtypes = variant.inputs

    def backward(self, ctx: Any, *grads: torch.Tensor) -> Any:
        """The gradients of all inputs, None for those that have none or aren't asked for."""
        variant = self.variants[ctx.dtypes]
        gradient = variant.gradient
        if gradient is None:
            raise RuntimeError(
                f"Trying to backward through {self.full_name} but no autograd formula was registered for "
                f"({', '.join(variant.inputs)}): {variant.no_gradient}"
            )
        by_output = dict(zip(self.data["outputs"], grads, strict=True))
        wanted = [g for g in gradient["inputs"] if ctx.needs_input_grad[self.inputs.index(g["input"])]]
        computed: Mapping[str, torch.Tensor] = {}
        if any(g["kind"] == "kernel" for g in wanted):
            computed = self._computed(ctx, gradient, by_output)
        results: list[torch.Tensor | None] = [None] * len(self.inputs)
        for found in wanted:
            i = self.inputs.index(found["input"])
            if found["kind"] == "zero":
                results[i] = grads[0].new_zeros(ctx.shapes[i], dtype=getattr(torch, variant.inputs[i]))
                continue
            whole = (computed if found["kind"] == "kernel" else by_output)[found["source"]]
            # Summed over the dimensions along which the input was repeated.
            results[i] = whole if whole.shape == ctx.shapes[i] else whole.sum_to_size(ctx.shapes[i])
        return results[0] if len(results) == 1 else tuple(results)

    def _computed(
        self, ctx: Any, gradient: Mapping[str, Any], grads: Mapping[str, torch.Tensor]
    ) -> Mapping[str, torch.Tensor]:
        """The derived operator's outputs by name."""
        derived = self.library.operators[gradient["operator"]]
        scalars = {s["argument"]: ctx.scalars[s["name"]] for s in derived.data["scalars"]}
        tensors = [*ctx.saved_tensors, *(grads[output] for output in gradient["gradients"])]
        results = self.library.operator(gradient["operator"])(*tensors, **scalars)
        named = results if isinstance(results, (tuple, list)) else (results,)
        return dict(zip(derived.data["outputs"], named, strict=True))


def _numbers(kernel: Mapping[str, Any], total_length: int, scalars: Mapping[str, Any]) -> list[Any]:
    """The kernel's arguments after its pointers: sizes, then runtime scalars."""
    sizes = {"total_length": total_length, "tile_length": kernel["tiling"]["tile_length"]}
    numbers = [sizes[a["size"]] for a in kernel["arguments"] if a["kind"] == "size"]
    return numbers + [_rounded(scalars[a["name"]], a["dtype"]) for a in kernel["arguments"] if a["kind"] == "scalar"]


def _number(constant: Sequence[str]) -> Any:
    """A constant of the manifest: its kind and its exact value."""
    kind, text = constant
    return text == "true" if kind == "bool" else int(text) if kind == "int" else float.fromhex(text)


def _rounded(value: Any, dtype: str) -> Any:
    """A scalar rounded to the dtype that it is declared with; kernels take it in a wider one."""
    return torch.tensor(value, dtype=getattr(torch, dtype)).item()


def _device(name: str, tensors: Sequence[torch.Tensor]) -> torch.device:
    devices = list(dict.fromkeys(t.device for t in tensors))
    if len(devices) > 1:
        found = " and ".join(map(str, devices))
        raise RuntimeError(f"{name}: Expected all tensors to be on the same device, found {found}")
    return devices[0]


def register(library: str, operators: Mapping[str, Operator], npu: bool) -> Any:
    """Define every operator under ``torch.ops.<library>``. The returned handle keeps the registrations alive."""
    handle: Any = torch.library.Library(library, "FRAGMENT")  # type: ignore[no-untyped-call]
    try:
        for operator in operators.values():
            _register(handle, operator, npu)
    except BaseException:
        destroy: Callable[[], None] = getattr(handle, "_destroy", lambda: None)
        destroy()
        raise
    return handle


def _register(handle: Any, operator: Operator, npu: bool) -> None:
    # The results' strides follow from the inputs', so a compiler must not change those behind the fake's back.
    strides = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    handle.define(operator.schema, tags=(torch.Tag.pt2_compliant_tag, strides))
    for key in ("CPU", "PrivateUse1") if npu else ("CPU",):
        handle.impl(operator.name, operator.__call__, key)
    torch.library.register_fake(operator.full_name, operator.fake, lib=handle)
    # Also where there is no derivative: without it, torch would only warn and go on without a gradient.
    setup = _setup_with_scalars(operator) if operator.data["scalars"] else _setup(operator)
    torch.library.register_autograd(operator.full_name, operator.backward, setup_context=setup, lib=handle)


def _setup(operator: Operator) -> Callable[..., None]:
    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        operator.save(ctx, inputs, {})

    return setup


def _setup_with_scalars(operator: Operator) -> Callable[..., None]:
    def setup(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: Mapping[str, Any], output: Any) -> None:
        operator.save(ctx, inputs, keyword_only_inputs)

    return setup
