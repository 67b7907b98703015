# Install and export: an installed topomask is found with find_package(topomask) and linked as topomask::topomask
# and, where TOPOMASK_MODELS was on, topomask::models.
include(CMakePackageConfigHelpers)

# Set explicitly: CMake leaves link folders inside the source tree, such as .venv, out of CMAKE_INSTALL_RPATH_USE_LINK_PATH.
set_target_properties(topomask PROPERTIES INSTALL_RPATH "${TopomaskTorch_DIR_FOUND}/lib")
set(_libraries topomask)
if(TOPOMASK_MODELS)
  set_target_properties(topomask_models PROPERTIES INSTALL_RPATH "$ORIGIN;${TopomaskTorch_DIR_FOUND}/lib")
  list(APPEND _libraries topomask_models)
endif()

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/topomask")
install(TARGETS ${_libraries} EXPORT topomask_targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
set(_without_models "")
if(NOT TOPOMASK_MODELS)
  foreach(_folder IN LISTS TOPOMASK_MODEL_FOLDERS)
    list(APPEND _without_models PATTERN "topomask/${_folder}" EXCLUDE)
  endforeach()
  list(APPEND _without_models PATTERN "topomask/config.h" EXCLUDE PATTERN "topomask/run_config.h" EXCLUDE)
endif()
install(DIRECTORY include/topomask "${CMAKE_CURRENT_BINARY_DIR}/include/topomask"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h" ${_without_models})
install(EXPORT topomask_targets NAMESPACE topomask:: DESTINATION "${_package_dir}")
configure_package_config_file(cmake/topomaskConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/topomaskConfig.cmake"
  INSTALL_DESTINATION "${_package_dir}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/topomaskConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/topomaskConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/topomaskConfigVersion.cmake" cmake/FindTopomaskTorch.cmake DESTINATION "${_package_dir}")
