# NeuroGC: what people run. Each target is one script under tools/, or the command itself.
#
#   make demo    build, run one service twice, without and with NeuroGC, side by side (DEMO="--seconds 20")
#   make test    everything: lints, Rust tests, the Python suite on every CPython found, the dashboard, the package
#   make build   the extension and the command, for development
#   make lint    formatting, clippy, and the walls of ARCHITECTURE.md
#   make bench   what it costs to be observed (BENCH=--quick for a look); policies are compared by `neurogc bench`
#   make suites  CPython's own tests under `neurogc run --policy gap` (SUITES='--times 3 cp312' for some)
#   make wheel   what a package index would carry, in dist/: a wheel for x86_64 and one for aarch64, and the source archive
#                (WHEEL='--arch x86_64' for one; WHEEL=--test installs dist/ into a fresh environment of each version)
#   make fleet   the hub with Prometheus, VictoriaMetrics, collectors, profiles and object storage, in an environment of its own
#   make training     ranks, epochs and workers with PyTorch, Lightning, Trainer and Accelerate, likewise
#   make frameworks   requests in aiohttp, Celery, gRPC, Jupyter, Ray and others, likewise
#   make docs    the documentation as a site, in target/site
#   make fuzz    hostile bytes for the parsers (FUZZ_SECONDS=60 for each)
#   make soak    large heaps, a million random graphs, a million schedules, minutes of stress, 50 times each race
#                (SOAK=--help)
#
# PYTHON=… chooses the interpreter that runs the scripts.

.PHONY: demo test build lint bench suites wheel fleet frameworks training docs fuzz soak clean

demo:
	@python=$$(tools/prerequisites) && tools/build && \
	exec "$${CARGO_TARGET_DIR:-target}/fast/neurogc" demo --python "$$python" $(DEMO)

test:
	@python=$$(tools/prerequisites) && exec "$$python" -u tools/test.py

build:
	@tools/prerequisites >/dev/null && exec tools/build

lint:
	@tools/prerequisites >/dev/null && exec tools/lint

bench:
	@python=$$(tools/prerequisites) && tools/build && exec "$$python" tools/bench.py $(BENCH)

suites:
	@python=$$(tools/prerequisites) && tools/build && exec "$$python" -u tools/cpython_suites.py $(SUITES)

wheel:
	@python=$$(tools/prerequisites) && exec "$$python" -u tools/wheel.py $(WHEEL)

fleet frameworks training:
	@python=$$(tools/prerequisites) && tools/build && exec "$$python" -u tools/own_suite.py $@

docs:
	@exec tools/docs

fuzz:
	@tools/prerequisites >/dev/null && exec tools/fuzz

soak:
	@python=$$(tools/prerequisites) && tools/build && exec "$$python" -u tools/soak.py $(SOAK)

clean:
	rm -rf target build fuzz/target .venvs python/neurogc/_agent.abi3.so
