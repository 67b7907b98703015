# topomask::models: vision transformers, data sets and training, a library of its own above topomask::topomask.
find_package(nlohmann_json 3.7 REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)

list(TRANSFORM TOPOMASK_MODEL_FOLDERS PREPEND "src/" OUTPUT_VARIABLE _globs)
list(TRANSFORM _globs APPEND "/*.cpp")
file(GLOB_RECURSE TOPOMASK_MODEL_SOURCES CONFIGURE_DEPENDS ${_globs})
# One shared library here too: an attention variant is a file that registers itself.
add_library(topomask_models SHARED ${TOPOMASK_MODEL_SOURCES})
add_library(topomask::models ALIAS topomask_models)
target_include_directories(topomask_models PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(topomask_models PUBLIC topomask::topomask
  PRIVATE "$<BUILD_INTERFACE:topomask_options>" nlohmann_json::nlohmann_json JPEG::JPEG PNG::PNG ZLIB::ZLIB)
replace_parallel_for(topomask_models)
target_precompile_headers(topomask_models PRIVATE "${PROJECT_SOURCE_DIR}/src/models_pch.h")
set_target_properties(topomask_models PROPERTIES EXPORT_NAME models CXX_VISIBILITY_PRESET hidden
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
compile_folders_as_one(topomask_models)
