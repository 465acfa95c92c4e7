# `make demo` and `make test` do all the set-up themselves; they need Python 3.11 or later and make, nothing else.
# PYTHON: interpreter for the virtual environment (default: the first recent enough one).  VENV: where it goes.

VENV ?= .venv
RUN := $(VENV)/bin/python
PROJECTS := pyproject.toml $(wildcard plugins/*/pyproject.toml) $(wildcard examples/*/pyproject.toml) $(wildcard testing/*/pyproject.toml)
# Further arguments of pytest, such as ARGS="tests/core -k relu".
ARGS ?=
# Without arguments the tests are run by as many processes as there are processors, each of which begins with a part of
# the files; with ARGS by one, as ARGS="tests/core -n auto" asks for more. NumPy's BLAS has one thread in each: its idle
# ones wait by spinning.
PYTEST := OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest
IN_PARALLEL := -n auto -o console_output_style=classic --dist worksteal --max-worker-restart 0 --durations 10 --durations-min 5
# The emulator of CUDA and the plugins for GPUs. Each has a process of its own: where there is no GPU, the emulator stands
# in for CuPy in the whole of it.
GPU_TESTS := testing/cuda_emulator/tests plugins/cudnn/tests
each_gpu_test = set -e; for folder in $(GPU_TESTS); do \
	    $(PYTEST) $(1) $(IN_PARALLEL) -p atled_cuda_emulator.pytest_plugin $$folder; done
# Text that the rows of a benchmark to run have in their names; empty: all.
ROW ?=

export PYTHON
# The tests start some hundred processes, each of which would compile the whole library.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test quick gpu gpu-wheels check-opencl check-torch check-cuda check-cudnn kernel-needs check-lowest check-growth bench bench-functions check-processors check-emulated check-nnabla check-wheels conformance fuzz fuzz-programs fuzz-descriptions fuzz-trees lint lint-style lint-format lint-types format generated clean
.DEFAULT_GOAL := help
# Two set-ups at the same time would write into one environment.
.NOTPARALLEL:

help:
	@echo "make demo     train a small network on handwritten digits"
	@echo "make test     run the tests, on all processors (ARGS=\"tests/core -k relu\" for some of them, on one)"
	@echo "make quick    a selection of the tests, for the loop of editing"
	@echo "make check-opencl  install an OpenCL runtime for CPUs (0.5 GB) and test the example plugin on it, demo included"
	@echo "make check-torch  install PyTorch and test the example plugin over it, demo included"
	@echo "make check-cuda  the conformance kit for CUDA on the emulator, with blocks in random orders, late streams, checked accesses"
	@echo "make kernel-needs  write the table of registers and spills of CUDA kernels, by NVIDIA's compiler"
	@echo "make check-cudnn  install cuDNN (0.6 GB) and have it plan what backend cudnn asks for, without a GPU (3 minutes)"
	@echo "make check-lowest  install the lowest version of every dependency and test the core on them"
	@echo "make check-growth  see that memory stays bounded over 5,000 shapes and 2,000 formulas (some minutes)"
	@echo "make bench    compare speed with other libraries, below 15 minutes (ROW=softmax for the rows of that name)"
	@echo "make bench-functions  the same for every function, with the reference and NNabla"
	@echo "make check-wheels  install from wheels outside of the clone, as users do, and try it"
	@echo "make gpu      tests, kit, demo and benchmarks on an NVIDIA GPU (GPU_PART=\"tests kit demo bench\" for some of them)"
	@echo "make check-processors  run the cpu backend's tests on code for several processors (EVERY=10: a tenth of them)"
	@echo "make check-emulated  run the kernels' tests on an emulated processor with AVX-512 (ARGS=FILES, EMULATED=skylake-avx512)"
	@echo "make check-nnabla  compare with NNabla 1.39 under Python 3.10"
	@echo "make fuzz     hostile calls and damaged files, MINUTES=10 SEED=0 (default: 2 minutes); counts what comes of them"
	@echo "make fuzz-programs  random training programs, PROGRAMS=200 SEED=0 BACKEND=cpu (or sim), run in several ways that must agree"
	@echo "make fuzz-descriptions  random programs by key against NumPy, DESCRIPTIONS=500 SEED=0 BACKEND=cpu (or sim, reference)"
	@echo "make fuzz-trees  random programs of neon's API against NumPy, TREES=500 SEED=0 BACKEND=cpu (or sim, reference)"
	@echo "make conformance  run the conformance kit on our plugins and write their reports"
	@echo "make lint     check style and types"
	@echo "make format   put the code into the house's format"
	@echo "make generated  write what is generated from op specs, kernels and imports: stubs, manifests, pages, kernels' texts"
	@echo "make clean    remove the virtual environment, caches and built files"

# One stamp for each extra; newer than every pyproject.toml means up to date. `dev` holds `test`, that holds `demo`.
HELD_BY_dev := test demo
HELD_BY_test := demo

$(VENV)/.ready-%: $(PROJECTS) .ci/set-up
	@.ci/set-up $(VENV) $*
	@touch $(foreach extra,$* $(HELD_BY_$*),$(VENV)/.ready-$(extra))

demo: $(VENV)/.ready-demo
	@$(RUN) -m atled demo digits

# The examples have a process of their own: they are what others ship, and a device's driver (Oclgrind brings a compiler)
# need not bear with everything that the tests before have loaded into theirs.
test: $(VENV)/.ready-test
	@$(PYTEST) $(or $(ARGS),$(IN_PARALLEL))
	@$(if $(ARGS),:,$(PYTEST) $(IN_PARALLEL) examples/*/tests)
	@$(if $(ARGS),:,$(call each_gpu_test))
	@rm -rf $(CUDA_TEXTS)
	@$(if $(ARGS),:,$(call cuda_kit,--cuda-orders 2 --max-examples 3 --cuda-texts $(CUDA_TEXTS)))
	@$(if $(ARGS),:,$(call cuda_needs,--most 6))

