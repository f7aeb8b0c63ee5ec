# make demo, make test, make build: install what is missing, configure, build, run. `make help` lists them.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

.PHONY: help packages configure build test demo install clean
.DEFAULT_GOAL := build

help:
	@echo 'make build     the program, at build/makar (also plain make)'
	@echo 'make test      the program and every test'
	@echo 'make demo      build, then train a tiny model and write with it'
	@echo 'make install   build, then copy the program, man pages and shell completion to $$(PREFIX) (default /usr/local; DESTDIR for packages)'
	@echo 'make packages  install the missing Debian packages of packages.txt (as root, or through sudo)'
	@echo 'make clean     remove build folders'
	@echo 'JOBS=N limits the number of parallel jobs; all cores without it.'

packages:
	@./scripts/install-packages

configure: packages
	@echo 'makar: configuring build/ (preset release)'
	@cmake --preset release >/dev/null

build: configure
	@echo 'makar: building the program with $(JOBS) jobs'
	@cmake --build build -j $(JOBS) --target makar

test: configure
	@./scripts/install-packages tests/packages.txt
	@echo 'makar: building the program and the tests with $(JOBS) jobs'
	@cmake --build build -j $(JOBS)
	@echo 'makar: running the tests'
	@cd build && ctest --output-on-failure -j $(JOBS) -LE real_time
	@cd build && ctest --output-on-failure -j $(JOBS) -L real_time --repeat until-pass:2

demo: build
	@./build/makar demo

install: build
	@install -D -m 755 build/makar '$(DESTDIR)$(PREFIX)/bin/makar'
	@build/makar reference --format man -o '$(DESTDIR)$(PREFIX)/share/man/man1'
	@install -d '$(DESTDIR)$(PREFIX)/share/bash-completion/completions' '$(DESTDIR)$(PREFIX)/share/zsh/site-functions' \
		'$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d'
	@build/makar completion bash > '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/makar'
	@build/makar completion zsh > '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_makar'
	@build/makar completion fish > '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/makar.fish'
	@echo 'makar: installed $(DESTDIR)$(PREFIX)/bin/makar, its man pages and shell completion'

clean:
	rm -rf build build-*
