# make demo, make test, make build: install what is missing, configure, build, run. `make help` lists them.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

.PHONY: help packages configure build test demo install install-library deb clean
.DEFAULT_GOAL := build

help:
	@echo 'make build     the program, at build/makar (also plain make)'
	@echo 'make test      the program and every test'
	@echo 'make demo      build, then make a small model in ten stages and serve it'
	@echo '               (build/makar demo --help)'
	@echo 'make install   build, then copy the program, its man pages and shell'
	@echo '               completion to $$(PREFIX), /usr/local by default'
	@echo '               ($$(DESTDIR) for packages)'
	@echo 'make install-library'
	@echo '               build, then copy libmakar.so, its headers, the Python module and'
	@echo '               the CMake package to $$(PREFIX)'
	@echo 'make deb       build, then create a Debian package in build/'
	@echo 'make packages  install the missing Debian packages of packages.txt'
	@echo '               (as root, or through sudo)'
	@echo 'make clean     remove build folders'
	@echo 'JOBS=N limits the number of parallel jobs; all cores without it.'

packages:
	@./scripts/install-packages

configure: packages
	@echo 'makar: configuring build/ (preset release)'
	@cmake --preset release >/dev/null

build: configure
	@[ -x build/makar ] || echo "makar: the first build compiles the whole program: about" \
		"$$(((17 + $(JOBS) - 1) / $(JOBS))) minutes with $(JOBS) jobs"
	@echo 'makar: building the program and libmakar.so with $(JOBS) jobs; [files done/all]'
	@cmake --build build -j $(JOBS) --target makar makar_shared

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
	@[ ! -f models/world.gguf ] || install -D -m 644 models/world.gguf '$(DESTDIR)$(PREFIX)/share/makar/world.gguf'
	@install -d '$(DESTDIR)$(PREFIX)/share/makar' && cp -r tasks recipes '$(DESTDIR)$(PREFIX)/share/makar/'
	@build/makar reference --format man -o '$(DESTDIR)$(PREFIX)/share/man/man1'
	@install -d '$(DESTDIR)$(PREFIX)/share/bash-completion/completions' '$(DESTDIR)$(PREFIX)/share/zsh/site-functions' \
		'$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d'
	@build/makar completion bash > '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/makar'
	@build/makar completion zsh > '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_makar'
	@build/makar completion fish > '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/makar.fish'
	@echo 'makar: installed $(DESTDIR)$(PREFIX)/bin/makar, its man pages and shell completion'

install-library: build
	@cmake --install build --prefix '$(DESTDIR)$(PREFIX)' --component library >/dev/null
	@echo 'makar: installed libmakar.so, its headers and the CMake package to $(DESTDIR)$(PREFIX)'

deb: build
	@./scripts/make-deb

clean:
	rm -rf build build-*
