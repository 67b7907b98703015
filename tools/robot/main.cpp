#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include "io/output_file.h"
#include "simulation.h"
#include "topomask/version.h"

namespace topomask::robot {
namespace {

namespace fs = std::filesystem;

struct Options {
  Settings settings;
  std::string out;
  int64_t episodes = 1000, shard = 25, part = 0, parts = 1;
  uint64_t seed = 0;
};

constexpr uint32_t kMostAttempts = 50;
constexpr int kUsage = 2;  // exit status

/// What episodes depend on. The number of them is not in it: a run may be extended.
std::string settings_text(const Options& options) {
  const Settings& s = options.settings;
  // The format of episodes changes with this number: shards made by different programs do not mix.
  constexpr int kProgramVersion = 1;
  const bool builtin = s.arm == "builtin";
  return nlohmann::ordered_json{{"program", kProgramVersion},
                                {"mujoco", mj_versionString()},
                                {"arm", builtin ? "builtin" : "kuka_iiwa_14"},
                                {"side", s.side},
                                {"frames", s.frames},
                                {"interval", s.interval},
                                {"shadows", s.shadows},
                                {"shard", options.shard},
                                {"seed", options.seed}}
             .dump(2) +
         "\n";
}

/// A folder belongs to one set of settings. The first process writes them; the others, and later runs, compare.
void claim_folder(const Options& options) {
  fs::create_directories(options.out);
  const fs::path file = fs::path(options.out) / "settings.json";
  const std::string text = settings_text(options);
  if (!fs::exists(file)) {
    io::OutputFile output({"robot data", file.string()});
    output.put(text);
    output.commit();
  }
  std::ifstream stream(file, std::ios::binary);
  const std::string found{std::istreambuf_iterator<char>(stream), {}};
  TORCH_CHECK(found == text, "robot data: ", file.string(), " is of a run with other settings: ", found,
              "choose another folder, or the same settings:\n", text);
}

/// Episode `index`, drawn again until one is kept; what was not is counted.
Episode make_episode(int64_t index, const Options& options, EpisodeWriter& writer) {
  const auto kind = static_cast<Kind>(index % std::ssize(kKindNames));
  for (uint32_t attempt = 0; attempt < kMostAttempts; ++attempt) {
    Outcome outcome = simulate(kind, episode_seed(options.seed, index, attempt), options.settings);
    if (outcome.dropped.empty()) return std::move(outcome.episode);
    writer.count_dropped(outcome.dropped);
  }
  TORCH_CHECK(false, "robot data: episode ", index, " was dropped ", kMostAttempts, " times");
}

std::string shard_name(int64_t shard) {
  char name[32];
  std::snprintf(name, sizeof(name), "robot-%05d.episodes", static_cast<int>(shard));
  return name;
}

/// Whether a shard is there, whole, and has the episodes it is to have.
bool is_made(const std::string& path, int64_t first, int64_t count) {
  if (!fs::exists(path)) return false;
  const EpisodeSet set(path);
  if (set.size() > count || (set.size() > 0 && set.summary(0).kind != kKindNames[static_cast<size_t>(first) % 4])) {
    TORCH_CHECK(false, "robot data: ", path, " has other episodes than this run makes");
  }
  return set.size() == count;  // a shorter one is the last of a run that is extended now: it is made again
}

void make_shard(int64_t shard, const Options& options) {
  const int64_t first = shard * options.shard, count = std::min(options.shard, options.episodes - first);
  const std::string path = (fs::path(options.out) / shard_name(shard)).string();
  if (is_made(path, first, count)) {
    std::fprintf(stderr, "%s: made before\n", path.c_str());
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  EpisodeWriter writer(path);
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  for (int64_t i = 0; i < count; ++i) {
    writer.add(make_episode(first + i, options, writer));
    if (terminal)
      std::fprintf(stderr, "\r%s: %ld of %ld ", path.c_str(), static_cast<long>(i + 1), static_cast<long>(count));
  }
  writer.commit();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::fprintf(stderr, "%s%s: %ld episodes, %.0f KB, %.1f s\n", terminal ? "\r" : "", path.c_str(),
               static_cast<long>(count), static_cast<double>(fs::file_size(path)) / 1000, seconds);
}

/// What the folder holds, on stdout.
void report(const Options& options) {
  const EpisodeSet set(options.out);
  std::map<std::string, int64_t> kinds;
  int64_t bytes = 0;
  for (int64_t i = 0; i < set.size(); ++i) {
    ++kinds[set.summary(i).kind];
    bytes += set.summary(i).packed_bytes;
  }
  std::cout << "episodes " << set.size() << "\n";
  for (const auto& [kind, count] : kinds) std::cout << "  " << kind << " " << count << "\n";
  for (const auto& [reason, count] : set.dropped()) std::cout << "dropped, " << reason << " " << count << "\n";
  std::cout << "bytes per episode " << bytes / std::max<int64_t>(1, set.size()) << "\n";
  TORCH_CHECK(std::cout.flush().good(), "robot data: stdout: cannot write the output");
}

int run(const Options& options) {
  make_arm(options.settings.arm, Tool::paddle, .05);  // one that cannot be read leaves no folder behind
  claim_folder(options);
  const Display display;
  const int64_t shards = (options.episodes + options.shard - 1) / options.shard;
  for (int64_t shard = options.part; shard < shards; shard += options.parts) make_shard(shard, options);
  if (options.parts == 1) report(options);
  return 0;
}

}  // namespace
}  // namespace topomask::robot

int main(int argc, char** argv) {
  using namespace topomask::robot;
  Options options;
  CLI::App app("Simulated episodes of a robot arm that moves objects, in shards (docs/robot-data.md)",
               "topomask-robot-data");
  app.set_version_flag("--version", TOPOMASK_VERSION);
  app.add_option("--out", options.out, "Folder for the shards; a run that was interrupted continues")->required();
  app.add_option("--episodes", options.episodes, "How many in all")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the run")->capture_default_str();
  app.add_option("--side", options.settings.side, "Pixels along each side of an image")
      ->check(CLI::Range(8, 1024))
      ->capture_default_str();
  app.add_option("--frames", options.settings.frames, "Of an episode")
      ->check(CLI::Range(3, 1000))
      ->capture_default_str();
  app.add_option("--interval", options.settings.interval, "Seconds between frames")
      ->check(CLI::Range(.02, 2.))
      ->capture_default_str();
  app.add_option("--arm", options.settings.arm,
                 "'builtin', or a folder with iiwa14.xml (MuJoCo Menagerie, kuka_iiwa_14)")
      ->capture_default_str();
  app.add_flag("--shadows", options.settings.shadows, "Render shadows, which takes several times as long");
  app.add_option("--shard", options.shard, "Episodes in a file")->check(CLI::Range(1, 10000))->capture_default_str();
  app.add_option("--part", options.part, "Make the shards of process PART of PARTS")->capture_default_str();
  app.add_option("--parts", options.parts, "Processes that share the work")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.footer("Example:\n  topomask-robot-data --out build/robot --episodes 100 --side 64");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;  // help and versions are no errors
  }
  if (options.part < 0 || options.part >= options.parts) {
    std::cerr << "topomask-robot-data: --part must be in [0, " << options.parts << "), got " << options.part << "\n";
    return kUsage;
  }
  try {
    return run(options);
  } catch (const c10::Error& error) {
    std::cerr << "topomask-robot-data: " << error.what_without_backtrace() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "topomask-robot-data: " << error.what() << "\n";
  }
  return 1;
}
