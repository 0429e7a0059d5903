# Two commands set everything up: `make demo` and `make test`. Both create .venv on their first run.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKERS ?= 2

# Tests and benchmarks start many processes: each would compile all of asmgen again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick bench clean install

demo: $(INSTALLED)
	$(BIN)/asmgen build gemm-bf16 --arch gfx950 -o build
	$(BIN)/asmgen run gemm-bf16 --arch gfx950 --device emulator -p m=512 -p n=384 -p k=256
	$(BIN)/asmgen inspect build/gemm-bf16_gfx950_128x128x64_interleave.co

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/mypy -p asmgen
	$(BIN)/python -m pytest -n $(WORKERS)

# For every commit: at most 90 seconds.
quick: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/mypy -p asmgen
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

# Leaves $(VENV) alone: it takes a download to make again.
clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

install: $(INSTALLED)

# The [dev] extra brings ziglang, so that there is an assembler whatever becomes of LLVM's own tools.
$(INSTALLED): pyproject.toml tools/install_llvm.sh tools/install_browser.sh
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "asmgen needs Python 3.11 or newer, and $(PYTHON) is older; name a newer one: make PYTHON=python3.12 ..." >&2; exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	sh tools/install_llvm.sh $(VENV)/llvm
	sh tools/install_browser.sh
	touch $@
