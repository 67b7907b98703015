#include "provenance.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "activity.h"
#include "io/output_file.h"
#include "topomask/version.h"

namespace topomask::apps {
namespace {

constexpr const char* kFile = "provenance.json";

std::string& kept_command_line() {
  static std::string line;
  return line;
}

/// As a word of a shell's command.
std::string quoted(const std::string& word) {
  const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// The value after a name and a colon, in a file of such lines.
std::string field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const size_t colon = line.find(':'), start = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && start != std::string::npos) return line.substr(start);
  }
  return "";
}

/// "2 × NVIDIA H200" as the driver names them; empty where there is none.
std::string gpu_names() {
  std::map<std::string, int> models;
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    if (const std::string model = field((gpu.path() / "information").string(), "Model"); !model.empty())
      ++models[model];
  }
  std::string text;
  for (const auto& [model, count] : models) {
    text += (text.empty() ? "" : ", ") + (count > 1 ? std::to_string(count) + " × " : "") + model;
  }
  return text;
}

}  // namespace

void set_command_line(const std::vector<std::string>& arguments) {
  std::string line;
  for (size_t i = 0; i < arguments.size(); ++i) {
    // The program by its name, wherever it lies.
    line += i == 0 ? std::filesystem::path(arguments[0]).filename().string() : " " + quoted(arguments[i]);
  }
  kept_command_line() = line;
}

const std::string& command_line() {
  return kept_command_line();
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

Json machine() {
  const std::string processor = field("/proc/cpuinfo", "model name"), memory = field("/proc/meminfo", "MemTotal");
  Json result{{"processor", processor.empty() ? "unknown" : processor},
              {"cores", std::thread::hardware_concurrency()},
              {"threads", at::get_num_threads()}};
  if (!memory.empty()) result["memory"] = as_bytes(std::stod(memory) * 1024);
  const std::string gpu = gpu_names();
  result["gpu"] = gpu.empty() ? "none" : gpu;
  result["topomask"] = TOPOMASK_VERSION;
  result["torch"] = TORCH_VERSION;
  return result;
}

Json read_provenance(const std::string& folder) {
  std::ifstream file(std::filesystem::path(folder) / kFile);
  if (!file) return Json::array();
  const Json entries = Json::parse(file, nullptr, false);
  return entries.is_array() ? entries : Json::array();
}

void record_provenance(const std::string& folder, const std::string& started) {
  Json entries = read_provenance(folder);
  entries.push_back({{"command", command_line()}, {"started", started}, {"ended", date_now()}, {"machine", machine()}});
  io::OutputFile file({"train", (std::filesystem::path(folder) / kFile).string()});
  file.put(json_text(entries, 2) + "\n");
  file.commit();
}

}  // namespace topomask::apps
