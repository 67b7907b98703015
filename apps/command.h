#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace topomask::apps {

class Activity;

/// What every subcommand shares, and the one thing a subcommand sets: the function to run once all arguments are
/// parsed.
struct Context {
  bool json = false;
  int threads = 0;           ///< 0: default_threads()
  std::function<int()> run;  ///< returns the exit status
};

/// The command line was wrong: exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A file each. They add a subcommand to `app` whose callback sets context.run.
void add_train(CLI::App& app, Context& context);
void add_eval(CLI::App& app, Context& context);
void add_predict(CLI::App& app, Context& context);
void add_mask(CLI::App& app, Context& context);
void add_walks(CLI::App& app, Context& context);
void add_suggest(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_report(CLI::App& app, Context& context);
void add_play(CLI::App& app, Context& context);
void add_info(CLI::App& app, Context& context);

/// What a subcommand does: it reports in `activity` what it is doing, and returns the exit status.
using CommandFunction = std::function<int(Activity& activity)>;

/// A subcommand with examples after its options, `--json` and `--threads`; `run` is what it does.
CLI::App* add_command(CLI::App& app, Context& context, const std::string& name, const std::string& description,
                      const std::string& examples, CommandFunction run);

/// Runs a subcommand. Memory that runs out is an error (status 1) that names what was being made.
int run_command(const std::string& name, const CommandFunction& run);

}  // namespace topomask::apps
