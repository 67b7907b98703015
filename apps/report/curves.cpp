#include <map>

#include "report/chart.h"
#include "report/sections.h"

namespace topomask::apps {
namespace {

using Points = std::vector<std::pair<double, double>>;

Points loss_of(const RunRecord& run) {
  Points points;
  for (const TrainMetrics& line : run.metrics.train) points.emplace_back(static_cast<double>(line.step), line.loss);
  return points;
}

/// The split that was evaluated most often: validation where there is one.
Points accuracy_of(const RunRecord& run, const std::string& split) {
  Points points;
  for (const EvalMetrics& line : run.metrics.eval) {
    if (line.split == split) points.emplace_back(static_cast<double>(line.step), line.accuracy);
  }
  return points;
}

std::string evaluated_split(const RunCollection& runs) {
  std::map<std::string, size_t> uses;
  for (const RunGroup& group : runs.groups) {
    for (const EvalMetrics& line : group.runs[0].metrics.eval) ++uses[line.split];
  }
  std::string best = runs.split;
  for (const auto& [split, count] : uses) {
    if (count > uses[best]) best = split;
  }
  return best;
}

/// Faint lines for seeds, a strong one for their mean where they were measured at the same steps.
template <class Points_of>
std::vector<Line> lines_of(const RunCollection& runs, Points_of points_of) {
  std::vector<Line> lines, means;
  for (size_t g = 0; g < runs.groups.size(); ++g) {
    const auto& records = runs.groups[g].runs;
    std::map<double, std::pair<double, size_t>> sums;
    for (const RunRecord& run : records) {
      const Points points = points_of(run);
      for (const auto& [x, y] : points) {
        sums[x].first += y;
        ++sums[x].second;
      }
      if (records.size() > 1) lines.push_back({points, series_colour(g), 1, 0.35});
    }
    Line mean{{}, series_colour(g)};
    for (const auto& [x, sum] : sums) {
      if (sum.second == records.size()) mean.points.emplace_back(x, sum.first / static_cast<double>(sum.second));
    }
    means.push_back(std::move(mean));
  }
  lines.insert(lines.end(), means.begin(), means.end());
  return lines;
}

}  // namespace

Section curves_section(const RunCollection& runs) {
  const std::string split = evaluated_split(runs);
  std::vector<std::string> names;
  for (const RunGroup& group : runs.groups) names.push_back(group.label);
  const auto accuracies = lines_of(runs, [&](const RunRecord& run) { return accuracy_of(run, split); });
  const auto losses = lines_of(runs, loss_of);
  std::string body = legend(names) + "<div class=\"pair\"><figure>";
  body += line_chart(accuracies, {.title = split + " accuracy while training",
                                  .x_label = "step",
                                  .y_label = split + " accuracy",
                                  .y_percent = true});
  body += "</figure><figure>";
  body += line_chart(losses, {.title = "Training loss", .x_label = "step", .y_label = "training loss"});
  body += "</figure></div>\n<p class=\"soft\">Strong lines are means over seeds, faint ones single seeds.</p>\n";
  return {"curves", "Learning curves", body};
}

}  // namespace topomask::apps
