"""The twin: a stand-in for CANN on machines without it, so that pyasc's own scripts run with the simulator as device.

`build.twin_home` makes a folder that pyasc's runtime takes for CANN (headers, runtime library, compiler, linker); the
compiler keeps the kernel's ASC-IR instead of machine code, and a launch simulates it. Vector kernels on the Model
backend only.
"""
