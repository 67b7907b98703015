# Fails where the README shows another program than the ones that are built and run as tests.
file(READ "${SOURCE_DIR}/README.md" readme)
foreach(program tests/consumer/main.cpp examples/quickstart.py)
  file(READ "${SOURCE_DIR}/${program}" text)
  string(FIND "${readme}" "${text}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "README.md must show ${program} as it is")
  endif()
endforeach()
