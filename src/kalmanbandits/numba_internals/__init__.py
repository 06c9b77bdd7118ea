"""Every use of private interfaces of Numba, llvmlite and numba-cuda, and nothing else.

`pyproject.toml` bounds the versions of Numba and numba-cuda above because of this package alone, and a test
finds such a use anywhere else. A new version of either is a matter of these four modules:

* `records`: memories whose number of arms the compiler need not know;
* `lowering`: Numba's passes and code generation, without what kernels do not need;
* `compiler`: what kernels call and what Python calls, each compiled its own way;
* `interfaces`: machine code to disk and back, matrices on the stack, and numba-cuda.
"""
