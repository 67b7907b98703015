# Fuzzers of everything that reads files or arguments (tests/fuzz), with clang's libFuzzer and the address and
# undefined-behaviour sanitizers. The readers are compiled into a library of their own: building all of topomask with
# sanitizers would take far longer, and nothing else is fuzzed.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "TOPOMASK_FUZZ needs clang, whose libFuzzer it uses; the compiler is ${CMAKE_CXX_COMPILER_ID}. "
    "`scripts/packages.sh fuzz` installs clang 14, and the preset `fuzz` chooses it.")
endif()
find_package(CLI11 REQUIRED)

add_library(fuzz_options INTERFACE)
target_include_directories(fuzz_options INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src"
  "${PROJECT_SOURCE_DIR}/apps" "${PROJECT_SOURCE_DIR}/tests")
target_compile_features(fuzz_options INTERFACE cxx_std_20)
# Short inputs are to cross the end of a buffer too.
target_compile_definitions(fuzz_options INTERFACE TOPOMASK_READ_BUFFER=1024)
# vptr would need the type information of classes that torch hides.
set(_sanitizers -fsanitize=address,undefined,float-cast-overflow -fno-sanitize=vptr)
target_compile_options(fuzz_options INTERFACE ${_sanitizers} -fsanitize=fuzzer-no-link -fno-sanitize-recover=all
  -fno-omit-frame-pointer)
target_link_options(fuzz_options INTERFACE ${_sanitizers})
target_link_libraries(fuzz_options INTERFACE Topomask::Torch topomask_options ZLIB::ZLIB nlohmann_json::nlohmann_json
  JPEG::JPEG PNG::PNG CLI11::CLI11)

file(GLOB _readers CONFIGURE_DEPENDS src/io/*.cpp src/graph/io/*.cpp src/config/*.cpp src/data/graphs/*.cpp
  src/data/episodes/*.cpp src/core/nearest_name.cpp)
set(_others
  src/core/checks.cpp src/core/progress_report.cpp src/core/recycled.cpp src/sparse/hops.cpp src/sparse/pattern.cpp
  src/graph/builders.cpp src/graph/csr.cpp src/graph/erdos_renyi.cpp src/graph/forest.cpp src/graph/from_edges.cpp
  src/graph/graph.cpp src/graph/knn.cpp src/graph/reverse_cuthill_mckee.cpp src/graph/subgraph.cpp src/graph/weights.cpp
  src/walks/check_arrays.cpp src/walks/kept_loads.cpp src/walks/plan.cpp src/walks/table.cpp src/walks/table_file.cpp
  src/data/cifar.cpp src/data/dataset.cpp src/data/idx.cpp src/data/image.cpp src/data/jpeg.cpp src/data/options.cpp
  src/data/png.cpp src/data/radar.cpp src/data/episode_options.cpp src/data/video/avi.cpp
  src/data/video/container.cpp src/data/video/options.cpp src/data/video/y4m.cpp
  src/nn/options.cpp src/nn/graph_models/options.cpp src/nn/points/options.cpp src/nn/video/options.cpp
  src/dist/metis.cpp src/dist/partition.cpp src/dist/shard.cpp src/dist/shard_file.cpp
  src/train/checkpoint.cpp src/train/progress.cpp src/train/tensor_file.cpp
  src/ops/nearest_neighbours/cpu.cpp src/ops/nearest_neighbours/distinct_points.cpp
  src/ops/nearest_neighbours/op.cpp src/ops/nearest_neighbours/place_tree.cpp src/ops/constant_offsets.cpp
  src/ops/pattern.cpp
  src/ops/product_pattern/op.cpp src/ops/row_tiles/op.cpp src/theory/coefficients.cpp
  apps/activity.cpp apps/argument_checks.cpp apps/config_arguments.cpp apps/function_arguments.cpp apps/graph_arguments.cpp
  tests/fuzz/support/variant_names.cpp)
list(TRANSFORM _others PREPEND "${PROJECT_SOURCE_DIR}/")
# Objects, not an archive: files that only register an operator would be left out of that.
add_library(fuzz_readers OBJECT EXCLUDE_FROM_ALL ${_readers} ${_others})
target_link_libraries(fuzz_readers PUBLIC fuzz_options)
if(METIS_LIBRARY)  # src/dist/metis.cpp is compiled with it then
  target_link_libraries(fuzz_readers PUBLIC "${METIS_LIBRARY}")
endif()
target_precompile_headers(fuzz_readers PRIVATE "${PROJECT_SOURCE_DIR}/src/pch.h")
compile_folders_as_one(fuzz_readers)

# One program for all files of tests/fuzz, with a link for each that it is called by.
file(GLOB _targets CONFIGURE_DEPENDS tests/fuzz/*.cpp)
add_executable(fuzzers EXCLUDE_FROM_ALL ${_targets} "${PROJECT_SOURCE_DIR}/tests/fuzz/support/main.cpp")
target_link_libraries(fuzzers PRIVATE fuzz_readers)
target_link_options(fuzzers PRIVATE -fsanitize=fuzzer)
target_precompile_headers(fuzzers REUSE_FROM fuzz_readers)
set_target_properties(fuzzers PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz" UNITY_BUILD_BATCH_SIZE 0)
foreach(_source IN LISTS _targets)
  cmake_path(GET _source STEM _name)
  add_custom_command(TARGET fuzzers POST_BUILD
    COMMAND "${CMAKE_COMMAND}" -E create_symlink fuzzers "${PROJECT_BINARY_DIR}/fuzz/${_name}")
endforeach()
