#include <set>

#include "provenance.h"
#include "report/sections.h"
#include "topomask/config.h"

namespace topomask::apps {
namespace {

/// "AMD EPYC …, 2 cores (2 threads used), 24.0 GiB; no GPU"
std::string machine_text(const Json& machine) {
  const auto text = [&](const char* key) { return machine.contains(key) ? as_cell(machine[key]) : std::string("?"); };
  const std::string gpu = text("gpu");
  return text("processor") + ", " + text("cores") + " cores (" + text("threads") + " threads used), " + text("memory") +
         " memory, " + (gpu == "none" ? "no GPU" : "GPU " + gpu) + "; topomask " + text("topomask") + ", torch " +
         text("torch");
}

/// Command, date and machine of every start of every run.
std::string commands(const RunCollection& runs) {
  std::set<std::string> machines;
  std::vector<std::vector<std::string>> rows{{"run", "seed", "started", "command"}};
  for (const RunGroup& group : runs.groups) {
    for (const RunRecord& run : group.runs) {
      const std::string seed = std::to_string(run.config.train.seed);
      if (run.provenance.empty()) rows.push_back({escape(run.folder), seed, "not recorded", ""});
      for (const Json& start : run.provenance) {
        rows.push_back({escape(run.folder), seed, escape(start.value("started", "?")),
                        "<td class=\"left\"><code>" + escape(start.value("command", "?")) + "</code>"});
        if (start.contains("machine")) machines.insert(machine_text(start["machine"]));
      }
    }
  }
  std::string text;
  for (const std::string& machine : machines) text += "<li>" + escape(machine) + "</li>";
  return (text.empty() ? "" : "<p>The runs were made on:</p><ul>" + text + "</ul>\n") + html_table(rows);
}

/// Keys that say where a run is, not what it is.
bool is_hyperparameter(const std::string& key) {
  return key != "name" && key != "train.seed" && key != "data.path" && key != "data.fold";
}

/// What differs between variants, side by side, and what all of them share.
std::string hyperparameters(const RunCollection& runs) {
  std::vector<RunConfig> configs;
  for (const RunGroup& group : runs.groups) configs.push_back(group.config());
  std::vector<std::vector<OptionField>> fields;
  for (RunConfig& config : configs) fields.push_back(option_fields(config));
  std::vector<std::vector<std::string>> different{{"key"}}, shared{{"key", "value", "meaning"}};
  for (const RunGroup& group : runs.groups) different[0].push_back(escape(group.label));
  for (size_t f = 0; f < fields[0].size(); ++f) {
    const OptionField& field = fields[0][f];
    if (!is_hyperparameter(field.key)) continue;
    const std::string value = option_text(field);
    bool same = true;
    for (const auto& others : fields) same &= option_text(others[f]) == value;
    if (same) {
      shared.push_back(
          {"<code>" + escape(field.key) + "</code>", escape(value), "<td class=\"left\">" + escape(field.help)});
      continue;
    }
    std::vector<std::string>& row = different.emplace_back();
    row.push_back("<code>" + escape(field.key) + "</code>");
    for (const auto& others : fields) row.push_back(escape(option_text(others[f])));
  }
  std::string body = "<h3>Hyperparameters</h3>\n";
  if (different.size() > 1) body += "<p>What differs between the variants:</p>\n" + html_table(different);
  return body + "<details><summary>What all of them share</summary>\n" + html_table(shared) + "</details>\n";
}

}  // namespace

Section setup_section(const RunCollection& runs) {
  std::string body = "<p>This page was made on " + escape(date_now()) + " by <code>" + escape(command_line()) +
                     "</code> on: " + escape(machine_text(machine())) + ".";
  if (runs.count > 0) body += " Accuracy is over " + as_cell(runs.count) + " " + runs.split + " " + runs.items + ".";
  return {"setup", "How the runs were made", body + "</p>\n" + commands(runs) + hyperparameters(runs)};
}

}  // namespace topomask::apps