# The tests of the plugin for backend `cuda` and the conformance kit, on the GPU of this machine, else on the emulator. Then
# all kernels that the plugin's files define must have run. Without a compiler there is neither.
CUDA_SOURCES := plugins/cuda_cupy/src/atled_cuda_cupy/kernels
cuda_kit = reason=$$($(RUN) -c "import atled_cuda_emulator as e; print(e.unusable() or '')") && \
    if [ "$$reason" ]; then echo "the conformance kit for cuda is skipped: $$reason"; else \
    $(PYTEST) $(IN_PARALLEL) -p atled_cuda_emulator.pytest_plugin --cuda-sources $(CUDA_SOURCES) \
        plugins/cuda_cupy/tests --pyargs atled.conformance --atled-plugin cuda-cupy $(1); fi

# The texts of kernels that ran, by NVIDIA's compiler, where it is installed: what they need on real architectures is held to
# a table. `make kernel-needs` writes it.
CUDA_TEXTS := build/cuda-texts
KERNEL_NEEDS := plugins/cuda_cupy/kernel-needs.json
cuda_needs = [ ! -d $(CUDA_TEXTS) ] || $(RUN) -m atled_cuda_emulator.needs $(CUDA_TEXTS) --table $(KERNEL_NEEDS) $(1) \
    || [ $$? = 2 ]

kernel-needs: $(VENV)/.ready-test
	@rm -rf $(CUDA_TEXTS)
	@$(call cuda_kit,--max-examples 3 --cuda-texts $(CUDA_TEXTS))
	@$(RUN) -m atled_cuda_emulator.needs $(CUDA_TEXTS) --table $(KERNEL_NEEDS) --write

# Random shapes in full, blocks in random orders, streams that work as late as they may, and each access to memory checked;
# a machine with one GPU.
check-cuda: $(VENV)/.ready-test
	@rm -rf $(CUDA_TEXTS)
	@$(call cuda_kit,--cuda-orders 16 --cuda-shuffle 1 --cuda-deferred --cuda-texts $(CUDA_TEXTS))
	@$(call cuda_kit,--cuda-checked)
	@$(call cuda_needs)
	@$(PYTEST) $(IN_PARALLEL) -p atled_cuda_emulator.pytest_plugin plugins/cuda_cupy/tests --cuda-devices 1

# Of each parametrised test some cases, and no slow ones; see conftest.py.
quick: $(VENV)/.ready-test
	@$(PYTEST) --quick $(or $(ARGS),$(IN_PARALLEL))
	@$(if $(ARGS),:,$(call each_gpu_test,--quick))

# Intel's runtime for CPUs, AMD's too, from the package index: no system package is needed.
check-opencl: $(VENV)/.ready-test
	@$(RUN) -m pip --disable-pip-version-check --quiet install -e "examples/atled-opencl[intel]"
	@$(RUN) -m pytest examples/atled-opencl/tests $(ARGS)
	@$(RUN) -m atled demo digits --context opencl

# A build that is there already stays. Else pip takes that of its index; on Linux PyPI's brings CUDA's libraries along, and
# PIP_INDEX_URL may name PyTorch's own index of builds for the processor alone.
check-torch: $(VENV)/.ready-test
	@$(RUN) -m pip --disable-pip-version-check --quiet install -e "examples/atled-torch[torch]"
	@$(RUN) -m pytest examples/atled-torch/tests $(ARGS)
	@$(RUN) -m atled demo digits --context torch

# Into .venv-cudnn; nothing is computed, since no GPU is needed.
check-cudnn: $(VENV)/.ready-test
	@$(RUN) tools/check_cudnn.py $(ARGS)

# Into .venv-lowest, with the oldest Python declared. ARGS for other tests than the core.
check-lowest: $(VENV)/.ready-demo
	@$(RUN) tools/check_lowest.py $(ARGS)

check-growth: $(VENV)/.ready-demo
	@$(RUN) tools/check_growth.py 5000 2000 100

# The libraries compared come into environments of their own in .benchenv; see benchmarks/README.md.
bench: $(VENV)/.ready-demo
	@$(RUN) benchmarks/bench.py $(if $(ROW),--rows "$(ROW)")

bench-functions: $(VENV)/.ready-demo
	@$(RUN) benchmarks/functions.py $(if $(ROW),--rows "$(ROW)")

