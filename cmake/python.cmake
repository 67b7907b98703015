# The Python package: what the library was built against, which _build.py next to it says, and the parts of a wheel.
set(TOPOMASK_BUILD_CUDA False)
set(_label cpu)
if(TOPOMASK_CUDA)  # the version of torch's CUDA
  set(TOPOMASK_BUILD_CUDA True)
  file(STRINGS "${TopomaskTorch_DIR_FOUND}/version.py" _line REGEX "^cuda.*'[0-9.]+'")
  if(_line MATCHES "'([0-9.]+)'")
    set(TOPOMASK_BUILD_CUDA "\"${CMAKE_MATCH_1}\"")
    string(REPLACE "." "" _label "cu${CMAKE_MATCH_1}")
  endif()
endif()
configure_file(cmake/build_info.py.in "${CMAKE_CURRENT_BINARY_DIR}/lib/_build.py" @ONLY)

if(SKBUILD)
  # The version in the wheel's name is made before CMake runs, see torch_found.py.
  set(_label "torch${TopomaskTorch_VERSION_MAJOR}.${TopomaskTorch_VERSION_MINOR}.${_label}")
  if(NOT SKBUILD_PROJECT_VERSION_FULL MATCHES "\\+${_label}$")
    message(FATAL_ERROR "The wheel is named ${SKBUILD_PROJECT_VERSION_FULL}, but would hold a build for ${_label}: give TOPOMASK_CUDA "
      "by CMAKE_ARGS=-DTOPOMASK_CUDA=ON in the environment, and another torch by TOPOMASK_TORCH in the environment, in place of "
      "--config-settings; remove build/wheel where it was configured otherwise")
  endif()
  # In a wheel there are no links between versions of a library, and torch is a folder in the same site-packages.
  set_property(TARGET topomask PROPERTY SOVERSION)
  set_property(TARGET topomask PROPERTY VERSION)
  set_target_properties(topomask PROPERTIES INSTALL_RPATH "$ORIGIN/../torch/lib" INSTALL_RPATH_USE_LINK_PATH OFF)
  install(TARGETS topomask LIBRARY DESTINATION . COMPONENT python)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/lib/_build.py" DESTINATION . COMPONENT python)
endif()
