# Installs the built tree, moves it, and builds and runs a program against it that knows only where it lies.
#   cmake -DBUILD_DIR=... -DSOURCE_DIR=... -DTORCH_DIR=... -DCXX_COMPILER=... -P check.cmake

set(scratch "${BUILD_DIR}/install_consumer")
file(REMOVE_RECURSE "${scratch}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message("${output}")
    message(FATAL_ERROR "${status}: ${command}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${scratch}/first")
file(RENAME "${scratch}/first" "${scratch}/moved")

# The torch folder may lie in the source tree; nothing else may point there.
file(GLOB_RECURSE package_files "${scratch}/moved/*.cmake")
foreach(file IN LISTS package_files)
  file(READ "${file}" text)
  string(REPLACE "${TORCH_DIR}" "" text "${text}")
  foreach(folder "${SOURCE_DIR}" "${BUILD_DIR}" "${scratch}/first")
    string(FIND "${text}" "${folder}" position)
    if(NOT position EQUAL -1)
      message(FATAL_ERROR "${file} refers to ${folder}")
    endif()
  endforeach()
endforeach()

# The library finds torch by itself, not only through the program that loads it.
file(GLOB_RECURSE library "${scratch}/moved/libtopomask.so")
file(GET_RUNTIME_DEPENDENCIES LIBRARIES "${library}" RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing)
if(missing)
  message(FATAL_ERROR "the installed library does not find ${missing}")
endif()

run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${scratch}/build" -G Ninja
  -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_PREFIX_PATH=${scratch}/moved")
run("${CMAKE_COMMAND}" --build "${scratch}/build")
run("${CMAKE_COMMAND}" -E env --unset=LD_LIBRARY_PATH "${scratch}/build/consumer")
foreach(text "[2, 16384, 64], gradient of alpha [4]" "sparse is estimated fastest")
  string(FIND "${output}" "${text}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "the consumer must print '${text}', got: ${output}")
  endif()
endforeach()

# A program over the models trains for two steps; where they are not installed, their headers are not either.
if(EXISTS "${scratch}/build/models")
  run("${CMAKE_COMMAND}" -E env --unset=LD_LIBRARY_PATH "${scratch}/build/models" "${scratch}/run")
  set(text "2 steps, 2 lines of metrics, evaluated: 1, checkpoint of step 2, walks over 16 patches")
  string(FIND "${output}" "${text}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "the consumer of the models must print '${text}', got: ${output}")
  endif()
else()
  foreach(header config.h nn/vit.h data/dataset.h train/train.h)
    file(GLOB_RECURSE found "${scratch}/moved/include/topomask/${header}")
    if(found)
      message(FATAL_ERROR "${found} is installed without the models")
    endif()
  endforeach()
endif()

# The tool runs from where it was moved to.
if(EXISTS "${scratch}/moved/bin/topomask")
  run("${CMAKE_COMMAND}" -E env --unset=LD_LIBRARY_PATH "${scratch}/moved/bin/topomask" info)
endif()
