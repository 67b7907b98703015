#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace topomask::apps {

/// What every subcommand shares, and the one thing a subcommand leaves behind: what to do once all is parsed.
struct Context {
  bool json = false;
  int threads = 0;           ///< 0: as many as cores
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

/// A subcommand with examples after its options, `--json` and `--threads`; `run` is what it does.
CLI::App* add_command(CLI::App& app, Context& context, const std::string& name, const std::string& description,
                      const std::string& examples, std::function<int()> run);

}  // namespace topomask::apps
