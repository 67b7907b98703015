#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <iostream>
#include <new>
#include <stdexcept>
#include <thread>

#include "argument_checks.h"
#include "command.h"
#include "config_arguments.h"
#include "provenance.h"
#include "threads.h"
#include "topomask/version.h"

namespace topomask::apps {
namespace {

/// More are of no use, and systems refuse to start tens of thousands.
int64_t most_threads() {
  constexpr int64_t kMost = 256;
  return std::max<int64_t>(kMost, std::thread::hardware_concurrency());
}

}  // namespace

CLI::App* add_command(CLI::App& app, Context& context, const std::string& name, const std::string& description,
                      const std::string& examples, CommandFunction run) {
  CLI::App* command = app.add_subcommand(name, description);
  command->add_flag("--json", context.json, "print JSON");
  command
      ->add_option("--threads", context.threads, "threads to compute with; 0: one for each CPU, see docs/training.md")
      ->check(whole_number(0, most_threads()));
  command->footer("Examples:\n" + examples);
  command->callback(
      [&context, name, run = std::move(run)] { context.run = [name, run] { return run_command(name, run); }; });
  return command;
}

namespace {

constexpr int kFailure = 1, kUsage = 2;

int fail(const std::string& message, int status) {
  std::cerr << "topomask: " << message << '\n';
  return status;
}

/// The status, unless the output cannot be written: a full disk may show only when it is flushed.
int after_flushing(int status) {
  if (!std::cout.flush()) throw std::runtime_error("stdout: cannot write the output");
  return status;
}

/// The first line and what it says, without where in the sources it was thrown.
std::string text_of(const c10::Error& error) {
  return error.what_without_backtrace();
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

/// CLI11 would only say that a subcommand is missing.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const std::vector<std::string> names = command_names(app);
  const std::string given = argv[1];
  if (std::find(names.begin(), names.end(), given) != names.end()) return;
  throw UsageError("there is no command '" + given + "'" + hint(given, names));
}

/// The first argument that no option or place takes, with the option that may have been meant.
std::string unexpected(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  std::string given = extras.empty() ? "" : extras.front();
  if (given.starts_with("--set=")) given = "--" + given.substr(6);  // a key, where the command has no configuration
  given = given.substr(0, given.find('='));
  const auto commands = app.get_subcommands();
  const CLI::App& command = commands.empty() ? app : *commands.front();
  const std::string place = commands.empty() ? "" : command.get_name() + ": ";
  if (!given.starts_with("-")) return place + "unexpected argument '" + given + "'";
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return place + "unknown option '" + given + "'" + hint(given, names);
}

/// What CLI11 has to say of a command line: help and versions are no errors.
int report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const auto commands = app.get_subcommands();
  const std::string command = commands.empty() ? "" : commands.front()->get_name() + " ";
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  return fail(
      (extras ? unexpected(app) : std::string(error.what())) + "\n`topomask " + command + "--help` explains the usage.",
      kUsage);
}

int run(int argc, char** argv) {
  CLI::App app{"Topological masking: attention modulated by a graph, in linear time", "topomask"};
  app.set_version_flag("--version", "topomask " TOPOMASK_VERSION);
  app.set_help_all_flag("--help-all", "the help of every subcommand");
  app.require_subcommand(1);
  app.footer(
      "topomask COMMAND --help explains a command, with examples.\n"
      "Data goes to stdout, messages to stderr. Exit status: 0 success, 1 failure, 2 wrong usage.");
  Context context;
  for (const auto& add : {add_train, add_eval, add_predict, add_report, add_play, add_mask, add_walks, add_suggest,
                          add_explain, add_bench, add_info}) {
    add(app, context);
  }
  check_command(app, argc, argv);
  if (argc > 1 && std::string(argv[1]) == "train") restart_with_sleeping_threads(argv);
  set_command_line({argv, argv + argc});
  try {
    std::vector<std::string> arguments = with_settings({argv + 1, argv + argc});
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants a list
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error);
  }
  const int64_t threads =
      context.threads > 0 ? context.threads : default_threads(app.get_subcommands().front()->get_name());
  if (threads != at::get_num_threads()) at::set_num_threads(static_cast<int>(threads));
  return context.run();
}

}  // namespace
}  // namespace topomask::apps

int main(int argc, char** argv) {
  using namespace topomask::apps;
  try {
    return after_flushing(run(argc, argv));
  } catch (const UsageError& error) {
    return fail(error.what(), kUsage);
  } catch (const c10::Error& error) {
    return fail(text_of(error), kFailure);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", kFailure);
  } catch (const std::exception& error) {
    return fail(error.what(), kFailure);
  }
}
