#include <cmath>

#include "report/chart.h"
#include "report/sections.h"

namespace topomask::apps {
namespace {

/// Row over column, in points; what is beyond noise stands out, better and worse apart.
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
      const Comparison found = compare(row.results(), column.results());
      const char* kind = !found.beyond_noise() ? "noise" : found.difference > 0 ? "better" : "worse";
      cells.push_back(format("<td class=\"%s\" title=\"%s\">%+.2f", kind,
                             found.judged() ? claim_text(found).c_str() : "no claim", 100 * found.difference));
    }
  }
  return html_table(rows);
}

}  // namespace

Section accuracy_section(const RunCollection& runs) {
  std::vector<std::vector<std::string>> rows{
      {"variant", "seeds", runs.split + " " + runs.score, "against the best", "noise (95 %)", "parameters"}};
  std::vector<std::pair<std::string, std::vector<double>>> dots;
  for (const RunGroup& group : runs.groups) {
    const Comparison found = compare(group.results(), runs.groups[0].results());
    const bool best = &group == &runs.groups[0];
    const bool unfinished =
        std::any_of(group.runs.begin(), group.runs.end(), [](const auto& run) { return !run.finished; });
    rows.push_back({escape(group.label) + (unfinished ? " <span class=\"soft\">(not finished)</span>" : ""),
                    group.seeds(), accuracy_text(group.accuracy()), best ? "" : format("%+.2f", 100 * found.difference),
                    best             ? ""
                    : found.judged() ? claim_text(found)
                                     : "no claim",
                    as_cell(group.runs[0].parameters)});
    dots.emplace_back(group.label, group.accuracies());
  }
  std::string body = html_table(rows);
  body += "<figure>" +
          dot_chart(dots, {.title = runs.score + " of each run",
                           .x_label = runs.split + " " + runs.score + "; a dot is a seed, a bar the mean",
                           .width = 640,
                           .y_percent = true}) +
          "</figure>\n<h3>What the seeds tell</h3><ul>";
  for (const std::string& sentence : noise_sentences(runs)) body += "<li>" + escape(sentence) + "</li>";
  body += "</ul>\n";
  if (runs.groups.size() > 2) {
    body +=
        "<p class=\"soft\">Row over column, in points. Beyond noise <span style=\"color:var(--good)\">better</span> "
        "and "
        "<span style=\"color:var(--bad)\">worse</span> stand out; what is grey is within noise, or of one seed.</p>" +
        differences(runs);
  }
  return {"accuracy", runs.score == "accuracy" ? "Accuracy" : runs.score == "ssim" ? "SSIM" : runs.score, body};
}

}  // namespace topomask::apps
