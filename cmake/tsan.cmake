# How the threads of at::parallel_for are made: by OpenMP, as torch does it. The thread sanitizer knows nothing of libgomp
# and would take every parallel loop for a race, so that its build makes them by std::thread instead: see
# tests/support/thread_parallel.h. Programs are still linked with libgomp, which torch needs itself.
set(TOPOMASK_THREADS ${OpenMP_CXX_FLAGS})
if(TOPOMASK_THREAD_SANITIZE)
  if(TOPOMASK_SANITIZE)
    message(FATAL_ERROR "TOPOMASK_THREAD_SANITIZE and TOPOMASK_SANITIZE exclude each other")
  endif()
  set(TOPOMASK_THREADS -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
endif()

# In front of the precompiled headers of a target, which must come after this.
function(replace_parallel_for target)
  if(TOPOMASK_THREAD_SANITIZE)
    target_precompile_headers(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/thread_parallel.h")
  endif()
endfunction()
