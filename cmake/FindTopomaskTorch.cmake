# Finds LibTorch as the `torch` wheel or the libtorch archive ships it: headers, libtorch_cpu and libc10.
#
# `find_package(Torch)` of a CUDA-enabled wheel stops where the CUDA toolkit is absent; this module asks for CUDA only where
# TOPOMASK_CUDA is on. Input, the first that is set:
#   TOPOMASK_TORCH             the folder that holds include/ and lib/ (in a wheel: site-packages/torch)
#   TopomaskTorch_DEFAULT_DIR  the same, from an installed topomask: the torch that it was built against
#   where a wheel is built     the torch of the interpreter it is built for
#   otherwise                  the torch of the python in .venv of the source folder, then of python3 on the PATH
# Output: the imported target Topomask::Torch, TopomaskTorch_VERSION (also _MAJOR, _MINOR, _PATCH), TopomaskTorch_DIR_FOUND.

set(TOPOMASK_TORCH "" CACHE PATH "torch folder with include/ and lib/; empty: found by itself")

set(_torch_dir "${TOPOMASK_TORCH}")
if(NOT _torch_dir AND TopomaskTorch_DEFAULT_DIR AND EXISTS "${TopomaskTorch_DEFAULT_DIR}/lib")
  set(_torch_dir "${TopomaskTorch_DEFAULT_DIR}")
endif()
if(NOT _torch_dir AND SKBUILD)  # a wheel: the torch of the interpreter that it is built for
  execute_process(COMMAND "${Python_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/python/build_support/torch_found.py"
    OUTPUT_VARIABLE _torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT _torch_dir)
  foreach(_python "${CMAKE_SOURCE_DIR}/.venv/bin/python" python3)
    execute_process(
      COMMAND "${_python}" -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE _torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE _status)
    if(_status EQUAL 0)
      break()
    endif()
    set(_torch_dir "")
  endforeach()
endif()

# Not cached: another TOPOMASK_TORCH must not leave half of the old one behind.
set(_torch_search NO_CACHE NO_DEFAULT_PATH)
unset(TopomaskTorch_INCLUDE_DIR CACHE)
find_path(TopomaskTorch_INCLUDE_DIR ATen/ATen.h HINTS "${_torch_dir}/include" ${_torch_search})
set(_torch_required TopomaskTorch_INCLUDE_DIR)
set(_torch_libraries "")
set(_torch_names torch_cpu c10)
if(TOPOMASK_CUDA)
  list(APPEND _torch_names torch_cuda c10_cuda)
endif()
foreach(_name IN LISTS _torch_names)
  unset(TopomaskTorch_${_name}_LIBRARY CACHE)
  find_library(TopomaskTorch_${_name}_LIBRARY ${_name} HINTS "${_torch_dir}/lib" ${_torch_search})
  list(APPEND _torch_required TopomaskTorch_${_name}_LIBRARY)
  list(APPEND _torch_libraries "${TopomaskTorch_${_name}_LIBRARY}")
endforeach()

set(TopomaskTorch_VERSION "")
if(EXISTS "${TopomaskTorch_INCLUDE_DIR}/torch/headeronly/version.h")
  set(_torch_version_file "${TopomaskTorch_INCLUDE_DIR}/torch/headeronly/version.h")
else()
  set(_torch_version_file "${TopomaskTorch_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h")
endif()
if(EXISTS "${_torch_version_file}")
  foreach(_part MAJOR MINOR PATCH)
    file(STRINGS "${_torch_version_file}" _line REGEX "#define TORCH_VERSION_${_part} [0-9]+")
    string(REGEX MATCH "[0-9]+$" _number "${_line}")
    list(APPEND TopomaskTorch_VERSION "${_number}")
    set(TopomaskTorch_VERSION_${_part} "${_number}")
  endforeach()
  list(JOIN TopomaskTorch_VERSION "." TopomaskTorch_VERSION)
endif()

if(_torch_dir)
  set(_torch_reason "Looked in '${_torch_dir}'.")
else()
  set(_torch_reason "No python3 here has torch.")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TopomaskTorch
  REQUIRED_VARS ${_torch_required}
  VERSION_VAR TopomaskTorch_VERSION
  REASON_FAILURE_MESSAGE "${_torch_reason} Set TOPOMASK_TORCH to the folder of torch that holds include/ and lib/.")

if(TopomaskTorch_FOUND AND NOT TARGET Topomask::Torch)
  set(TopomaskTorch_DIR_FOUND "${_torch_dir}")
  add_library(Topomask::Torch INTERFACE IMPORTED)
  target_include_directories(Topomask::Torch SYSTEM INTERFACE
    "${TopomaskTorch_INCLUDE_DIR}" "${TopomaskTorch_INCLUDE_DIR}/torch/csrc/api/include")
  target_link_libraries(Topomask::Torch INTERFACE ${_torch_libraries})
endif()
