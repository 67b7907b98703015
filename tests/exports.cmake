# The shared library exports functions of topomask alone, and none that no other program of the project needs.
#   cmake -DNM=... -DLIBRARY=... -P exports.cmake

execute_process(COMMAND "${NM}" -DC --defined-only "${LIBRARY}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[0-9a-f]+ T [^\n]+" functions "${symbols}")
list(LENGTH functions count)
if(count LESS 100)
  message(FATAL_ERROR "only ${count} functions are exported: a public header lacks TOPOMASK_API?")
endif()
foreach(function IN LISTS functions)
  string(REGEX REPLACE "^[0-9a-f]+ T " "" name "${function}")
  if(NOT name MATCHES "^topomask::" OR name MATCHES "^topomask::python::")
    message(FATAL_ERROR "${name} is exported; no program outside the library needs it")
  endif()
endforeach()
