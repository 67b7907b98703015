#include <cmath>
#include <cstdio>
#include <limits>

#include "core/out_of_memory.h"
#include "film_strip.h"
#include "report/chart.h"
#include "report/sections.h"
#include "topomask/tasks/points.h"

namespace topomask::apps {
namespace {

struct RolloutScore {
  const char *name, *title, *pattern;
};
constexpr RolloutScore kRolloutScores[] = {{"ssim", "SSIM of the image", "%.3f"},
                                           {"ssim_moved", "SSIM around the pixels of objects that moved", "%.3f"},
                                           {"psnr", "PSNR of the image, dB", "%.1f"},
                                           {"psnr_moved", "PSNR over the pixels of objects that moved, dB", "%.1f"},
                                           {"particle_error",
                                            "Distance of particles on moved objects from the "
                                            "simulator's truth, m",
                                            "%.3f"}};

/// Means over the runs of a group; NaN where no run has a number.
std::vector<double> mean_curve(const RunGroup& group, const std::string& name) {
  std::vector<double> sum;
  std::vector<int> count;
  for (const RunRecord& run : group.runs) {
    if (!run.curves.contains(name)) continue;
    const Json& values = run.curves[name];
    sum.resize(std::max(sum.size(), values.size()));
    count.resize(sum.size());
    for (size_t s = 0; s < values.size(); ++s) {
      if (!values[s].is_number()) continue;
      sum[s] += values[s].get<double>();
      ++count[s];
    }
  }
  for (size_t s = 0; s < sum.size(); ++s)
    sum[s] = count[s] > 0 ? sum[s] / count[s] : std::numeric_limits<double>::quiet_NaN();
  return sum;
}

using Row = std::pair<std::string, std::vector<double>>;

/// A row for each variant, then the floors.
std::vector<Row> rows_of_score(const RunCollection& runs, const std::string& name) {
  std::vector<Row> rows;
  for (const RunGroup& group : runs.groups) rows.emplace_back(group.label, mean_curve(group, name));
  rows.emplace_back(name == "particle_error" ? "nothing moves" : "copy of the last frame",
                    mean_curve(runs.groups[0], "copy_" + name));
  for (const RunGroup& group : runs.groups) {
    std::vector<double> floor = mean_curve(group, "encoded_" + name);
    if (!floor.empty()) rows.emplace_back(group.label + ": true frames, encoded and rendered", std::move(floor));
  }
  return rows;
}

std::string score_table(const std::vector<Row>& rows, const char* pattern) {
  std::vector<std::vector<std::string>> cells{{"step"}};
  for (size_t s = 0; s < rows[0].second.size(); ++s) cells[0].push_back(std::to_string(s + 1));
  for (const auto& [label, values] : rows) {
    std::vector<std::string>& line = cells.emplace_back();
    line.push_back(escape(label));
    for (const double value : values) {
      // The patterns are those above.
      char text[64];
      std::snprintf(text, sizeof text, pattern, value);
      line.push_back(std::isnan(value) ? "" : text);
    }
  }
  return html_table(cells);
}

std::string score_chart(const std::vector<Row>& rows, size_t variants, const char* title) {
  std::vector<Line> lines;
  std::vector<std::string> names;
  for (size_t r = 0; r < rows.size(); ++r) {
    Line line{.colour = series_colour(r), .dashed = r >= variants};
    for (size_t s = 0; s < rows[r].second.size(); ++s) {
      line.points.emplace_back(static_cast<double>(s + 1), rows[r].second[s]);
    }
    lines.push_back(line);
    names.push_back(rows[r].first);
  }
  return "<figure>" + line_chart(lines, {.title = title, .x_label = "step of the rollout", .y_label = title}) +
         legend(names) + "</figure>\n";
}

}  // namespace

Section rollouts_section(const RunCollection& runs) {
  std::string body = "<p>Means over the episodes and cameras of the " + runs.split +
                     " split, each step predicted from the prediction before. Dashed lines are floors: what a copy of "
                     "the last seen frame scores, and what the encoder and the renderer lose of true frames.</p>\n";
  for (const RolloutScore& score : kRolloutScores) {
    const std::vector<Row> rows = rows_of_score(runs, score.name);
    if (rows[0].second.empty()) continue;
    body += format("<h3>%s</h3>\n", score.title) + score_chart(rows, runs.groups.size(), score.title) +
            "<div class=\"wide\">" + score_table(rows, score.pattern) + "</div>\n";
  }
  return {"rollouts", "Step by step", body};
}

Section strips_section(const std::vector<GroupTask>& tasks, const std::string& split, int64_t examples) {
  constexpr int64_t kMostEpisodes = 3, kMostFrames = 8;
  std::string body =
      "<p>Steps from left to right; above the truth, in the middle the prediction, below their difference, grey where "
      "they agree. The first camera of each episode.</p>\n";
  try {
    TORCH_CHECK(!tasks.empty(), "no model could be loaded");
    const int64_t size = tasks[0].loaded.task->size(split), shown = std::min({size, examples, kMostEpisodes});
    for (int64_t i = 0; i < shown; ++i) {
      const int64_t place = i * size / shown;
      for (const GroupTask& group : tasks) {
        const RolloutView view = view_rollout(*group.loaded.task, split, place, kMostFrames);
        if (&group == &tasks[0]) {
          body += format("<h3>Episode %ld (%s)</h3>\n", static_cast<long>(place), escape(view.kind).c_str());
        }
        const std::string name =
            format("%s, episode %ld: truth, prediction, difference", group.label.c_str(), static_cast<long>(place));
        const at::Tensor strip = film_strip(view.truth.select(1, 0), view.prediction.select(1, 0));
        body += "<p>" + escape(group.label) +
                format(", SSIM %.3f at step 1, %.3f at step %zu</p>\n<div class=\"wide\">", view.ssim.front(),
                       view.ssim.back(), view.ssim.size()) +
                inline_image(strip, name) + "</div>\n";
      }
    }
  } catch (const c10::Error& error) {
    body += "<p class=\"soft\">There are no film strips here: " + escape(error_text(error)) + "</p>\n";
  }
  return {"strips", "Film strips", body};
}

}  // namespace topomask::apps
