# The front door: each target installs what it needs, so that it runs on a fresh Debian 12. `make` alone prints this help.
#
#   make demo            train five kinds of attention on Fashion-MNIST (4 minutes), compare them: build/demo/report.html
#   make demo-graphs     train four models to find a motif in graphs (2 minutes): build/demo-graphs/report.html
#   make demo-robot      simulate 20 episodes of a robot, train a tiny model of their dynamics: build/demo-robot/report.html
#   make demo-routes     check every route of attention, compare its time with torch's, draw masks: build/demo/mask_rows.png
#   make robot-data      simulate EPISODES=1000 of a robot, images of SIDE=64 pixels: OUT=build/robot (100 take 44 s in one process)
#   make test            build what is tested and run the tests; LABEL=fast for the quick ones
#   make torture         random cases against a dense reference for SECONDS=60, SEED=1, DEVICE=cpu or cuda
#   make build           build everything
#   make bench           run the benchmarks; SUITE=name for one of them
#   make test-python     the tests of the Python package with PyG, transformers, NetworkX, …; types and notebooks
#   make wheel           build the Python package: dist/topomask-…-py3-none-linux_….whl
#   make setup           install the Debian packages and torch (into .venv), nothing else
#   make fuzz            fuzz every reader of files and settings; SECONDS=30 for each, TARGET=name for one
#   make tsan            tests of kernels, walks, memory and data under the thread sanitizer; FILTER=... for some
#   make format          format the sources, wrap the pages of docs/
#   make format-check    fail if a source is not formatted, a page has long lines or broken links, or a folder includes one
#                        that it may not
#   make alone           compile every source and every public header by itself; TESTS=1 also the tests, FILE=... for some
#   make tidy FILE=...   clang-tidy on one file (about a minute)
#   make clean           remove build/ (.venv stays)
#
#   PRESET=release       the CMake preset: release, dev, ci (warnings are errors), asan, tsan, fuzz, cuda
#   TORCH=dir            build against this torch (site-packages/torch); installs none
#   TORCH_PYTHON=python  build against the torch of this python; installs none
#   BUILD_DIR=dir        build there instead of in build/$PRESET
#   JOBS=n               compilers, or tests, at once
#   EXCLUDE=pattern      tests that `make test` leaves out, as a regular expression of ctest
#   CMAKE_ARGS=...       further arguments for CMake
#   SEEDS="0 1 2"        seeds of each run of the demo (0)
#   DATA=dir             folder of Fashion-MNIST, where it is not that of the Debian package
#   KUKA=dir             folder with iiwa14.xml of MuJoCo Menagerie's kuka_iiwa_14, in place of the arm of capsules
#   MUJOCO=dir           the folder mujoco/ of an unpacked mujoco-core wheel; fetches none
#   APT=0                do not look for Debian packages

PRESET ?= release
BUILD_DIR ?= build/$(PRESET)
export PRESET BUILD_DIR TORCH TORCH_PYTHON PYTHON JOBS CMAKE_ARGS APT SEEDS DATA KUKA MUJOCO EPISODES SIDE

SEED ?= 1
DEVICE ?= cpu

.PHONY: help setup build test test-python torture fuzz tsan wheel demo demo-graphs demo-robot demo-routes robot-data bench format format-check alone tidy clean

help:
	@sed -n '/^#$$/,/^$$/ s/^# \{0,1\}//p' Makefile

setup:
	@scripts/packages.sh build
	@folder=$$(scripts/torch.sh) && echo "torch: $$folder"

build: setup
	@scripts/build.sh

test: setup
	@scripts/build.sh tests/all
	@ctest --test-dir $(BUILD_DIR) -j $(or $(JOBS),$(shell nproc)) --output-on-failure --no-tests=error $(if $(LABEL),-L '^$(LABEL)$$') $(if $(EXCLUDE),-E '$(EXCLUDE)')

test-python: setup
	@scripts/python_tests.sh

torture: setup
	@scripts/build.sh topomask_torture
	@$(BUILD_DIR)/tests/topomask_torture --seconds $(or $(SECONDS),60) --seed $(SEED) --device $(DEVICE)

wheel: setup
	@scripts/wheel.sh

demo: setup
	@$(if $(DATA),true,scripts/packages.sh data || true)
	@scripts/build.sh topomask_tool
	@TOOL=$(BUILD_DIR)/bin/topomask scripts/demo.sh

demo-graphs: setup
	@scripts/build.sh topomask_tool
	@TOOL=$(BUILD_DIR)/bin/topomask scripts/demo_graphs.sh

demo-robot: setup
	@scripts/packages.sh robot
	@scripts/build.sh topomask_tool
	@TOOL=$(BUILD_DIR)/bin/topomask scripts/demo_robot.sh

demo-routes: setup
	@scripts/build.sh routes
	@mkdir -p build/demo
	@$(BUILD_DIR)/examples/routes build/demo

robot-data: setup
	@scripts/packages.sh robot
	@scripts/robot_data.sh

bench: setup
	@scripts/packages.sh bench || echo 'make bench: goes on without pictures' >&2
	@scripts/build.sh $(if $(SUITE),$(SUITE:%=bench_%),bench/all)
	@bench/run $(BUILD_DIR) $(SUITE)

fuzz: setup
	@scripts/packages.sh fuzz
	@scripts/fuzz.sh $(or $(SECONDS),30) $(TARGET)

tsan: setup
	@scripts/tsan.sh $(if $(FILTER),'$(FILTER)')

format format-check:
	@scripts/packages.sh format
	@scripts/format.sh $(if $(filter format-check,$@),--check)
	@scripts/check_includes.py
	@scripts/check_operators.py

alone: setup
	@scripts/packages.sh alone || echo 'make alone: goes on without clang, which takes three times as long' >&2
	@torch=$$(scripts/torch.sh) && cmake --preset alone -B build/alone -DTOPOMASK_TORCH="$$torch" $(CMAKE_ARGS) >/dev/null
	@scripts/check_alone.py $(if $(TESTS),--tests) $(FILE)

tidy: setup
	@scripts/packages.sh tidy
	@scripts/tidy.sh $(FILE)

clean:
	rm -rf build
