# Two commands set everything up: `make demo` and `make test`. Both create .venv on their first run.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKERS ?= 2
# A file's tests share its builds, so one worker takes them all.
SPREAD := -n $(WORKERS) --dist loadfile
# mypy takes one core for half a minute in a fresh clone: the workers have the other one meanwhile.
BESIDE := $(MAKE) --no-print-directory -j2

# hip-python comes with ROCm, in its version, so these are what people have. The tests run under the installed one and the oldest.
HIP_VERSIONS := 6.2.0.499.16 6.4.4.555.40 7.0.2.555.40 7.2.2.562.43 10.0.0.0.1.2
TORCH := .venv-torch
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
HIP_OLDEST := $(VENV)/hip/$(firstword $(HIP_VERSIONS))/.installed

# Tests and benchmarks start many processes: each would compile all of asmgen again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-room quick types all-tests quick-tests test-hip test-torch test-waits bench clean install

demo: $(INSTALLED)
	$(BIN)/asmgen build gemm-bf16 --arch gfx950 -o build
	$(BIN)/asmgen run gemm-bf16 --arch gfx950 --device emulator -p m=512 -p n=384 -p k=256
	$(BIN)/asmgen inspect build/gemm-bf16_gfx950_128x128x64_interleave.co

test: install
	$(BIN)/ruff check .
	@$(BESIDE) types all-tests

# For every commit: at most 90 seconds.
quick: install
	$(BIN)/ruff check .
	@$(BESIDE) types quick-tests

types: $(INSTALLED)
	$(BIN)/mypy -p asmgen

all-tests: $(INSTALLED)
	$(BIN)/python -m pytest $(SPREAD)

quick-tests: $(INSTALLED)
	$(BIN)/python -m pytest $(SPREAD) -m "not slow"

# The emulated HIP runtime under every version of hip-python; the first time it downloads 1 GB.
test-hip: install $(HIP_VERSIONS:%=$(VENV)/hip/%/.installed)
	ASMGEN_HIP_VERSIONS=all $(BIN)/python -m pytest tests/launch/test_hip_versions.py tests/launch/test_hip_device.py

# The operators under PyTorch itself, on the emulator. An environment of its own, as PyTorch brings gigabytes from PyPI, whose wheels for
# Linux have CUDA; the index of CPU wheels, where it is reached, has smaller ones.
test-torch: $(TORCH)/.installed
	$(TORCH)/bin/python -m pytest tests/torch_operators.py

# Every wait of the library deleted, as a stranger's file; `make test` draws 3 a kernel.
test-waits: install
	ASMGEN_FOREIGN_WAITS=all $(BIN)/python -m pytest $(SPREAD) tests/checks/test_foreign_waits.py

# The tests of one room: make test-room ROOM=checks
test-room: $(INSTALLED)
	$(BIN)/python -m pytest $(SPREAD) tests/$(ROOM)

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

# Leaves $(VENV) alone: it takes a download to make again.
clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

install: $(INSTALLED) $(HIP_OLDEST)

# Each in a folder of its own, beside the installed one. Where a version has no wheel for this Python its tests are skipped, and say so.
$(VENV)/hip/%/.installed: | $(INSTALLED)
	@rm -rf $(@D)
	@if $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --target $(@D) hip-python==$*; \
		then touch $@; else rm -rf $(@D); echo "hip-python $* cannot be installed: its tests are skipped" >&2; fi

$(TORCH)/.installed: pyproject.toml
	test -x $(TORCH)/bin/pip || $(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check --retries 0 --index-url $(TORCH_INDEX) 'torch>=2.4' || \
		$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check 'torch>=2.4'
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[toolchain]' pytest hypothesis
	touch $@

# The [dev] extra brings ziglang, so that there is an assembler whatever becomes of LLVM's own tools.
$(INSTALLED): pyproject.toml tools/install_llvm.sh tools/install_browser.sh
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "asmgen needs Python 3.11 or newer, and $(PYTHON) is older; name a newer one: make PYTHON=python3.12 ..." >&2; exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	sh tools/install_llvm.sh $(VENV)/llvm
	sh tools/install_browser.sh
	touch $@
