#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <iostream>

#include "command.h"
#include "config_arguments.h"
#include "core/nearest_name.h"
#include "topomask/version.h"

namespace topomask::apps {

CLI::App* add_command(CLI::App& app, Context& context, const std::string& name, const std::string& description,
                      const std::string& examples, std::function<int()> run) {
  CLI::App* command = app.add_subcommand(name, description);
  command->add_flag("--json", context.json, "print JSON");
  command->add_option("--threads", context.threads, "threads to compute with; 0: as many as cores")
      ->check(CLI::NonNegativeNumber);
  command->footer("Examples:\n" + examples);
  command->callback([&context, run = std::move(run)] { context.run = run; });
  return command;
}

namespace {

constexpr int kFailure = 1, kUsage = 2;

int fail(const std::string& message, int status) {
  std::cerr << "topomask: " << message << '\n';
  return status;
}

/// The first line and what it says, without where in the sources it was thrown.
std::string text_of(const c10::Error& error) {
  return error.what_without_backtrace();
}

/// CLI11 would only say that a subcommand is missing.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string given = argv[1];
  if (std::find(names.begin(), names.end(), given) != names.end()) return;
  const auto nearest = nearest_name(given, names);
  throw UsageError("there is no command '" + given + "'" + (nearest ? "; did you mean " + *nearest + "?" : ""));
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
  for (const auto& add : {add_train, add_eval, add_predict, add_report, add_mask, add_walks, add_suggest, add_explain,
                          add_bench, add_info}) {
    add(app, context);
  }
  check_command(app, argc, argv);
  try {
    std::vector<std::string> arguments = with_settings({argv + 1, argv + argc});
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants a list
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : kUsage;
  }
  if (context.threads > 0) at::set_num_threads(context.threads);
  return context.run();
}

}  // namespace
}  // namespace topomask::apps

int main(int argc, char** argv) {
  using namespace topomask::apps;
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    return fail(error.what(), kUsage);
  } catch (const c10::Error& error) {
    return fail(text_of(error), kFailure);
  } catch (const std::exception& error) {
    return fail(error.what(), kFailure);
  }
}
