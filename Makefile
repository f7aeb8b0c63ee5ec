# make demo, make test, make build: install what is missing, configure, build, run.
JOBS ?= $(shell nproc)

.PHONY: build test demo packages clean

packages:
	@./scripts/install-packages

build: packages
	@cmake --preset release >/dev/null
	@cmake --build build -j $(JOBS)

test: build
	@cd build && ctest --output-on-failure -j $(JOBS)

demo: build
	@./build/makar demo

clean:
	rm -rf build build-*
