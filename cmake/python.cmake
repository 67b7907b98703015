# The Python package: what the library was built against, said in _build.py beside it, and the parts of a wheel.
if(TOPOMASK_CUDA)
  set(TOPOMASK_BUILD_CUDA True)
else()
  set(TOPOMASK_BUILD_CUDA False)
endif()
configure_file(cmake/build_info.py.in "${CMAKE_CURRENT_BINARY_DIR}/lib/_build.py" @ONLY)

if(SKBUILD)
  # In a wheel there are no links between versions of a library, and torch is a folder in the same site-packages.
  set_property(TARGET topomask PROPERTY SOVERSION)
  set_property(TARGET topomask PROPERTY VERSION)
  set_target_properties(topomask PROPERTIES INSTALL_RPATH "$ORIGIN/../torch/lib" INSTALL_RPATH_USE_LINK_PATH OFF)
  install(TARGETS topomask LIBRARY DESTINATION . COMPONENT python)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/lib/_build.py" DESTINATION . COMPONENT python)
endif()
