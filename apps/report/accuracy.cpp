#include <cmath>

#include "report/chart.h"
#include "report/sections.h"

namespace topomask::apps {
namespace {

/// Row over column, in points; what is beyond noise stands out.
std::string differences(const RunCollection& runs) {
  std::vector<std::vector<std::string>> rows{{""}};
  for (const RunGroup& group : runs.groups) rows[0].push_back(escape(group.label));
  for (const RunGroup& row : runs.groups) {
    std::vector<std::string>& cells = rows.emplace_back();
    cells.push_back(escape(row.label));
    for (const RunGroup& column : runs.groups) {
      if (&row == &column) {
        cells.push_back("");
        continue;
      }
      const Comparison found = compare(row.accuracies(), column.accuracies(), runs.test_images);
      cells.push_back(format("<td class=\"%s\" title=\"± %.2f\">%+.2f", found.within_noise ? "noise" : "sure",
                             100 * found.noise, 100 * found.difference));
    }
  }
  return html_table(rows);
}

}  // namespace

Section accuracy_section(const RunCollection& runs) {
  std::vector<std::vector<std::string>> rows{
      {"variant", "seeds", runs.split + " accuracy", "against the best", "noise", "parameters"}};
  std::vector<std::pair<std::string, std::vector<double>>> dots;
  for (const RunGroup& group : runs.groups) {
    const Comparison found = compare(group.accuracies(), runs.groups[0].accuracies(), runs.test_images);
    const bool best = &group == &runs.groups[0];
    const bool unfinished =
        std::any_of(group.runs.begin(), group.runs.end(), [](const auto& run) { return !run.finished; });
    rows.push_back({escape(group.label) + (unfinished ? " <span class=\"soft\">(not finished)</span>" : ""),
                    std::to_string(group.runs.size()), accuracy_text(group.accuracy()),
                    best ? "" : format("%+.2f", 100 * found.difference),
                    best                 ? ""
                    : found.by.empty()   ? "one run each"
                    : found.within_noise ? format("within ± %.2f", 100 * found.noise)
                                         : format("beyond ± %.2f", 100 * found.noise),
                    as_cell(group.runs[0].parameters)});
    dots.emplace_back(group.label, group.accuracies());
  }
  std::string body = html_table(rows);
  body += "<figure>" +
          dot_chart(dots, {.title = "Accuracy of each run",
                           .x_label = runs.split + " accuracy; a dot is a seed, a bar the mean",
                           .width = 640,
                           .y_percent = true}) +
          "</figure>\n<h3>What is within noise</h3><ul>";
  for (const std::string& sentence : noise_sentences(runs)) body += "<li>" + escape(sentence) + "</li>";
  body += "</ul>\n";
  if (runs.groups.size() > 2) {
    body +=
        "<p class=\"soft\">Row over column, in points; <span style=\"color:var(--good)\">green</span> is beyond "
        "noise.</p>" +
        differences(runs);
  }
  return {"accuracy", "Accuracy", body};
}

}  // namespace topomask::apps
