# make run: set up what is missing and open the dashboard; make test: set up and run the suite; make check: lint, types, borders; make docs: the site.
PYTHON ?= python3
VENV   ?= .venv
PORT   ?= 8501
# TORCH=system uses the torch of the machine's Python; TORCH_INDEX=URL takes torch from that index (a CPU build, say).
TORCH  ?= pinned
# WORKERS=1 runs the unit tests in one process (else one a core, on one thread each); JOURNEYS, each with a server.
WORKERS  ?= auto
JOURNEYS ?= 2
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# Bytecode is kept, of what is imported alone: it halves the start of every process that loads torch.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-all lint types check docs setup fetch clean

run: fetch
	$(BIN)/judgescope dashboard --port $(PORT)

UNIT = JUDGESCOPE_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest --ignore tests/e2e \
	-n $(WORKERS) --dist loadfile --no-loadscope-reorder
E2E  = JUDGESCOPE_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/e2e \
	-n $(JOURNEYS) --dist loadfile --no-loadscope-reorder

test: fetch
	$(UNIT) -m "not slow"
	$(E2E) -m "not slow"

test-all: fetch
	$(UNIT)
	$(E2E)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

check: lint types
	$(BIN)/python -m pytest tests/test_borders.py

# The documentation site, in out/site: a link that leads nowhere ends it.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

$(VENV)/.docs: $(VENV)/.ready
	$(PIP) --constraint constraints.txt --editable ".[docs]"
	touch $@

setup: $(VENV)/.ready

fetch: setup
	$(BIN)/judgescope doctor --fetch

$(VENV)/.ready: pyproject.toml constraints.txt constraints-torch.txt
ifeq ($(TORCH),system)
	$(PYTHON) -m venv --system-site-packages $(VENV)
	$(BIN)/python -c "import torch" || { echo "TORCH=system, but this Python has no torch. Install it, or leave TORCH out."; exit 1; }
else
	$(PYTHON) -m venv $(VENV)
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) --requirement constraints-torch.txt
endif
	$(PIP) --constraint constraints.txt --editable ".[local,test]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
