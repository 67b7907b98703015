#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "../data/files.h"

namespace topomask::testing {

struct Finished {
  int status = -1;
  std::string out, err;
};

/// Runs a shell command; its words are quoted by the caller where they need it.
inline Finished run_command(const std::string& command) {
  const TemporaryFolder folder;
  const std::string out = folder / "out", err = folder / "err";
  const int status = std::system((command + " >'" + out + "' 2>'" + err + "' </dev/null").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
}

/// The tool with these arguments, on one thread.
inline Finished tool(const std::string& arguments) {
  return run_command("OMP_NUM_THREADS=1 '" TOPOMASK_TOOL "' " + arguments);
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace topomask::testing
