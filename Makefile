# The front door: each target installs what it needs, so that it runs on a fresh Debian 12. `make` alone prints this help.
#
#   make demo            build and run the demo; pictures in build/demo/
#   make test            build everything and run the tests; LABEL=fast for the quick ones
#   make build           build everything
#   make bench           run the benchmarks; SUITE=name for one of them
#   make setup           install the Debian packages and torch (into .venv), nothing else
#   make format          format the sources
#   make format-check    fail where a source is not formatted
#   make tidy FILE=...   clang-tidy on one file (about a minute)
#   make clean           remove build/ (.venv stays)
#
#   PRESET=release       the CMake preset: release, dev, ci (warnings are errors), asan, cuda
#   TORCH=dir            build against this torch (site-packages/torch); installs none
#   TORCH_PYTHON=python  build against the torch of this python; installs none
#   BUILD_DIR=dir        build there instead of in build/$PRESET
#   JOBS=n               compilers at once
#   CMAKE_ARGS=...       further arguments for CMake
#   APT=0                do not look for Debian packages

PRESET ?= release
BUILD_DIR ?= build/$(PRESET)
export PRESET BUILD_DIR TORCH TORCH_PYTHON PYTHON JOBS CMAKE_ARGS APT

.PHONY: help setup build test demo bench format format-check tidy clean

help:
	@sed -n '/^#$$/,/^$$/ s/^# \{0,1\}//p' Makefile

setup:
	@scripts/packages.sh build
	@folder=$$(scripts/torch.sh) && echo "torch: $$folder"

build: setup
	@scripts/build.sh

test: build
	@ctest --test-dir $(BUILD_DIR) --output-on-failure --no-tests=error $(if $(LABEL),-L '^$(LABEL)$$')

demo: setup
	@scripts/build.sh demo
	@mkdir -p build/demo
	@$(BUILD_DIR)/examples/demo build/demo

bench: setup
	@scripts/build.sh $(if $(SUITE),$(SUITE:%=bench_%),bench/all)
	@bench/run $(BUILD_DIR) $(SUITE)

format format-check:
	@scripts/packages.sh format
	@scripts/format.sh $(if $(filter format-check,$@),--check)

tidy: setup
	@scripts/packages.sh tidy
	@scripts/tidy.sh $(FILE)

clean:
	rm -rf build
