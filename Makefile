# `make help` says what there is.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory --no-builtin-rules

.DEFAULT_GOAL := build
.PHONY: build native server demo test test-scripts test-cpp test-sanitized test-go test-install test-server bench-server check-architectures check-device device-tree bench lint format install clean help

PREFIX      ?= /usr/local
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# What goes through to llama.cpp's own build.
LLAMA_FLAGS := $(if $(CUDA),-DGGML_CUDA=ON) $(if $(VULKAN),-DGGML_VULKAN=ON) $(if $(METAL),-DGGML_METAL=ON) \
	$(if $(PORTABLE),-DGGML_NATIVE=OFF)

# For check-device: this machine's GPU alone, without kernels that scoring does not use on GPUs. CUDA_ARCH=90 names another.
DEVICE_FLAGS := $(if $(CUDA),-DCMAKE_CUDA_ARCHITECTURES=$(or $(CUDA_ARCH),native) -DGGML_CUDA_FA=OFF)

CPP_FILES = $(wildcard $(foreach d,csrc ggml csrc/server csrc/preload csrc/tests ggml/tests,$(d)/*.cpp $(d)/*.h))

# $(call cmake,FOLDER,FLAGS,TARGET) configures and builds; it speaks only if there is something to say.
define cmake
prefix=$$(third_party/build_llama.py $(LLAMA_FLAGS)); \
cmake -S . -B $(1) -G Ninja -DLLAMA_PREFIX="$$prefix" -DPLUMB_PORTABLE=$(if $(PORTABLE),ON,OFF) $(2) --log-level=WARNING >/dev/null; \
cmake --build $(1) --target $(3) -- --quiet | sed '/^ninja: no work to do\.$$/d'
endef

# Sets the shell variable clang_format, after installing the pinned wheel into the cache.
define clang_format
dir="$${XDG_CACHE_HOME:-$$HOME/.cache}/plumb/tools/clang-format-$$(sed -n 's/^clang-format==\([0-9.]*\).*/\1/p' third_party/clang-format.txt)"; \
if [ ! -d "$$dir" ]; then \
	PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		--only-binary :all: --target "$$dir.$$$$" -r third_party/clang-format.txt; \
	mv "$$dir.$$$$" "$$dir"; \
fi; \
clang_format="$$dir/clang_format/data/bin/clang-format"
endef

## make            build bin/plumb
build: native
	@go build -o bin/plumb ./cli/plumb

native:
	@$(call cmake,build/release,,go_archive plumb_run)

## make server     build bin/plumb-server, llama.cpp's server with steering: some minutes more
server: native
	@parts=$$(third_party/build_llama.py --server-parts $(LLAMA_FLAGS)); \
	patched=$$(third_party/server_source.py build/server); llama=$$(third_party/fetch.py llama.cpp); \
	$(call cmake,build/release,-DSERVER_PARTS="$$parts" -DSERVER_SOURCE="$$patched" -DLLAMA_SOURCE="$$llama",plumb-server)

## make demo       build, fetch a small real model and audit it
demo: build
	@third_party/fetch.py model smollm2 >/dev/null
	@bin/plumb audit bbq --model smollm2 --out demo-run --resume

## make test       every test: the scripts' and Go's, the C++ ones as they are and under sanitizers
test: test-scripts test-cpp test-sanitized test-go test-install
	@printf '\033[32mAll tests passed.\033[0m\n'

test-scripts:
	@for folder in third_party bindings; do \
		PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover --start-directory $$folder --pattern '*_test.py'; \
	done

test-cpp: native
	@googletest=$$(third_party/fetch.py googletest); \
	$(call cmake,build/release,-DGOOGLETEST="$$googletest",all)
	@ctest --test-dir build/release --no-tests=error --output-on-failure

test-sanitized:
	@googletest=$$(third_party/fetch.py googletest); \
	$(call cmake,build/sanitized,-DPLUMB_SANITIZE=ON -DGOOGLETEST="$$googletest",all)
	@ctest --test-dir build/sanitized --no-tests=error --output-on-failure

test-go: build
	@third_party/fetch.py model smollm2 >/dev/null
	@go test -timeout 40m ./...

## make check-architectures   gradients of each of llama.cpp's architectures: writes the table in csrc/README.md
check-architectures: native
	@googletest=$$(third_party/fetch.py googletest); \
	$(call cmake,build/release,-DGOOGLETEST="$$googletest",check_architectures)
	@writer=$$(third_party/build_llama.py --program test-llama-archs); \
	folder=$$(mktemp -d); trap 'rm -r "$$folder"' EXIT; mkdir "$$folder/models"; \
	"$$writer" -s 1 -o "$$folder/models" >/dev/null; \
	status=0; build/release/csrc/tests/check_architectures "$$folder/models" >"$$folder/table" || status=$$?; \
	sed -e '/^<!-- table -->$$/,/^<!-- end of table -->$$/{//!d' -e '}' -e "/^<!-- table -->$$/r $$folder/table" \
		csrc/README.md >"$$folder/README.md"; \
	cp "$$folder/README.md" csrc/README.md; tail -n 1 "$$folder/table"; exit $$status

## make check-device  whether results on a GPU (CUDA=1 …) are the CPU's, and how fast; without a GPU, on an RPC server here
check-device: LLAMA_FLAGS += $(DEVICE_FLAGS)
check-device:
	@$(call cmake,build/device,,check_device)
	@build/device/check_device

## make device-tree  pack what check-device compiles, for a machine that has CMake, a compiler and the CUDA toolkit alone
device-tree:
	@third_party/device_tree.py build/device-tree.tar.gz

## make bench      speed beside other programs
bench: build
	@third_party/bench/run

## make lint       gofmt, go vet, staticcheck, clang-format
lint: native
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { printf 'not as gofmt has it: %s\n' $$unformatted >&2; exit 1; }
	@go vet ./...
	@go run $(STATICCHECK) ./...
	@$(clang_format); "$$clang_format" --dry-run -Werror $(CPP_FILES)

## make format     let gofmt and clang-format put the sources right
format:
	@gofmt -w .
	@$(clang_format); "$$clang_format" -i $(CPP_FILES)

## make install    into PREFIX (/usr/local), below DESTDIR if that is set: program, library, headers, man pages, completions
install: build
	@to="$(DESTDIR)$(PREFIX)"; \
	mkdir -p "$$to/bin" "$$to/include/plumb" "$$to/lib/pkgconfig" \
		"$$to/share/bash-completion/completions" "$$to/share/zsh/site-functions"; \
	install bin/plumb "$$to/bin/plumb"; \
	[ ! -e bin/plumb-server ] || install bin/plumb-server "$$to/bin/"; \
	[ ! -e bin/libplumb_run.so ] || install -m 644 bin/libplumb_run.so "$$to/lib/"; \
	install -m 644 csrc/plumb.h "$$(third_party/build_llama.py $(LLAMA_FLAGS))"/include/*.h "$$to/include/plumb/"; \
	install -m 644 build/libplumb-*.a "$$to/lib/libplumb.a"; \
	install -m 644 build/release/plumb.pc "$$to/lib/pkgconfig/plumb.pc"; \
	bin/plumb manual "$$to/share/man/man1"; \
	bin/plumb completion bash >"$$to/share/bash-completion/completions/plumb"; \
	bin/plumb completion zsh >"$$to/share/zsh/site-functions/_plumb"

test-install: build test-cpp
	@csrc/tests/install_test.py

## make test-server  plumb-server and plumb run with a small real model, after building llama.cpp's shared library too
test-server: build server
	@googletest=$$(third_party/fetch.py googletest); \
	$(call cmake,build/release,-DGOOGLETEST="$$googletest",write_f32_model)
	@csrc/tests/server_test.py
	@csrc/tests/run_test.py

## make bench-server  plumb-server with a projection at one layer beside the same server without Plumb's hooks
bench-server: build server
	@third_party/bench/server

## make clean      remove what make built here; the cache stays
clean:
	@rm -rf bin build bindings/link_generated.go

## make help       this list
help:
	@sed -n 's/^## //p' Makefile
	@printf '%s\n' '' \
		'With every one of them: CUDA=1, VULKAN=1 or METAL=1 for a GPU; LLAMA_CPP_DIR=… for a llama.cpp of your own;' \
		'PORTABLE=1 for other machines than this one.' \
		'llama.cpp and the models are kept in $${XDG_CACHE_HOME:-~/.cache}/plumb, for every clone on this machine.'