# On a machine with a GPU, CuPy 14 and, if it is to be compared, torch; dist/gpu may have been made on another one.
GPU_PYTHON ?= python3
GPU_PART ?=

gpu:
	@$(GPU_PYTHON) tools/gpu.py $(GPU_PART)

gpu-wheels: $(VENV)/.ready-demo
	@$(RUN) tools/gpu.py wheels $(if $(GPU_VERSION),--python $(GPU_VERSION))

# Code for older and other processors, as far as this one executes it. EVERY=10: a tenth of the tests.
check-processors: $(VENV)/.ready-test
	@$(RUN) tools/check_processors.py $(if $(EVERY),--every $(EVERY))

# AVX-512 on a machine without it: Linux on x86-64. Bochs has no AMX. ARGS for other tests than these.
EMULATED ?= sapphirerapids,-amx-tile,-amx-bf16,-amx-int8

check-emulated: $(VENV)/.ready-test
	@$(RUN) -m pip --disable-pip-version-check --quiet install bochscpu-python==0.4.0
	@ATLED_CPU=$(EMULATED) PYTHONPATH=tools $(PYTEST) -p emulated_kernels --quick \
	    $(or $(ARGS),tests/plugins/cpu_numba/kernels -k "not drawn" $(IN_PARALLEL))

# NNabla comes into an environment of its own in .benchenv; that takes a Python 3.10 on the path or of pyenv.
check-nnabla: $(VENV)/.ready-test
	@$(RUN) tools/check_nnabla.py

# What is not clean is shown with its number: python tools/fuzz.py --only calls --number N makes that attempt alone.
MINUTES ?= 2
SEED ?= 0

fuzz: $(VENV)/.ready-test
	@$(RUN) tools/fuzz.py --minutes $(MINUTES) --seed $(SEED)

PROGRAMS ?= 200
BACKEND ?= cpu

fuzz-programs: $(VENV)/.ready-test
	@$(RUN) tools/fuzz_programs.py --backend $(BACKEND) --programs $(PROGRAMS) --seed $(SEED)

# Windows of arrays, mixed dtypes, assignments, computed by NumPy beside.
DESCRIPTIONS ?= 500
fuzz-descriptions: $(VENV)/.ready-test
	@$(RUN) tools/fuzz_descriptions.py --backend $(BACKEND) --descriptions $(DESCRIPTIONS) --seed $(SEED)

# Op-trees and their gradients.
TREES ?= 500
fuzz-trees: $(VENV)/.ready-test
	@$(RUN) tools/fuzz_trees.py --backend $(BACKEND) --trees $(TREES) --seed $(SEED)

# NAME:FOLDER of each plugin; the report beside its modules says that it is right, so a failing plugin must not keep one.
CONFORMING := cpu-numba:plugins/cpu_numba/src/atled_cpu_numba sim:plugins/sim/src/atled_sim

conformance: $(VENV)/.ready-test
	@set -e; for pair in $(CONFORMING); do \
	    $(RUN) -m pytest -q --pyargs atled.conformance --atled-plugin $${pair%%:*} \
	        --atled-report $${pair#*:}/atled-conformance.json; \
	done

# What README says of pip, in an environment of its own outside of the clone.
check-wheels: $(VENV)/.ready-demo
	@$(RUN) tools/check_wheels.py

# Three targets, so that `make -k lint` shows what each of them finds.
lint: lint-style lint-format lint-types

lint-style: $(VENV)/.ready-dev
	@$(RUN) -m ruff check

lint-format: $(VENV)/.ready-dev
	@$(RUN) -m ruff format --check

lint-types: $(VENV)/.ready-dev
	@$(RUN) -m mypy

format: $(VENV)/.ready-dev
	@$(RUN) -m ruff check --fix-only --quiet
	@$(RUN) -m ruff format

# Checked in, and kept true by the tests.
generated: $(VENV)/.ready-test
	@$(RUN) tools/kernel_texts.py
	@$(RUN) -m atled.generators.families
	@$(RUN) -m atled.generators.stubs
	@$(RUN) -m atled manifest cpu-numba sim cuda-cupy cudnn opencl torch
	@$(RUN) tools/extras.py
	@$(RUN) -m atled support-matrix cpu-numba sim cuda-cupy cudnn --out docs/support.md
	@$(RUN) tools/cpu_page.py
	@$(RUN) tools/tables.py
	@$(RUN) tools/accuracy.py
	@$(RUN) tools/neon_coverage.py
	@$(RUN) tools/keras_coverage.py
	@$(RUN) tools/house.py --write
	@$(RUN) -m atled pages cpu-numba sim --out docs/functions --differences docs/nnabla_differences.md

# The environment is removed only if it is one, whatever VENV says.
clean:
	[ ! -f $(VENV)/pyvenv.cfg ] || rm -rf $(VENV)
	[ ! -f .venv-lowest/pyvenv.cfg ] || rm -rf .venv-lowest
	rm -rf .venv-cudnn
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist plugins/*/dist testing/*/dist demo-out
	find . -path ./.benchenv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
