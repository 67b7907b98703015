# Where CMAKE_UNITY_BUILD is on, as in the presets release, ci and asan, the files of a folder are compiled as one: parsing
# torch takes longer than most of them. So local names are unique in their folder.

# Files called *kernel.cpp hold loops over raw pointers and include no torch header: each is compiled by itself, without the
# precompiled header, which would make it wait for torch.
function(compile_folders_as_one target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "kernel\\.cpp$")
      set_source_files_properties("${source}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
      continue()
    endif()
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    if(folder MATCHES "^src/ops/")  # every operator has the same files, and a namespace: alike ones go together
      cmake_path(GET source STEM folder)
      string(PREPEND folder "src/ops/")
    endif()
    string(MAKE_C_IDENTIFIER "${folder}" group)
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()
